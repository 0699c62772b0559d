//! A closed store on a real disk, damaged in every way one file can be: flipped bytes, every
//! shorter length, missing, taken for another of its kind. Reopening and classifying gives a typed
//! error or the same verdicts; never another verdict, never a panic.
//!
//! Long files are probed in steps; `DOCHISTORY_DAMAGE=all` tries each of their bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use common::logs::{frames, room, used};
use common::store::{Files, Store, TRIGGERS, ids, named, restore, verdicts};
use common::{DAY, Ids, START};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::{Call, OnReplay};
use dochistory_core::{Purge, Result};

/// The places of a file to try: all of a short one, the header and a step through the rest of a
/// long one.
fn places(length: usize) -> Vec<usize> {
    let all = length <= 1024 || std::env::var("DOCHISTORY_DAMAGE").is_ok_and(|what| what == "all");
    let is_probed = |at: &usize| all || *at < 256 || at.is_multiple_of(29) || at % 4096 < 4 || at % 4096 >= 4092;
    (0..length).filter(is_probed).collect()
}

#[test]
fn a_flipped_byte_is_noticed_or_changes_nothing() {
    let mut store = Store::new();
    let mut flipped = 0;
    for (path, bytes) in store.files.clone() {
        let kind = Store::kind(&path);
        let mut noticed = 0;
        let places = places(used(&path, &bytes));
        flipped += places.len();
        let mut is_noticed = |at: usize| {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&path, &damaged).unwrap();
            store.check(&format!("byte {at} of {}", path.display()), true)
        };
        for at in &places {
            noticed += usize::from(is_noticed(*at));
        }
        // Bytes in the room behind a log's frames are a torn tail.
        for at in room(&path, &bytes) {
            assert!(!is_noticed(at), "byte {at} of the room of {}", path.display());
        }
        std::fs::write(&path, &bytes).unwrap();
        match kind.as_str() {
            "turn" | "upkeep" | "load" | "HISTORY.copy" | "known" => assert_eq!(noticed, 0, "{kind} is advisory"),
            "HISTORY" | "manifest" | "log" => assert_eq!(noticed, places.len(), "{kind} is checked whole"),
            _ => assert!(noticed > places.len() / 10, "{kind}: {noticed} of {}", places.len()),
        }
    }
    eprintln!("figure: bytes flipped = {flipped}");
    assert_eq!(verdicts(&store.root, true).unwrap(), store.good);
}

#[test]
fn a_shortened_or_missing_file_is_noticed_or_changes_nothing() {
    let mut store = Store::new();
    let mut cut = 0;
    for (path, bytes) in store.files.clone() {
        let is_advisory = Store::is_advisory(&path);
        let lengths = places(used(&path, &bytes));
        cut += lengths.len();
        for length in lengths.into_iter().chain(room(&path, &bytes)) {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let noticed = store.check(&format!("{} at {length} bytes", path.display()), true);
            let is_missed = length < used(&path, &bytes) && !is_advisory;
            assert_eq!(noticed, is_missed, "{} at {length} bytes", path.display());
        }
        std::fs::remove_file(&path).unwrap();
        for read_only in [true, false] {
            let noticed = store.check(&format!("{} missing", path.display()), read_only);
            assert_eq!(noticed, !is_advisory, "{} missing", path.display());
        }
        restore(&store.root.clone(), &store.files.clone());
    }
    eprintln!("figure: lengths cut to = {cut}");
    assert_eq!(verdicts(&store.root, true).unwrap(), store.good);
}

#[test]
fn an_identity_that_is_gone_is_not_made_anew() {
    let store = Store::new();
    std::fs::remove_file(store.root.join("HISTORY")).unwrap();
    let opened = History::open(&store.root, &OpenOptions { create: true, ..OpenOptions::default() });
    assert!(opened.unwrap_err().to_string().contains("restores it"));
}

#[test]
fn a_trigger_whose_files_are_all_gone_is_none_that_was_never_used() {
    for with_directory in [true, false] {
        let mut store = Store::new();
        let is_of_orders =
            |path: &&std::path::PathBuf| path.parent().unwrap().to_string_lossy().contains("triggers/orders-");
        let gone: Vec<_> = store.files.keys().filter(is_of_orders).cloned().collect();
        for path in &gone {
            std::fs::remove_file(path).unwrap();
        }
        if !with_directory {
            std::fs::remove_dir(gone[0].parent().unwrap()).unwrap();
        }
        for read_only in [true, false] {
            assert!(store.check("all files of a trigger are gone", read_only));
        }
        let history = History::open(&store.root, &OpenOptions::default()).unwrap();
        let ids = Ids::new(&ids());
        let begun = history.begin(&named("orders"), &ids.documents(), &mut Call::at(START), None, OnReplay::ByRules);
        let text = begun.unwrap_err().to_string();
        assert!(text.contains("known/triggers-orders-") && text.contains("dochistory repair"), "{text}");
        assert!(history.triggers().is_err() && history.verify("orders", &mut |_, _| Ok(())).is_err());
        // The other one goes on, and so does a store of a build that named nothing.
        history.verify("invoices", &mut |_, _| Ok(())).unwrap();
        std::fs::remove_dir_all(store.root.join("known")).unwrap();
        assert_eq!(history.triggers().unwrap(), ["invoices"]);
    }
}

#[test]
fn a_store_without_names_of_its_triggers_gets_them_with_the_next_change() {
    let mut store = Store::new();
    std::fs::remove_dir_all(store.root.join("known")).unwrap();
    assert!(!store.check("no names", true));
    let history = History::open(&store.root, &OpenOptions::default()).unwrap();
    history.complete_keys(&named("orders"), &Ids::new(&["urn:any"]).documents(), START).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(store.root.join("known")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names.len(), 1);
    assert_eq!(std::fs::read_to_string(&names[0]).unwrap(), "orders");
}

#[test]
fn a_file_in_the_place_of_another_is_noticed() {
    let (mut store, other) = (Store::new(), Store::new());
    let files = store.files.clone();
    let pairs = files.iter().flat_map(|one| files.iter().map(move |two| (one, two)));
    for ((one, a), (two, b)) in pairs.filter(|((one, _), (two, _))| one < two && Store::kind(one) == Store::kind(two)) {
        std::fs::write(one, b).unwrap();
        std::fs::write(two, a).unwrap();
        let noticed = store.check(&format!("{} and {} swapped", one.display(), two.display()), true);
        assert!(noticed || a == b || Store::is_advisory(one), "{}", one.display());
        restore(&store.root.clone(), &files);
    }
    // The same file of another history.
    for (path, bytes) in &other.files {
        let here = store.root.join(path.strip_prefix(&other.root).unwrap());
        std::fs::write(&here, bytes).unwrap();
        let noticed = store.check(&format!("{} from another history", here.display()), true);
        assert!(noticed || Store::is_advisory(path), "{}", here.display());
        restore(&store.root.clone(), &files);
    }
    assert!(store.errors > 10);
}

/// Change bytes and make every checksum fit again, as somebody who means harm would.
fn forge(files: &Files, path: &Path, at: usize, value: &[u8]) -> Files {
    const PAGE: usize = 4096;
    let mut files = files.clone();
    let bytes = files.get_mut(path).unwrap();
    let end = (at + value.len()).min(bytes.len());
    let old = bytes.clone();
    bytes[at..end].copy_from_slice(&value[..end - at]);
    let kind = Store::kind(path);
    if kind == "segment" || kind == "filter" {
        let pages = old.len() / (PAGE + 4);
        let sums: Vec<u8> = std::iter::once(0)
            .chain(bytes[..pages * PAGE].chunks(PAGE).skip(1).map(crc32c::crc32c))
            .flat_map(u32::to_le_bytes)
            .collect();
        let old_sum = crc32c::crc32c(&old[pages * PAGE..]).to_le_bytes();
        replace(&mut bytes[..PAGE], old_sum, crc32c::crc32c(&sums).to_le_bytes());
        bytes[pages * PAGE..].copy_from_slice(&sums);
        let header = crc32c::crc32c(&bytes[..PAGE - 4]).to_le_bytes();
        bytes[PAGE - 4..PAGE].copy_from_slice(&header);
        let old_header: [u8; 4] = old[PAGE - 4..PAGE].try_into().unwrap();
        for manifest in files.iter_mut().filter(|(path, _)| Store::kind(path) == "manifest").map(|(_, bytes)| bytes) {
            replace(manifest, old_header, header);
            close(manifest);
        }
    } else if kind == "log" {
        let start = if at < 64 { 0 } else { frames(&old).into_iter().rfind(|start| *start <= at).unwrap() };
        if start == 0 {
            close(&mut bytes[..64]);
        } else {
            let payload = u64::from_le_bytes(old[start + 56..start + 64].try_into().unwrap()) as usize;
            let sum = crc32c::crc32c(&bytes[start + 96..start + 96 + payload]).to_le_bytes();
            bytes[start + 72..start + 76].copy_from_slice(&sum);
            close(&mut bytes[start..start + 96]);
        }
    } else {
        close(bytes);
    }
    files
}

fn replace(bytes: &mut [u8], old: [u8; 4], new: [u8; 4]) {
    if let Some(at) = bytes.windows(4).position(|window| window == old) {
        bytes[at..at + 4].copy_from_slice(&new);
    }
}

/// Put a checksum at the end.
fn close(bytes: &mut [u8]) {
    let (content, sum) = bytes.split_last_chunk_mut::<4>().unwrap();
    *sum = crc32c::crc32c(content).to_le_bytes();
}

/// Everything a program can do with a store.
fn use_all(root: &Path) -> Result<()> {
    let history = History::open(root, &OpenOptions::default())?;
    let ids = Ids::new(&ids());
    for name in TRIGGERS {
        let trigger = named(name);
        history.classify(&trigger, &ids.documents(), &mut Call::at(START))?;
        let mut entries = history.entries(name, None)?;
        while entries.next_batch()?.is_some() {}
        history.statistics(name)?;
        history.verify(name, &mut |_, _| Ok(()))?;
        history.begin(&trigger, &ids.documents(), &mut Call::at(START + 4 * DAY), None, OnReplay::ByRules)?;
        history.complete_keys(&trigger, &ids.documents(), START + 4 * DAY)?;
        let snapshot = history.pin(name)?;
        history.unpin(name, &snapshot)?;
        history.maintain(name, true, &mut |_, _| Ok(()))?;
        history.purge(&trigger, Purge::at(START + 31 * DAY))?;
    }
    Ok(())
}

#[test]
fn forged_files_make_errors_and_never_a_panic() {
    let store = Store::new();
    let values: [&[u8]; 8] = [
        &[0xff; 8],
        &[0; 8],
        &[1, 0, 0, 0, 0, 0, 0, 0x80],
        &[0xff; 4],
        &[0; 4],
        &[0xff],
        &[7],
        &[0, 0, 0, 0, 1, 0, 0, 0],
    ];
    let mut refused = 0;
    let mut tried = 0;
    for (path, bytes) in store.files.iter().filter(|(path, _)| !Store::is_advisory(path)) {
        let places = (0..used(path, bytes)).filter(|at| *at < 320 && at % 4 == 0 || at % 389 == 0 || at % 4096 == 64);
        for (step, at) in places.enumerate() {
            for value in [values[step % values.len()], values[(step / 3 + at) % values.len()]] {
                let forged = forge(&store.files, path, at, value);
                restore(&store.root, &forged);
                let used = std::panic::catch_unwind(|| use_all(&store.root));
                assert!(used.is_ok(), "{} with {value:?} at {at}", path.display());
                refused += usize::from(used.unwrap().is_err());
                tried += 1;
            }
        }
    }
    assert!(refused > tried / 20, "{refused} of {tried} refused");
}
