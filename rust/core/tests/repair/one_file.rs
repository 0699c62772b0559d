//! One file is damaged: what a repair makes of that.

use std::path::Path;

use dochistory_core::history::values::{NewValue, Room};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::repair::{Remedy, Report};

use crate::harness::closed::maps::MAP;
use crate::harness::closed::triggers::TRIGGERS;
use crate::harness::closed::{Store, Stored, files_of, kind};
use crate::harness::{Maps, START, Triggers, seal};
use crate::{apply, most_of, plan};

/// What a repair may change.
pub(crate) trait Repaired: Stored {
    /// To how many bytes files are cut.
    const LENGTHS: &'static [usize];

    /// Whether a bit is flipped there.
    fn is_flipped(at: usize) -> bool;
    /// Whether the one file is tried in the place of the other.
    fn is_swapped(one: &Path, other: &Path) -> bool;
    /// The store says what it said, but for what the report speaks of.
    fn compare(what: &str, report: &Report, good: &[String], found: &[String]);
    /// It can be written to, and compacted.
    fn write(root: &Path);
}

impl Repaired for Triggers {
    const LENGTHS: &'static [usize] = &[0, 40, 150, 5000];

    fn is_flipped(at: usize) -> bool {
        at < 64 && at.is_multiple_of(7) || at.is_multiple_of(797) || at % 4096 == 4095
    }

    fn is_swapped(_: &Path, _: &Path) -> bool {
        true
    }

    fn compare(what: &str, report: &Report, good: &[String], found: &[String]) {
        let dropped = most_of(report, |finding| finding.dropped).unwrap_or(u64::MAX);
        let reopened = most_of(report, |finding| finding.reopened).unwrap_or(u64::MAX);
        let lost_an_end = dropped > 0 || reopened > 0;
        let (mut forgotten, mut in_doubt) = (0, 0);
        for (row, (old, new)) in good.iter().zip(found).enumerate() {
            match (&**old, &**new) {
                (old, new) if old == new => {}
                (_, "R8") => forgotten += 1,
                // An end, or a release, that was told by what is lost.
                ("R8" | "R9", "R11") if lost_an_end => in_doubt += 1,
                _ => panic!("{what}: row {row} was {old} and is {new}\n{report:#?}"),
            }
        }
        assert!(forgotten <= dropped, "{what}: {forgotten} ids are forgotten, at most {dropped} were said to be");
        assert!(in_doubt <= reopened, "{what}: {in_doubt} are in doubt, at most {reopened} were said to be");
        assert!(lost_an_end || good == found, "{what}");
    }

    fn write(root: &Path) {
        let history = History::open(root, &OpenOptions::default()).unwrap();
        for name in TRIGGERS {
            seal(&history, name);
        }
    }
}

impl Repaired for Maps {
    const LENGTHS: &'static [usize] = &[40, 5000];

    fn is_flipped(at: usize) -> bool {
        at < 64 && at.is_multiple_of(21) || at % 1499 == 40 || at % 4096 == 4095
    }

    fn is_swapped(one: &Path, other: &Path) -> bool {
        one.parent() == other.parent()
    }

    fn compare(what: &str, report: &Report, good: &[String], found: &[String]) {
        let dropped = most_of(report, |finding| finding.dropped).unwrap_or(u64::MAX);
        let returned = most_of(report, |finding| finding.returned).unwrap_or(u64::MAX);
        let ids = Self::ids();
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

    fn write(root: &Path) {
        let history = History::open(root, &OpenOptions::default()).unwrap();
        for room in Room::ALL {
            let values = history.values(room, MAP).unwrap();
            let entry = NewValue { value: Some(b"new"), persist_until: START, pending: false };
            values.write(|edit| edit.put(values.id(b"urn:another"), entry)).unwrap();
            values.maintain(true, &mut |_, _| Ok(())).unwrap();
        }
    }
}

/// What came of the damages.
#[derive(Debug, Default)]
struct Tally {
    harmless: usize,
    rebuilt: usize,
    salvaged: usize,
    dropped: usize,
}

impl Tally {
    /// The store is damaged as `what` says: repair it.
    fn repair<S: Repaired>(&mut self, what: &str, store: &Store<S>) {
        let root = &store.root;
        let (damaged, planned) = (files_of(root), plan(root));
        let verify = || S::verify(root).unwrap_or_else(|error| panic!("{what}: not mended: {error}\n{planned:#?}"));
        let read = || S::read(root, true).unwrap_or_else(|error| panic!("{what}: {error}\n{planned:#?}"));
        assert!(files_of(root) == damaged, "{what}: planning has changed something");
        if planned.findings.is_empty() {
            verify();
            assert!(read() == store.good, "{what}");
            self.harmless += 1;
            return;
        }
        let report = apply(root);
        assert_eq!(format!("{:?}", report.findings), format!("{:?}", planned.findings), "{what}");
        assert!(report.is_repaired, "{what}: {report:#?}");
        verify();
        let found = read();
        S::compare(what, &report, &store.good, &found);
        assert!(plan(root).findings.is_empty(), "{what}: a second repair finds {:#?}", plan(root));
        let after = files_of(root);
        let is_lock = |path: &Path| ["turn", "upkeep"].contains(&kind(path).as_str());
        let is_kept = |bytes: &Vec<u8>| after.values().any(|kept| kept == bytes);
        assert!(damaged.iter().all(|(path, bytes)| is_lock(path) || is_kept(bytes)), "{what}: a file is gone");
        S::write(root);
        assert!(read() == found, "{what}: maintenance changes something");
        let has = |remedy| usize::from(report.findings.iter().any(|finding| finding.remedy == remedy));
        self.dropped += has(Remedy::Dropped);
        self.salvaged += has(Remedy::Salvaged);
        self.rebuilt += has(Remedy::Rebuilt);
    }
}

/// Damage every file that matters, one at a time and each in several ways, and repair the store.
fn every_file<S: Repaired>(
    what: &str,
    damages: impl Fn(&Store<S>, &Path, &[u8], &mut dyn FnMut(&str, Option<&[u8]>)),
) -> Tally {
    let store = Store::<S>::new();
    let mut tally = Tally::default();
    for (path, bytes) in &store.files {
        if !["turn", "upkeep", "load", "known"].contains(&kind(path).as_str()) {
            damages(&store, path, bytes, &mut |how, damaged| {
                store.restore();
                match damaged {
                    Some(damaged) => std::fs::write(path, damaged).unwrap(),
                    None => std::fs::remove_file(path).unwrap(),
                }
                tally.repair(&format!("{} {how}", path.display()), &store);
            });
        }
    }
    eprintln!("figure: repairs of {what} files{} = {}", S::OF, tally.rebuilt + tally.salvaged + tally.dropped);
    tally
}

fn flip<S: Repaired>() -> Tally {
    every_file::<S>("flipped", |_, _, bytes, repair| {
        for at in (0..bytes.len()).filter(|at| S::is_flipped(*at)) {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1 << (at % 8);
            repair(&format!("flipped at {at}"), Some(&damaged));
        }
    })
}

fn shorten<S: Repaired>() -> Tally {
    every_file::<S>("shortened", |_, _, bytes, repair| {
        for length in S::LENGTHS.iter().copied().chain([bytes.len() / 2, bytes.len() - 1]) {
            repair(&format!("cut to {length}"), Some(&bytes[..length.min(bytes.len() - 1)]));
        }
        repair("missing", None);
    })
}

fn swap<S: Repaired>() -> Tally {
    every_file::<S>("swapped", |store, path, bytes, repair| {
        for (other, content) in store.files.iter().filter(|(other, _)| kind(other) == kind(path)) {
            if content != bytes && S::is_swapped(path, other) {
                repair(&format!("is {}", other.display()), Some(content));
            }
        }
    })
}

#[test]
fn repair_of_flipped_bytes_loses_only_what_it_names() {
    let tally = flip::<Triggers>();
    assert!(tally.rebuilt > 20 && tally.salvaged > 20 && tally.dropped > 5, "{tally:?}");
}

#[test]
fn repair_of_a_maps_flipped_bytes_loses_only_what_it_names() {
    let tally = flip::<Maps>();
    assert!(tally.rebuilt > 5 && tally.salvaged > 5 && tally.dropped > 3, "{tally:?}");
}

#[test]
fn repair_of_cut_or_missing_files_loses_only_what_it_names() {
    let tally = shorten::<Triggers>();
    assert!(tally.rebuilt > 10 && tally.salvaged > 0 && tally.dropped > 10, "{tally:?}");
}

#[test]
fn repair_of_a_maps_cut_files_loses_only_what_it_names() {
    let tally = shorten::<Maps>();
    assert!(tally.rebuilt > 3 && tally.dropped > 5, "{tally:?}");
}

#[test]
fn repair_of_swapped_files_loses_only_what_it_names() {
    let tally = swap::<Triggers>();
    assert!(tally.dropped > 5, "{tally:?}");
}

#[test]
fn repair_of_a_maps_swapped_files_loses_only_what_it_names() {
    let tally = swap::<Maps>();
    assert!(tally.dropped > 3, "{tally:?}");
}
