//! A closed store with values on a real disk, damaged in every way one file can be: flipped bytes,
//! every shorter length, missing, taken for another of its kind, forged. Looking up gives a typed
//! error or the same values; never a panic.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use common::logs::{room, used};
use common::value_store::{Store, held, is_advisory, kind};
use common::{DAY, START};
use dochistory_core::Result;
use dochistory_core::history::values::{NewValue, Room};
use dochistory_core::history::{History, OpenOptions};

const PAGE: usize = 4096;

/// Everything a program can do with a store.
fn use_all(root: &Path) -> Result<()> {
    held(root, false)?;
    let history = History::open(root, &OpenOptions::default())?;
    for room in Room::ALL {
        let values = history.values(room, "channel")?;
        let mut entries = values.entries()?;
        while entries.next_batch()?.is_some() {}
        values.statistics()?;
        values.verify(&mut |_, _| Ok(()))?;
        let entry = NewValue { value: None, persist_until: START, pending: false };
        values.write(|turn| turn.put(values.id(b"urn:new"), entry))?;
        values.purge(START + 5 * DAY, false, false)?;
        let snapshot = values.pin()?;
        values.unpin(&snapshot)?;
        values.maintain(true, &mut |_, _| Ok(()))?;
        values.purge(START + 31 * DAY, true, false)?;
    }
    Ok(())
}

fn places(length: usize) -> Vec<usize> {
    let all = std::env::var("DOCHISTORY_DAMAGE").is_ok_and(|what| what == "all");
    let is_probed = |at: &usize| all || *at < 128 || at.is_multiple_of(61) || at % PAGE < 4 || at % PAGE >= PAGE - 4;
    (0..length).filter(is_probed).collect()
}

#[test]
fn a_flipped_byte_of_a_space_is_noticed_or_changes_nothing() {
    let store = Store::new();
    let mut flipped = 0;
    for (path, bytes) in &store.files {
        let (mut noticed, places) = (0, places(used(path, bytes)));
        flipped += places.len();
        let is_noticed = |at: usize| {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(path, &damaged).unwrap();
            store.notices(&format!("byte {at} of {}", path.display()), true)
        };
        for at in &places {
            noticed += usize::from(is_noticed(*at));
        }
        // Bytes in the room behind a log's frames are a torn tail.
        for at in room(path, bytes) {
            assert!(!is_noticed(at), "byte {at} of the room of {}", path.display());
        }
        std::fs::write(path, bytes).unwrap();
        match kind(path).as_str() {
            "turn" | "upkeep" => assert_eq!(noticed, 0),
            "manifest" | "log" => assert_eq!(noticed, places.len(), "{} is checked whole", path.display()),
            _ => assert!(noticed > places.len() / 10, "{}: {noticed} of {}", path.display(), places.len()),
        }
    }
    eprintln!("figure: bytes of maps flipped = {flipped}");
}

#[test]
fn a_shortened_missing_or_swapped_file_of_a_space_is_noticed() {
    let store = Store::new();
    let mut cut = 0;
    for (path, bytes) in &store.files {
        let lengths = places(used(path, bytes));
        cut += lengths.len();
        for length in lengths.into_iter().chain(room(path, bytes)) {
            std::fs::write(path, &bytes[..length]).unwrap();
            let noticed = store.notices(&format!("{} at {length} bytes", path.display()), true);
            let is_missed = length < used(path, bytes) && !is_advisory(path);
            assert_eq!(noticed, is_missed, "{} at {length} bytes", path.display());
        }
        std::fs::remove_file(path).unwrap();
        for read_only in [true, false] {
            assert_eq!(store.notices("a missing file", read_only), !is_advisory(path), "{}", path.display());
        }
        store.restore();
    }
    eprintln!("figure: lengths of maps' files cut to = {cut}");
    let pairs = store.files.iter().flat_map(|one| store.files.iter().map(move |two| (one, two)));
    for ((one, a), (two, b)) in pairs.filter(|((one, _), (two, _))| one < two && kind(one) == kind(two)) {
        std::fs::write(one, b).unwrap();
        std::fs::write(two, a).unwrap();
        let noticed = store.notices(&format!("{} and {} swapped", one.display(), two.display()), true);
        assert!(noticed || a == b || is_advisory(one), "{} and {}", one.display(), two.display());
        store.restore();
    }
}

/// Change bytes of a file of values and make every checksum fit again, as somebody who means harm
/// would.
fn forge(store: &Store, path: &Path, at: usize, value: &[u8]) {
    let old = &store.files[path];
    let mut bytes = old.clone();
    let end = (at + value.len()).min(bytes.len());
    bytes[at..end].copy_from_slice(&value[..end - at]);
    let pages = old.len() / (PAGE + 4);
    let rest = bytes[..pages * PAGE].chunks(PAGE).skip(1).map(crc32c::crc32c);
    let sums: Vec<u8> = std::iter::once(0).chain(rest).flat_map(u32::to_le_bytes).collect();
    bytes[pages * PAGE..].copy_from_slice(&sums);
    if !(80..84).contains(&at) {
        bytes[80..84].copy_from_slice(&crc32c::crc32c(&sums).to_le_bytes());
    }
    let header = crc32c::crc32c(&bytes[..PAGE - 4]).to_le_bytes();
    bytes[PAGE - 4..PAGE].copy_from_slice(&header);
    std::fs::write(path, &bytes).unwrap();
    for (manifest, bytes) in store.files.iter().filter(|(other, _)| kind(other) == "manifest") {
        let mut bytes = bytes.clone();
        if let Some(at) = bytes.windows(4).position(|window| *window == old[PAGE - 4..PAGE]) {
            bytes[at..at + 4].copy_from_slice(&header);
        }
        close(&mut bytes);
        std::fs::write(manifest, bytes).unwrap();
    }
}

/// Put a checksum at the end.
fn close(bytes: &mut [u8]) {
    let (content, sum) = bytes.split_last_chunk_mut::<4>().unwrap();
    *sum = crc32c::crc32c(content).to_le_bytes();
}

#[test]
fn forged_files_of_a_space_make_errors_and_never_a_panic() {
    let store = Store::new();
    let values: [&[u8]; 6] = [&[0xff; 8], &[0; 8], &[1, 0, 0, 0, 0, 0, 0, 0x80], &[0xff; 4], &[7], &[0xff]];
    let (mut refused, mut tried) = (0, 0);
    let forgeable = store.files.iter().filter(|(path, _)| ["values", "manifest"].contains(&kind(path).as_str()));
    for (path, bytes) in forgeable {
        let places = (0..bytes.len() - 4).filter(|at| *at < 480 && at % 4 == 0 || at % 197 == 0);
        for (step, at) in places.enumerate() {
            let value = values[(step + at) % values.len()];
            if kind(path) == "values" {
                forge(&store, path, at, value);
            } else {
                let mut forged = bytes.clone();
                let end = (at + value.len()).min(forged.len());
                forged[at..end].copy_from_slice(&value[..end - at]);
                close(&mut forged);
                std::fs::write(path, forged).unwrap();
            }
            let used = std::panic::catch_unwind(|| use_all(&store.root));
            assert!(used.is_ok(), "{} with {value:?} at {at}", path.display());
            refused += usize::from(used.unwrap().is_err());
            tried += 1;
            store.restore();
        }
    }
    assert!(refused > tried / 20, "{refused} of {tried} refused");
}
