//! A closed store with values on a real disk, damaged in every way one file can be: flipped bytes, every shorter length,
//! missing, taken for another of its kind, forged. Looking up gives a typed error or the same values; never a panic.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use common::{DAY, Ids, START, open, uuids};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::values::{Entry, Room, Work};
use dochistory_core::{Error, Result};

const PAGE: usize = 4096;

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn ids() -> Vec<String> {
    let texts = (0..30).map(|number| format!("urn:text:{number}"));
    uuids(0..60).into_iter().chain(texts).collect()
}

/// A space of values of each room, with plain and later files, what is removed and pending, and a log.
fn build(root: &Path) {
    let (history, ids) = (open(root), ids());
    for (room, value) in [(Room::Mapper, "external"), (Room::Delivery, "state")] {
        let values = history.values(room, "channel").unwrap();
        for round in 0..3usize {
            let change = |turn: &mut Work| {
                for (row, id) in ids.iter().enumerate().skip(round * 10).take(30) {
                    let value = format!("{value} {round} {row}");
                    let (persist_until, pending) = (START + (row as i64 % 20) * DAY, row % 3 == 0);
                    let entry = Entry { value: Some(value.as_bytes()), persist_until, pending };
                    turn.put(values.id(id.as_bytes()), entry)?;
                }
                turn.remove(values.id(ids[round * 10].as_bytes()))
            };
            values.write(change).unwrap();
            if round < 2 {
                let snapshot = values.pin().unwrap();
                values.unpin(&snapshot).unwrap();
            }
        }
    }
}

/// What the spaces hold of all ids.
fn held(root: &Path, read_only: bool) -> Result<Vec<String>> {
    let history = History::open(root, &OpenOptions { read_only, ..OpenOptions::default() })?;
    let ids = ids();
    let column = Ids::new(&ids);
    let documents = column.documents();
    let mut all = Vec::new();
    for room in Room::ALL {
        let values = history.values(room, "channel")?;
        let found = values.look(&values.ids(&documents.ids[0]))?;
        let one = |row| format!("{:?} {} {}", found.value(row), found.persist_until(row), found.is_pending(row));
        all.extend((0..ids.len()).map(one));
    }
    Ok(all)
}

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
        let entry = Entry { value: None, persist_until: START, pending: false };
        values.write(|turn| turn.put(values.id(b"urn:new"), entry))?;
        values.purge(START + 5 * DAY, false, false)?;
        let snapshot = values.pin()?;
        values.unpin(&snapshot)?;
        values.maintain(true, &mut |_, _| Ok(()))?;
        values.purge(START + 31 * DAY, true, false)?;
    }
    Ok(())
}

struct Store {
    _directory: tempfile::TempDir,
    root: PathBuf,
    /// The files of the spaces; those of the history itself are another test's.
    files: Files,
    good: Vec<String>,
}

impl Store {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let root = directory.path().join("h");
        build(&root);
        let good = held(&root, true).unwrap();
        let mut files = Files::new();
        for room in ["mappers", "delivery"] {
            collect(&root.join(room), &mut files);
        }
        assert!(files.keys().filter(|path| kind(path) == "values").count() >= 4);
        Self { _directory: directory, root, files, good }
    }

    /// Whether damage was noticed; otherwise it must have changed nothing.
    fn notices(&self, what: &str, read_only: bool) -> bool {
        match std::panic::catch_unwind(AssertUnwindSafe(|| held(&self.root, read_only))) {
            Err(cause) => panic!("{what}: a panic: {cause:?}"),
            Ok(Ok(found)) => assert!(found == self.good, "{what}: other values"),
            Ok(Err(Error::Corrupt { .. } | Error::Open { .. })) => return true,
            Ok(Err(error)) => panic!("{what}: {error}"),
        }
        false
    }

    fn restore(&self) {
        let mut now = Files::new();
        for room in ["mappers", "delivery"] {
            collect(&self.root.join(room), &mut now);
        }
        for path in now.keys().filter(|path| !self.files.contains_key(*path)) {
            std::fs::remove_file(path).unwrap();
        }
        for (path, bytes) in self.files.iter().filter(|(path, bytes)| now.get(*path) != Some(bytes)) {
            std::fs::write(path, bytes).unwrap();
        }
    }
}

fn collect(directory: &Path, files: &mut Files) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
}

fn kind(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().split('-').next().unwrap().to_owned()
}

fn is_advisory(path: &Path) -> bool {
    ["turn", "upkeep"].contains(&kind(path).as_str())
}

fn places(length: usize) -> Vec<usize> {
    let is_probed = |at: &usize| *at < 128 || at.is_multiple_of(61) || at % PAGE < 4 || at % PAGE >= PAGE - 4;
    (0..length).filter(is_probed).collect()
}

#[test]
fn a_flipped_byte_of_a_space_is_noticed_or_changes_nothing() {
    let store = Store::new();
    for (path, bytes) in &store.files {
        let (mut noticed, places) = (0, places(bytes.len()));
        for at in &places {
            let mut damaged = bytes.clone();
            damaged[*at] ^= 1 << (at % 8);
            std::fs::write(path, &damaged).unwrap();
            noticed += usize::from(store.notices(&format!("byte {at} of {}", path.display()), true));
        }
        std::fs::write(path, bytes).unwrap();
        match kind(path).as_str() {
            "turn" | "upkeep" => assert_eq!(noticed, 0),
            "manifest" | "log" => assert_eq!(noticed, places.len(), "{} is checked whole", path.display()),
            _ => assert!(noticed > places.len() / 10, "{}: {noticed} of {}", path.display(), places.len()),
        }
    }
}

#[test]
fn a_shortened_missing_or_swapped_file_of_a_space_is_noticed() {
    let store = Store::new();
    for (path, bytes) in &store.files {
        for length in places(bytes.len()) {
            std::fs::write(path, &bytes[..length]).unwrap();
            let noticed = store.notices(&format!("{} at {length} bytes", path.display()), true);
            assert_eq!(noticed, !is_advisory(path), "{} at {length} bytes", path.display());
        }
        std::fs::remove_file(path).unwrap();
        for read_only in [true, false] {
            assert_eq!(store.notices("a missing file", read_only), !is_advisory(path), "{}", path.display());
        }
        store.restore();
    }
    let pairs = store.files.iter().flat_map(|one| store.files.iter().map(move |two| (one, two)));
    for ((one, a), (two, b)) in pairs.filter(|((one, _), (two, _))| one < two && kind(one) == kind(two)) {
        std::fs::write(one, b).unwrap();
        std::fs::write(two, a).unwrap();
        let noticed = store.notices(&format!("{} and {} swapped", one.display(), two.display()), true);
        assert!(noticed || a == b || is_advisory(one), "{} and {}", one.display(), two.display());
        store.restore();
    }
}

/// Change bytes of a file of values and make every checksum fit again, as somebody who means harm would.
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
