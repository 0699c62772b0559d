//! A handle that reads what another one writes, seals and compacts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use crate::history::{History, OpenOptions};
use crate::key::{Form, Key};
use crate::segment::Wanted;
use crate::store::{Beginning, KeySpace, LookedUp, SpaceSettings, Writer};
use crate::types::{FrameKeys, HistoryState};

const BATCH: u64 = 10;
const SETTINGS: SpaceSettings = SpaceSettings { time_to_live_us: 1 << 50, ..SpaceSettings::STORED };

fn open(path: &Path) -> Arc<KeySpace> {
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    History::open(path, &options).unwrap().space("orders").unwrap()
}

fn keys(numbers: std::ops::Range<u64>) -> Vec<Key> {
    let mixed = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    numbers.map(|number| Key { hi: mixed(number), lo: mixed(mixed(number)) }).collect()
}

fn states(space: &KeySpace, keys: &[Key]) -> Vec<HistoryState> {
    let forms = vec![Form::Uuid; keys.len()];
    let wanted = Wanted { keys, forms: &forms, text: &|_| &[] };
    let look = |view: Option<&super::view::View>| match view {
        Some(view) => view.lookup(&wanted, i64::MIN),
        None => Ok(LookedUp::none(keys.len())),
    };
    space.look(SETTINGS, keys.len(), look).unwrap().states
}

/// Begin `uuids` as one batch.
fn begin(space: &KeySpace, uuids: Vec<Key>) {
    let keys = FrameKeys { uuids, ..FrameKeys::default() };
    let begin = |writer: &mut Writer<'_>| {
        let (transaction, replaces, started_at, threads) = (None, None, 7, 1);
        writer.begin(Beginning { keys: keys.clone(), transaction, replaces, started_at, threads })
    };
    space.write_together(SETTINGS, begin).unwrap();
}

/// Put the log's entries into segments.
fn seal(space: &KeySpace) {
    let seal = |writer: &mut Writer<'_>| writer.seal();
    space.write(SETTINGS, seal).unwrap();
}

/// Begin batches until there are that number of segments.
fn begin_until(writer: &KeySpace, known: &mut u64, segments: u64) {
    while writer.statistics().unwrap().segments < segments {
        begin(writer, keys(*known..*known + BATCH));
        writer.seal_frozen().unwrap();
        *known += BATCH;
    }
}

#[test]
fn reader_that_follows_a_writer_filters_each_key_once() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, reader) = (open(directory.path()), open(directory.path()));
    let mut sealed = 0;
    for number in 0..150 {
        begin(&writer, keys(number * BATCH..(number + 1) * BATCH));
        // Few enough rows for the index, and many.
        let known = (number + 1) * BATCH;
        for rows in [known - 5..known + 5, 0..known + 50] {
            let expected = |row| if row < known { HistoryState::Processing } else { HistoryState::Absent };
            assert_eq!(states(&reader, &keys(rows.clone())), rows.map(expected).collect::<Vec<_>>());
        }
        let view = reader.present();
        let view = view.as_ref().unwrap();
        assert_eq!((view.young.len() as u64, view.apart.len()), (known, 0), "after batch {number}");
        sealed += u64::from(writer.is_seal_due());
        writer.seal_frozen().unwrap();
        if number % 17 == 16 {
            writer.maintain(false, &mut |_, _| Ok(())).unwrap();
        }
    }
    let found = reader.statistics().unwrap();
    assert!(sealed > 5 && found.segments < sealed, "some were compacted: {found:?}");
}

#[test]
fn new_handle_lets_segments_join_once_rows_reach_their_average() {
    let directory = tempfile::tempdir().unwrap();
    let writer = open(directory.path());
    let mut known = 0;
    begin_until(&writer, &mut known, 4);
    let reader = open(directory.path());
    let apart = |asked: u64| {
        (0..asked).for_each(|row| drop(states(&reader, &keys(row..row + 1))));
        reader.present().as_ref().unwrap().apart.len()
    };
    assert_eq!(apart(1), 4);
    let average = reader.present().as_ref().unwrap().rows_to_join().unwrap() as u64;
    assert!(average > 2 && average * 3 < known, "{average} of {known}");
    assert_eq!((apart(average - 3), apart(3)), (4, 0));
    assert_eq!(states(&reader, &keys(0..known)), vec![HistoryState::Processing; known as usize]);
}

#[test]
fn renewal_puts_in_only_the_segments_that_the_filter_lacks() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, reader) = (open(directory.path()), open(directory.path()));
    let mut known = 0;
    begin_until(&writer, &mut known, 4);
    // There is no filter over a log of few entries.
    begin(&writer, keys(known..known + BATCH));
    known += BATCH;
    let lacking = || {
        assert_eq!(states(&reader, &keys(0..1)), [HistoryState::Processing]);
        let view = reader.present();
        let view = view.as_ref().unwrap();
        (view.apart.len(), view.young_renewal(false).map(|renewal| renewal.segments.len()))
    };
    assert_eq!(lacking(), (4, Some(4)));
    reader.renew_young().unwrap();
    assert_eq!(lacking(), (0, None));
    // The reader does not see the log whose entries these segments hold.
    begin_until(&writer, &mut known, 6);
    let (apart, lacks) = lacking();
    assert!(apart > 0 && lacks == Some(apart), "{apart} of 6 are asked one by one, {lacks:?} are put in");
    begin(&writer, keys(known..known + BATCH));
    known += BATCH;
    reader.renew_young().unwrap();
    assert_eq!(lacking(), (0, None));
    let expected = |row| if row < known { HistoryState::Processing } else { HistoryState::Absent };
    assert_eq!(states(&reader, &keys(0..known + 50)), (0..known + 50).map(expected).collect::<Vec<_>>());
}

/// Begin batches until the log is frozen.
fn begin_until_frozen(writer: &KeySpace, known: &mut u64) {
    while !writer.is_seal_due() {
        begin(writer, keys(*known..*known + BATCH));
        *known += BATCH;
    }
}

#[test]
fn renewal_covers_a_log_that_is_sealed_and_compacted_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, reader) = (open(directory.path()), open(directory.path()));
    let mut known = 0;
    begin_until(&writer, &mut known, 4);
    begin_until_frozen(&writer, &mut known);
    // Below this there is no filter over the log.
    begin(&writer, keys(known..known + BATCH));
    known += BATCH;
    let apart = || {
        assert_eq!(states(&reader, &keys(0..1)), [HistoryState::Processing]);
        reader.present().as_ref().unwrap().apart.len()
    };
    assert_eq!(apart(), 4);
    let renewal = reader.renewal().unwrap();
    writer.seal_frozen().unwrap();
    writer.maintain(false, &mut |_, _| Ok(())).unwrap();
    // All are one segment now, which the filter before does not cover.
    assert_eq!((writer.statistics().unwrap().segments, apart()), (1, 1));
    reader.take_renewal(renewal).unwrap();
    assert_eq!(apart(), 0);
    let expected = |row| if row < known { HistoryState::Processing } else { HistoryState::Absent };
    assert_eq!(states(&reader, &keys(0..known + 50)), (0..known + 50).map(expected).collect::<Vec<_>>());
}

#[test]
fn full_young_filter_waits_for_a_global_one_while_it_has_room() {
    let directory = tempfile::tempdir().unwrap();
    let writer = open(directory.path());
    begin(&writer, keys(0..BATCH));
    let renewal = |is_covering: bool| {
        let view = writer.present();
        view.as_ref().unwrap().young_renewal(is_covering).map(|plan| plan.is_copy)
    };
    let capacity = writer.present().as_ref().unwrap().young.capacity() as u64;
    let fill = |count: u64| {
        let gone = |view: &mut super::view::View| view.young.insert(keys(0..count).into_iter());
        writer.change_present(gone);
    };
    assert_eq!((renewal(false), renewal(true)), (None, None));
    fill(capacity);
    assert_eq!((renewal(false), renewal(true)), (Some(false), None));
    fill(capacity / 2);
    assert_eq!((renewal(false), renewal(true)), (Some(false), Some(false)));
}

#[test]
fn look_up_of_many_rows_builds_an_overfull_filter_again() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, reader) = (open(directory.path()), open(directory.path()));
    begin(&writer, keys(0..BATCH));
    drop(states(&reader, &keys(0..1)));
    let capacity = reader.present().as_ref().unwrap().young.capacity();
    let gone = |view: &mut super::view::View| view.young.insert(keys(0..capacity as u64).into_iter());
    reader.change_present(gone);
    let held_after = |first: u64, rows: u64| {
        begin(&writer, keys(first..first + BATCH));
        drop(states(&reader, &keys(0..rows)));
        reader.present().as_ref().unwrap().young.len()
    };
    assert_eq!(held_after(BATCH, 1), capacity + 2 * BATCH as usize);
    assert_eq!(held_after(2 * BATCH, 100), 3 * BATCH as usize);
}

#[test]
fn filter_of_a_writer_may_be_twice_as_full_as_it_is_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let writer = open(directory.path());
    begin(&writer, keys(0..BATCH));
    let capacity = writer.present().as_ref().unwrap().young.capacity() as u64;
    let gone = |view: &mut super::view::View| view.young.insert(keys(0..2 * capacity - 2 * BATCH).into_iter());
    writer.change_present(gone);
    let held_after = |first: u64| {
        begin(&writer, keys(first..first + BATCH));
        writer.present().as_ref().unwrap().young.len() as u64
    };
    assert_eq!((held_after(BATCH), held_after(2 * BATCH)), (2 * capacity, 3 * BATCH));
}

#[test]
fn one_filter_is_built_again_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, reader) = (open(directory.path()), open(directory.path()));
    let mut known = 0;
    begin_until(&writer, &mut known, 4);
    begin(&writer, keys(known..known + BATCH));
    let apart = || {
        assert_eq!(states(&reader, &keys(0..1)), [HistoryState::Processing]);
        reader.present().as_ref().unwrap().apart.len()
    };
    assert_eq!(apart(), 4);
    let other = reader.renewing.lock().unwrap();
    std::thread::scope(|scope| {
        let renewing = scope.spawn(|| reader.renew_young().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!renewing.is_finished() && apart() == 4);
        drop(other);
    });
    assert_eq!(apart(), 0);
}

#[test]
fn sealing_freezes_the_next_log_where_it_is_full_by_then() {
    let directory = tempfile::tempdir().unwrap();
    let writer = open(directory.path());
    let mut known = 0;
    begin_until_frozen(&writer, &mut known);
    let first = writer.present().as_ref().unwrap().manifest.frozen.unwrap().id;
    writer.seal_frozen().unwrap();
    assert!(!writer.is_seal_due(), "a log that is not full goes on");
    begin_until_frozen(&writer, &mut known);
    let weight = || writer.present().as_ref().unwrap().memtable.weight();
    while weight() <= super::limits::most_in_memtable() {
        begin(&writer, keys(known..known + BATCH));
        known += BATCH;
    }
    let full = writer.present().as_ref().unwrap().log.id;
    writer.seal_frozen().unwrap();
    let frozen = writer.present().as_ref().unwrap().manifest.frozen.unwrap().id;
    assert!(first < full && frozen == full, "log {frozen} is frozen after {first}, and {full} was full");
    // The log after it took the buffers over.
    assert!(writer.present().as_ref().unwrap().spare.is_none());
    assert_eq!(states(&writer, &keys(0..known)), vec![HistoryState::Processing; known as usize]);
}

/// What chunks of a batch find, each seen by itself.
fn seen_in_chunks(space: &KeySpace, chunks: &[Vec<Key>]) -> Vec<HistoryState> {
    let view = space.present();
    let mut found = vec![HistoryState::Absent; chunks.iter().map(Vec::len).sum()];
    let mut look_up = view.as_ref().unwrap().decide(&mut found, i64::MIN);
    let mut first = 0;
    for keys in chunks {
        let forms = vec![Form::Uuid; keys.len()];
        look_up.see(&Wanted { keys, forms: &forms, text: &|_| &[] }, first).unwrap();
        first += keys.len() as u32;
    }
    look_up.finish(&|_| &[]).unwrap();
    found
}

#[test]
fn union_filter_of_a_reader_rules_out_nothing_that_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let (writer, reader) = (open(directory.path()), open(directory.path()));
    let (mut united, mut roomy, mut global_filters) = (0, 0, std::collections::BTreeSet::new());
    let mut known = 0;
    for number in 0..200 {
        begin(&writer, keys(known..known + BATCH));
        known += BATCH;
        // Few rows, which are indexed, and many.
        for rows in [known - 5..known + 5, 0..known + 300] {
            let expected = |row| if row < known { HistoryState::Processing } else { HistoryState::Absent };
            assert_eq!(states(&reader, &keys(rows.clone())), rows.map(expected).collect::<Vec<_>>());
        }
        {
            let view = reader.present();
            let view = view.as_ref().unwrap();
            if let Some(union) = &view.union {
                united += 1;
                roomy += u64::from(union.copies() > 1);
                global_filters.insert(view.covered[0].global_filter.sum());
            }
        }
        // A chunk of keys that are all known makes the chunks behind it ask both parts at once.
        let chunks = [keys(known..known + 50), keys(0..known), keys(known - 10..known + 20)];
        let states = seen_in_chunks(&reader, &chunks);
        let (absent, rest) = states.split_at(50);
        let (all, mixed) = rest.split_at(known as usize);
        assert!(absent.iter().all(|state| *state == HistoryState::Absent));
        assert!(all.iter().chain(&mixed[..10]).all(|state| *state == HistoryState::Processing));
        assert!(mixed[10..].iter().all(|state| *state == HistoryState::Absent));
        writer.seal_frozen().unwrap();
        if number % 40 == 39 {
            writer.maintain(true, &mut |_, _| Ok(())).unwrap();
        }
    }
    let filters = global_filters.len();
    assert!(united > 50 && roomy > 10 && filters > 2, "{united} of 200 times, {roomy} roomy, over {filters} filters");
}

#[test]
fn union_filter_outlives_its_global_filter_until_it_is_outgrown() {
    let directory = tempfile::tempdir().unwrap();
    let writer = open(directory.path());
    let seal_all = |known: std::ops::Range<u64>| {
        for first in known.step_by(BATCH as usize) {
            begin(&writer, keys(first..first + BATCH));
            writer.seal_frozen().unwrap();
        }
        seal(&writer);
        writer.maintain(true, &mut |_, _| Ok(())).unwrap();
    };
    seal_all(0..400);
    // Enough keys for a young filter.
    (40..45).for_each(|number| begin(&writer, keys(number * BATCH..(number + 1) * BATCH)));
    let outgrown = || {
        let view = writer.present();
        let view = view.as_ref().unwrap();
        let entries = view.covered[0].global_filter.entries();
        view.union.as_ref().map(|union| union.is_outgrown_by(entries, 1, view.young.len() as u64))
    };
    let is_right = |known: u64| {
        let found = states(&writer, &keys(known - 40..known + 20));
        found == [vec![HistoryState::Processing; 40], vec![HistoryState::Absent; 20]].concat()
    };
    assert_eq!(outgrown(), None);
    (0..20).for_each(|_| assert!(is_right(450)));
    assert_eq!(outgrown(), Some(false));
    seal_all(450..480);
    assert_eq!(outgrown(), Some(false));
    assert!(is_right(480));
    seal_all(480..700);
    assert_eq!(outgrown(), Some(true));
    (0..40).for_each(|_| assert!(is_right(700)));
    assert_eq!(outgrown(), Some(false));
    // More than it is of any use for, before anybody looks.
    seal_all(700..2000);
    assert_eq!(outgrown(), None);
    assert!(is_right(2000));
}

#[test]
fn union_filter_of_a_reader_that_sleeps_rules_out_nothing_known() {
    for seed in 0..12_u64 {
        let directory = tempfile::tempdir().unwrap();
        let (writer, reader) = (open(directory.path()), open(directory.path()));
        let mut drawn = keys(seed << 32..(seed << 32) + 1000).into_iter().map(|key| key.hi ^ key.lo);
        let mut draw = |most: u64| drawn.next().unwrap() % most;
        let (mut known, mut united) = (0, 0);
        for _ in 0..150 {
            // Some batches are large: they go into segments of their own at once.
            let batch = if draw(12) == 0 { 25 } else { BATCH };
            begin(&writer, keys(known..known + batch));
            known += batch;
            match draw(12) {
                0..3 => writer.seal_frozen().unwrap(),
                3 => drop(writer.maintain(false, &mut |_, _| Ok(())).unwrap()),
                4 => drop(writer.maintain(true, &mut |_, _| Ok(())).unwrap()),
                5 => seal(&writer),
                _ => {}
            }
            for (is_asked, handle) in [(draw(4) > 0, &reader), (draw(6) == 0, &writer)] {
                if !is_asked {
                    continue;
                }
                let expected = |row| if row < known { HistoryState::Processing } else { HistoryState::Absent };
                let rows = if draw(3) == 0 { known - 5..known + 5 } else { 0..known + 300 };
                assert_eq!(states(handle, &keys(rows.clone())), rows.map(expected).collect::<Vec<_>>(), "seed {seed}");
                united += u64::from(handle.present().as_ref().unwrap().union.is_some());
            }
        }
        assert!(united > 10, "{united} times with seed {seed}");
    }
}
