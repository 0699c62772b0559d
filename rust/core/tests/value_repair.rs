//! Repairing maps of values that were damaged in every way one file can be: afterwards all of it is
//! whole, and every id holds what it held, or is named; nothing goes back to an earlier state that
//! was not said to.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};

use common::store::{Files, collect, ids};
use common::value_store::{Store, held, is_advisory, kind};
use common::{DAY, START};
use dochistory_core::Error;
use dochistory_core::history::values::{NewValue, Room};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::delivery::{Inbox, Opening, Settings};
use dochistory_core::repair::{Count, Options, Remedy, Report, repair};

fn look(root: &Path) -> Report {
    repair(root, &Options::default(), &mut |_, _| Ok(())).unwrap()
}

fn apply(root: &Path) -> Report {
    repair(root, &Options { apply: true, ..Options::default() }, &mut |_, _| Ok(())).unwrap()
}

fn now(root: &Path) -> Files {
    let mut files = Files::new();
    collect(root, &mut files);
    files
}

fn verify(root: &Path) -> Result<(), Error> {
    let history = History::open(root, &OpenOptions { read_only: true, ..OpenOptions::default() })?;
    for room in Room::ALL {
        for name in history.value_spaces(room)? {
            history.values(room, &name)?.verify(&mut |_, _| Ok(()))?;
        }
    }
    Ok(())
}

fn most(count: Count) -> u64 {
    match count {
        Count::Exactly(entries) | Count::AtMost(entries) => entries,
        Count::AtLeast(_) | Count::Unknown => u64::MAX,
    }
}

/// Whether what the maps hold is what they held, but for what the report speaks of.
fn compare(what: &str, report: &Report, good: &[String], found: &[String]) {
    let sum = |count: fn(&dochistory_core::repair::Finding) -> Count| {
        report.findings.iter().fold(0u64, |sum, finding| sum.saturating_add(most(count(finding))))
    };
    let (dropped, returned) = (sum(|finding| finding.dropped), sum(|finding| finding.returned));
    let ids = ids();
    let (mut gone, mut earlier) = (0, 0);
    for (row, (old, new)) in good.iter().zip(found).enumerate().filter(|(_, (old, new))| old != new) {
        let id = &ids[row % ids.len()];
        if new.starts_with("None") {
            gone += 1;
        } else {
            earlier += 1;
            let is_named = report.findings.iter().any(|finding| finding.ids.contains(id));
            assert!(is_named, "{what}: {id} held {old}, holds {new}, and is not named\n{report:#?}");
        }
    }
    assert!(gone <= dropped, "{what}: {gone} are gone, {dropped} were said to be\n{report:#?}");
    assert!(earlier <= returned, "{what}: {earlier} went back, {returned} were said to\n{report:#?}");
}

/// What came of the damages.
#[derive(Debug, Default)]
struct Seen {
    harmless: usize,
    rebuilt: usize,
    salvaged: usize,
    dropped: usize,
}

impl Seen {
    fn repaired(&mut self, what: &str, store: &Store) {
        let damaged = now(&store.root);
        let planned = look(&store.root);
        assert!(now(&store.root) == damaged, "{what}: looking has changed something");
        if planned.findings.is_empty() {
            verify(&store.root).unwrap_or_else(|error| panic!("{what}: not found: {error}"));
            assert!(held(&store.root, true).unwrap() == store.good, "{what}");
            self.harmless += 1;
            return;
        }
        let report = apply(&store.root);
        assert_eq!(format!("{:?}", report.findings), format!("{:?}", planned.findings), "{what}");
        assert!(report.is_repaired, "{what}: {report:#?}");
        verify(&store.root).unwrap_or_else(|error| panic!("{what}: not mended: {error}\n{report:#?}"));
        compare(what, &report, &store.good, &held(&store.root, true).unwrap());
        assert!(look(&store.root).findings.is_empty(), "{what}: a second repair finds {:#?}", look(&store.root));
        let after = now(&store.root);
        let is_kept =
            |(path, bytes): (&PathBuf, &Vec<u8>)| is_advisory(path) || after.values().any(|kept| kept == bytes);
        assert!(damaged.iter().all(is_kept), "{what}: a file is gone");
        let found = held(&store.root, true).unwrap();
        upkeep(&store.root);
        assert!(held(&store.root, true).unwrap() == found, "{what}: upkeep changes something");
        let has = |remedy| report.findings.iter().any(|finding| finding.remedy == remedy);
        self.dropped += usize::from(has(Remedy::Dropped));
        self.salvaged += usize::from(has(Remedy::Salvaged));
        self.rebuilt += usize::from(has(Remedy::Rebuilt));
    }
}

/// It can be written to, and put together.
fn upkeep(root: &Path) {
    let history = History::open(root, &OpenOptions::default()).unwrap();
    for room in Room::ALL {
        let values = history.values(room, "channel").unwrap();
        let entry = NewValue { value: Some(b"new"), persist_until: START, pending: false };
        values.write(|turn| turn.put(values.id(b"urn:another"), entry)).unwrap();
        values.maintain(true, &mut |_, _| Ok(())).unwrap();
    }
}

fn every_file(what: &str, step: impl Fn(&Store, &Path, &[u8], &mut Seen)) -> Seen {
    let store = Store::new();
    let mut seen = Seen::default();
    for (path, bytes) in store.files.iter().filter(|(path, _)| !is_advisory(path)) {
        step(&store, path, bytes, &mut seen);
    }
    eprintln!("figure: repairs of {what} files of maps = {}", seen.rebuilt + seen.salvaged + seen.dropped);
    seen
}

/// As it was, without what a repair kept.
fn renew(store: &Store) {
    for entry in std::fs::read_dir(&store.root).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("repaired-") {
            std::fs::remove_dir_all(path).unwrap();
        }
    }
    store.restore();
}

#[test]
fn after_a_repair_of_flipped_bytes_of_a_map_only_what_was_named_is_missing() {
    let seen = every_file("flipped", |store, path, bytes, seen| {
        for at in (0..bytes.len()).filter(|at| *at < 64 && at % 21 == 0 || at % 1499 == 40 || at % 4096 == 4095) {
            renew(store);
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(path, damaged).unwrap();
            seen.repaired(&format!("{} flipped at {at}", path.display()), store);
        }
    });
    assert!(seen.rebuilt > 5 && seen.salvaged > 5 && seen.dropped > 3, "{seen:?}");
}

#[test]
fn after_a_repair_of_shortened_and_missing_files_of_a_map_only_what_was_named_is_missing() {
    let seen = every_file("shortened", |store, path, bytes, seen| {
        for length in [40, 5000, bytes.len() / 2, bytes.len() - 1] {
            renew(store);
            std::fs::write(path, &bytes[..length.min(bytes.len() - 1)]).unwrap();
            seen.repaired(&format!("{} cut to {length}", path.display()), store);
        }
        renew(store);
        std::fs::remove_file(path).unwrap();
        seen.repaired(&format!("{} missing", path.display()), store);
    });
    assert!(seen.dropped > 5 && seen.rebuilt > 3, "{seen:?}");
}

#[test]
fn after_a_repair_of_files_of_a_map_in_the_place_of_others_only_what_was_named_is_missing() {
    let seen = every_file("swapped", |store, path, bytes, seen| {
        for (other, content) in &store.files {
            let is_of_one_room = other.parent() == path.parent();
            if is_of_one_room && other != path && content != bytes && kind(other) == kind(path) {
                renew(store);
                std::fs::write(path, content).unwrap();
                seen.repaired(&format!("{} in the place of {}", other.display(), path.display()), store);
            }
        }
    });
    assert!(seen.dropped > 3, "{seen:?}");
}

const STREAM: &str = "warehouse";

fn inbox(root: &Path, applied: &[(&str, u64)]) -> dochistory_core::Result<Inbox> {
    let history = History::open(root, &OpenOptions { create: true, ..OpenOptions::default() })?;
    let settings = Settings { own_transaction: true, ..Settings::default() };
    let applied = applied.iter().map(|(stream, upto)| ((*stream).to_owned(), *upto)).collect();
    Inbox::open(history.received_streams(false)?, settings, &Opening { starts: Vec::new(), applied })
}

/// The file of a kind in the space of received streams.
fn received(root: &Path, wanted: &str) -> PathBuf {
    let mut files = Files::new();
    collect(&root.join("delivery"), &mut files);
    files.into_keys().filter(|path| kind(path) == wanted).max().unwrap()
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
        let path = received(&root, damaged);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[place] ^= 4;
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(inbox(&root, &[]), Err(Error::Corrupt { .. })));
        let report = apply(&root);
        assert!(report.is_repaired, "{report:#?}");
        let is_of = |finding: &&dochistory_core::repair::Finding| {
            finding.map == Some((Room::Delivery, "received".into())) && finding.ids.contains(&format!("i:{STREAM}"))
        };
        let found = report.findings.iter().find(is_of).unwrap_or_else(|| panic!("{report:#?}"));
        assert!(most(found.returned) >= 1 && found.bytes > 0, "{report:#?}");
        let again = inbox(&root, &[]).unwrap();
        let states = again.states();
        let (_, state) = states.iter().find(|(name, _)| name == STREAM).unwrap();
        assert_eq!(state.in_doubt(), Some((10, u64::MAX)), "nothing is applied before somebody says how far it was");
        again.settle(STREAM, 20).unwrap();
        let settled = inbox(&root, &[]).unwrap().states();
        assert_eq!(settled.iter().find(|(name, _)| name == STREAM).unwrap().1.log_received, 20);
        verify(&root).unwrap();
    }
}

#[test]
fn a_map_whose_files_are_all_gone_is_named_and_becomes_one_that_was_never_used() {
    let store = Store::new();
    std::fs::remove_dir_all(store.root.join("mappers")).unwrap();
    assert!(held(&store.root, true).is_err() && held(&store.root, false).is_err());
    let report = apply(&store.root);
    assert_eq!((report.findings.len(), report.is_repaired), (1, true), "{report:#?}");
    let finding = &report.findings[0];
    assert_eq!(finding.map, Some((Room::Mapper, "channel".into())));
    assert_eq!((finding.remedy, finding.dropped), (Remedy::Dropped, Count::Unknown));
    let found = held(&store.root, false).unwrap();
    assert!(found[..ids().len()].iter().all(|one| one.starts_with("None")));
    assert!(found[ids().len()..] == store.good[ids().len()..]);
    assert!(look(&store.root).findings.is_empty());
    upkeep(&store.root);
}

#[test]
fn what_a_lost_entry_hid_is_named_when_it_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("h");
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    let history = History::open(&root, &options).unwrap();
    let values = history.values(Room::Mapper, "jms").unwrap();
    let put = |value: &[u8]| {
        let entry = NewValue { value: Some(value), persist_until: START + DAY, pending: false };
        values.write(|turn| turn.put(values.id(b"urn:1"), entry)).unwrap();
        let snapshot = values.pin().unwrap();
        values.unpin(&snapshot).unwrap();
    };
    put(b"first");
    values.write(|turn| turn.remove(values.id(b"urn:1"))).unwrap();
    drop(values);
    drop(history);
    let log = now(&root.join("mappers")).into_keys().filter(|path| kind(path) == "log").max().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let report = apply(&root);
    assert_eq!(report.findings[0].ids, ["urn:1"]);
    assert_eq!(report.findings[0].returned, Count::AtMost(1));
}
