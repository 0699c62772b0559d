//! Bulk loads: nothing twice, and nothing written again, however often a load is broken off. Parts
//! are small here.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

use std::path::Path;

use dochistory_core::columns::FlagColumn;
use dochistory_core::history::History;
use dochistory_core::protocols::trigger::Loaded;
use harness::{DAY, Ids, START, fresh, open, rules, trigger, uuids};

/// Documents of three days, one after the other.
fn times(range: std::ops::Range<u64>) -> Vec<i64> {
    range.map(|number| START + (number % 3) as i64 * DAY).collect()
}

/// Load documents 0 to `until` in batches of `rows`; breaks off before the end, if it is to.
fn load(history: &History, until: u64, rows: u64, is_broken_off: bool) -> Loaded {
    let mut load = history.load(&trigger()).unwrap();
    for start in (0..until).step_by(rows as usize) {
        let batch = start..(start + rows).min(until);
        let ids = Ids::new(&uuids(batch.clone()));
        load.push(&ids.documents(), &times(batch), i64::MAX, FlagColumn::Absent).unwrap();
    }
    if is_broken_off {
        return load.progress();
    }
    load.finish().unwrap()
}

/// The segments, with their sizes and when they were made.
fn segments(path: &Path) -> Vec<String> {
    let directory = std::fs::read_dir(path.join("triggers")).unwrap().next().unwrap().unwrap().path();
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names.retain(|name| name.starts_with("segment-") || name.starts_with("part-"));
    names
}

#[test]
fn interrupted_load_resumes_with_any_batch_size() {
    let (directory, history) = fresh();
    // Two parts of eight documents, and what was gathered of the third is lost.
    assert_eq!(load(&history, 21, 5, true), Loaded { entries: 21, resumed: 0 });
    let before = segments(directory.path());
    assert_eq!(rules(&history, &trigger(), &uuids(0..21), START), [["R9"; 16].as_slice(), &["R8"; 5]].concat());

    assert_eq!(load(&history, 40, 7, false), Loaded { entries: 40, resumed: 16 });
    let after = segments(directory.path());
    assert!(before.iter().all(|name| after.contains(name)), "what was there was not written again");
    assert_eq!(history.statistics("orders").unwrap().segment_entries, 40);
    assert_eq!(rules(&history, &trigger(), &uuids(0..41), START), [["R9"; 40].as_slice(), &["R8"]].concat());
}

#[test]
fn load_parts_are_recognised_after_reopening_and_other_writes() {
    let directory = tempfile::tempdir().unwrap();
    load(&open(directory.path()), 30, 30, true);
    let history = open(directory.path());
    harness::begin(&history, &trigger(), &["urn:other"], START);
    history.pin("orders").unwrap();
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(load(&history, 30, 4, false), Loaded { entries: 30, resumed: 24 });
    assert_eq!(history.statistics("orders").unwrap().transactions, []);
}

#[test]
fn repeating_a_finished_load_changes_nothing() {
    let (_directory, history) = fresh();
    load(&history, 40, 40, false);
    assert_eq!(load(&history, 40, 40, false), Loaded { entries: 40, resumed: 0 });
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(history.statistics("orders").unwrap().segment_entries, 40);
}

#[test]
fn other_entries_are_no_part_of_a_load_that_was_broken_off() {
    let (_directory, history) = fresh();
    load(&history, 16, 16, true);
    let other = |started_at: i64, bits: u8| {
        let mut load = history.load(&trigger()).unwrap();
        let ids = Ids::new(&uuids(0..8));
        let flags = [bits];
        let validity = dochistory_core::columns::Validity::all();
        let mut all = times(0..8);
        all[3] = started_at;
        let completed = FlagColumn::Bits { bits: &flags, offset: 0, validity };
        load.push(&ids.documents(), &all, i64::MAX, completed).unwrap();
        // Broken off, so that the parts stay known.
        load.progress().resumed
    };
    assert_eq!(other(times(3..4)[0], 0xff), 8, "the same entries");
    assert_eq!(other(START + 9 * DAY, 0xff), 0, "another time");
    assert_eq!(other(times(3..4)[0], 0x7f), 0, "another status");
}

#[test]
fn the_time_that_stands_for_unknown_may_differ_from_run_to_run() {
    let (_directory, history) = fresh();
    let run = |now_us: i64| {
        let mut load = history.load(&trigger()).unwrap();
        let ids = Ids::new(&uuids(0..8));
        load.push(&ids.documents(), &[now_us; 8], now_us, FlagColumn::Absent).unwrap();
        load.progress().resumed
    };
    assert_eq!((run(START), run(START + DAY)), (0, 8));
    // What has expired since is written again.
    assert_eq!((run(START + 30 * DAY), run(START + 59 * DAY), run(START + 60 * DAY)), (0, 8, 0));
}

#[test]
fn maintenance_collects_the_orphans_of_a_killed_load() {
    let (directory, history) = fresh();
    load(&history, 9, 9, false);
    let space = std::fs::read_dir(directory.path().join("triggers")).unwrap().next().unwrap().unwrap().path();
    let left = space.join("part-00000000000000ff");
    std::fs::write(&left, "half of a part").unwrap();
    history.maintain("orders", false, &mut |_, _| Ok(())).unwrap();
    assert!(!left.exists());
}
