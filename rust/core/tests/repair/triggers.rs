//! What a repair makes of a history that is newer, not itself, or without a trigger's files.

use std::path::PathBuf;

use dochistory_core::Error;
use dochistory_core::repair::{Count, Options, Remedy, repair};

use crate::harness::closed::triggers::named;
use crate::harness::closed::{Store, Stored, files_of, kind};
use crate::harness::{START, Triggers, begin, open, rules};
use crate::{apply, plan};

#[test]
fn a_store_of_a_newer_version_is_not_taken_for_a_damaged_one() {
    let store = Store::<Triggers>::new();
    let is_manifest = |path: &&PathBuf| kind(path) == "manifest";
    let path = store.files.keys().find(is_manifest).unwrap();
    let mut bytes = store.files[path].clone();
    bytes[8] = 99;
    let content = bytes.len() - 4;
    let sum = crc32c::crc32c(&bytes[..content]).to_le_bytes();
    bytes[content..].copy_from_slice(&sum);
    std::fs::write(path, &bytes).unwrap();
    let refused = repair(&store.root, &Options { apply: true, ..Options::default() }, &mut |_, _| Ok(())).unwrap_err();
    assert!(refused.to_string().contains("install a newer dochistory"), "{refused}");
    assert!(files_of(&store.root)[path] == bytes);
}

#[test]
fn a_history_without_identity_or_with_anothers_is_left_alone() {
    let store = Store::<Triggers>::new();
    let elsewhere = Store::<Triggers>::new();
    let (file, spare) = (store.root.join("HISTORY"), store.root.join("HISTORY.copy"));
    for with_copy in [true, false] {
        store.restore();
        if !with_copy {
            std::fs::remove_file(&spare).unwrap();
        }
        std::fs::copy(elsewhere.root.join("HISTORY"), &file).unwrap();
        let report = apply(&store.root);
        assert!(!report.is_repaired && report.aside.is_none(), "{report:?}");
        assert!(report.findings.iter().any(|finding| finding.remedy == Remedy::Impossible), "{report:?}");
    }
    std::fs::remove_file(&file).unwrap();
    let report = apply(&store.root);
    assert_eq!((report.is_repaired, report.findings[0].remedy), (false, Remedy::Impossible));
    let nothing = repair(&store.root.join("nowhere"), &Options::default(), &mut |_, _| Ok(()));
    assert!(matches!(nothing, Err(Error::Open { .. })));
}

#[test]
fn trigger_without_any_files_is_named_and_becomes_unused() {
    let store = Store::<Triggers>::new();
    let gone =
        files_of(&store.root).into_keys().find(|path| path.to_string_lossy().contains("triggers/orders-")).unwrap();
    std::fs::remove_dir_all(gone.parent().unwrap()).unwrap();
    let planned = plan(&store.root);
    assert!(Triggers::read(&store.root, true).is_err());
    let report = apply(&store.root);
    assert_eq!(format!("{:?}", report.findings), format!("{:?}", planned.findings));
    assert_eq!((report.findings.len(), report.is_repaired), (1, true), "{report:#?}");
    let finding = &report.findings[0];
    assert_eq!((finding.trigger.as_deref(), finding.remedy), (Some("orders"), Remedy::Dropped));
    assert_eq!(finding.dropped, Count::Unknown);
    assert!(plan(&store.root).findings.is_empty());
    let kept = files_of(&report.aside.unwrap());
    assert!(kept.values().any(|bytes| bytes == b"orders"), "its name is kept");
    let history = open(&store.root);
    assert_eq!(rules(&history, &named("orders"), &["urn:text:0"], START), ["R8"]);
    begin(&history, &named("orders"), &["urn:text:0"], START);
    drop(history);
    assert!(plan(&store.root).findings.is_empty());
}

#[test]
fn trigger_that_left_a_lock_or_a_filter_becomes_unused_too() {
    let store = Store::<Triggers>::new();
    for left in [&["turn"][..], &["filter", "turn"], &["filter"]] {
        for is_named in [true, false] {
            store.restore();
            for path in files_of(&store.root).into_keys() {
                let (path, name) = (store.root.join(&path), path.to_string_lossy().into_owned());
                let file = name.rsplit('/').next().unwrap();
                let is_left = left.iter().any(|prefix| file.starts_with(prefix));
                if (name.contains("triggers/orders-") && !is_left)
                    || (name.contains("known/triggers-orders-") && !is_named)
                {
                    std::fs::remove_file(path).unwrap();
                }
            }
            if left.contains(&"filter") || is_named {
                let report = apply(&store.root);
                assert_eq!((report.findings.len(), report.is_repaired), (1, true), "{left:?}: {report:#?}");
            }
            assert!(plan(&store.root).findings.is_empty(), "{left:?}, {is_named}");
            let history = open(&store.root);
            begin(&history, &named("orders"), &["urn:text:0"], START);
            assert_ne!(rules(&history, &named("orders"), &["urn:text:0"], START), ["R8"]);
            drop(history);
            assert_ne!(rules(&open(&store.root), &named("orders"), &["urn:text:0"], START), ["R8"]);
            assert!(plan(&store.root).findings.is_empty(), "{left:?}, {is_named}");
        }
    }
}
