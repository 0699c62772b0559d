//! What a repair makes of maps of values: of what comes back, of lost streams and lost maps.

use std::path::{Path, PathBuf};

use dochistory_core::Error;
use dochistory_core::history::values::{NewValue, Room};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::delivery::{Inbox, Opening, Settings};
use dochistory_core::repair::{Count, Finding, Remedy};

use crate::harness::closed::maps::MAP;
use crate::harness::closed::{Store, Stored, flip, newest};
use crate::harness::{DAY, Maps, START, open};
use crate::one_file::Repaired;
use crate::{apply, most, plan};

const STREAM: &str = "warehouse";

fn inbox(root: &Path, applied: &[(&str, u64)]) -> dochistory_core::Result<Inbox> {
    let history = History::open(root, &OpenOptions { create: true, ..OpenOptions::default() })?;
    let settings = Settings { own_transaction: true, ..Settings::default() };
    let applied = applied.iter().map(|(stream, upto)| ((*stream).to_owned(), *upto)).collect();
    Inbox::open(history.received_streams(false)?, settings, &Opening { starts: Vec::new(), applied })
}

/// Two streams: what of one lies in a file, and its newest state in another place, which is
/// damaged.
fn two_streams(in_file: bool) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("h");
    drop(inbox(&root, &[(STREAM, 10), ("other", 7)]).unwrap());
    let seal = || {
        let history = History::open(&root, &OpenOptions::default()).unwrap();
        let values = history.values(Room::Delivery, "received").unwrap();
        let snapshot = values.pin().unwrap();
        values.unpin(&snapshot).unwrap();
    };
    seal();
    drop(inbox(&root, &[(STREAM, 20)]).unwrap());
    if in_file {
        seal();
    }
    (directory, root)
}

#[test]
fn a_stream_whose_last_state_is_lost_is_in_doubt_and_named() {
    for (in_file, damaged, place) in [(false, "log", 70), (true, "values", 4100), (true, "values", 30)] {
        let (_directory, root) = two_streams(in_file);
        flip(&newest(&root.join("delivery"), damaged), place, 4);
        assert!(matches!(inbox(&root, &[]), Err(Error::Corrupt { .. })));
        let report = apply(&root);
        assert!(report.is_repaired, "{report:#?}");
        let is_of = |finding: &&Finding| {
            finding.map == Some((Room::Delivery, "received".into())) && finding.ids.contains(&format!("i:{STREAM}"))
        };
        let found = report.findings.iter().find(is_of).unwrap_or_else(|| panic!("{report:#?}"));
        assert!(most(found.returned).is_none_or(|most| most >= 1) && found.bytes > 0, "{report:#?}");
        let again = inbox(&root, &[]).unwrap();
        let states = again.states();
        let (_, state) = states.iter().find(|(name, _)| name == STREAM).unwrap();
        assert_eq!(state.in_doubt(), Some((10, u64::MAX)), "nothing is applied before somebody says how far it was");
        again.settle(STREAM, 20).unwrap();
        let settled = inbox(&root, &[]).unwrap().states();
        assert_eq!(settled.iter().find(|(name, _)| name == STREAM).unwrap().1.log_received, 20);
        Maps::verify(&root).unwrap();
    }
}

#[test]
fn map_without_any_files_is_named_and_becomes_unused() {
    let store = Store::<Maps>::new();
    std::fs::remove_dir_all(store.root.join("mappers")).unwrap();
    assert!(Maps::read(&store.root, true).is_err() && Maps::read(&store.root, false).is_err());
    let report = apply(&store.root);
    assert_eq!((report.findings.len(), report.is_repaired), (1, true), "{report:#?}");
    let finding = &report.findings[0];
    assert_eq!(finding.map, Some((Room::Mapper, MAP.into())));
    assert_eq!((finding.remedy, finding.dropped), (Remedy::Dropped, Count::Unknown));
    let (found, count) = (Maps::read(&store.root, false).unwrap(), Maps::ids().len());
    assert!(found[..count].iter().all(|one| one.starts_with("None")));
    assert!(found[count..] == store.good[count..]);
    assert!(plan(&store.root).findings.is_empty());
    Maps::write(&store.root);
}

#[test]
fn what_a_lost_entry_hid_is_named_when_it_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("h");
    let history = open(&root);
    let values = history.values(Room::Mapper, "jms").unwrap();
    let put = |value: &[u8]| {
        let entry = NewValue { value: Some(value), persist_until: START + DAY, pending: false };
        values.write(|edit| edit.put(values.id(b"urn:1"), entry)).unwrap();
        let snapshot = values.pin().unwrap();
        values.unpin(&snapshot).unwrap();
    };
    put(b"first");
    values.write(|edit| edit.remove(values.id(b"urn:1"))).unwrap();
    drop(values);
    drop(history);
    flip(&newest(&root.join("mappers"), "log"), 100, 1);
    let report = apply(&root);
    assert_eq!(report.findings[0].ids, ["urn:1"]);
    assert_eq!(report.findings[0].returned, Count::AtMost(1));
}
