//! The life of an entry in the store, from `processing` to the purge.

mod claims;
mod finished;
#[path = "../harness/mod.rs"]
mod harness;
mod purges;
mod snapshots;

use dochistory_core::history::{EntryStatus, History};
use dochistory_core::protocols::trigger::{Begun, Call, OnReplay, Replay};
use dochistory_core::{Purge, Transaction};
use harness::{DAY, Ids, START, begin, fresh, open, rules, seal, trigger, uuids};

#[test]
fn a_document_is_new_then_in_doubt_then_a_duplicate() {
    let (_directory, history) = fresh();
    let ids = ["a6e1f5d0-1111-4222-8333-444455556666", "urn:order:17", "A6E1F5D0-1111-4222-8333-444455556666"];
    assert_eq!(rules(&history, &trigger(), &ids, START), ["R8"; 3]);
    let begun = begin(&history, &trigger(), &ids, START);
    assert_eq!(rules(&history, &trigger(), &ids, START), ["R11"; 3]);
    begun.claim.as_ref().unwrap().complete(Some(&[1])).unwrap();
    assert_eq!(rules(&history, &trigger(), &ids, START), ["R11", "R9", "R11"]);
    begun.claim.as_ref().unwrap().release(Some(&[2])).unwrap();
    assert_eq!(rules(&history, &trigger(), &ids, START), ["R11", "R9", "R8"]);
    begun.claim.unwrap().complete(None).unwrap();
    assert_eq!(rules(&history, &trigger(), &ids, START), ["R9", "R9", "R8"]);
}

#[test]
fn second_handle_sees_writes_at_once_and_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("h");
    let (writer, reader) = (open(&path), open(&path));
    assert_eq!(rules(&reader, &trigger(), &["x"], START), ["R8"]);
    let claim = begin(&writer, &trigger(), &["x", "y"], START).claim.unwrap();
    assert_eq!(rules(&reader, &trigger(), &["x", "y", "z"], START), ["R11", "R11", "R8"]);
    claim.complete(None).unwrap();
    assert_eq!(rules(&reader, &trigger(), &["x", "y", "z"], START), ["R9", "R9", "R8"]);
    drop((writer, reader, claim));
    assert_eq!(rules(&open(&path), &trigger(), &["x", "y", "z"], START), ["R9", "R9", "R8"]);
}

#[test]
fn sealing_merging_and_rolling_up_change_no_verdict() {
    let (_directory, history) = fresh();
    let (trigger, ids) = (trigger(), uuids(0..5_000));
    let texts: Vec<String> = (0..500).map(|number| format!("urn:text:{number}")).collect();
    for day in 0..10 {
        let now = START + day * DAY;
        let part = &ids[day as usize * 400..(day as usize + 1) * 400];
        let first = begin(&history, &trigger, part, now).claim.unwrap();
        first.complete(Some(&(0..100).collect::<Vec<_>>())).unwrap();
        first.release(Some(&(100..200).collect::<Vec<_>>())).unwrap();
        begin(&history, &trigger, &texts[day as usize * 50..(day as usize + 1) * 50], now + 1)
            .claim
            .unwrap()
            .complete(None)
            .unwrap();
        // A pin seals the log, so that every day has segments of its own.
        seal(&history, "orders");
        // Ends after its entries were sealed.
        first.complete(Some(&(200..300).collect::<Vec<_>>())).unwrap();
    }
    let now = START + 10 * DAY;
    let before = (rules(&history, &trigger, &ids, now), rules(&history, &trigger, &texts, now));
    for (row, rule) in before.0.iter().enumerate() {
        let expected = match (row < 4_000, row % 400) {
            (false, _) | (_, 100..200) => "R8",
            (_, 0..100 | 200..300) => "R9",
            _ => "R11",
        };
        assert_eq!(*rule, expected, "row {row}");
    }
    assert!(before.1.iter().all(|rule| *rule == "R9"));
    let done = history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert!(done.merged.0 > done.merged.1 && done.rolled_up > 0, "{done:?}");
    let after = (rules(&history, &trigger, &ids, now), rules(&history, &trigger, &texts, now));
    assert_eq!(before, after);
    let figures = history.statistics("orders").unwrap();
    assert_eq!((figures.segments_uncovered, figures.filters), (0, 1));
    let in_partitions: (u64, u64, u64) = figures
        .partitions
        .iter()
        .fold((0, 0, 0), |sum, one| (sum.0 + one.entries, sum.1 + one.bytes, sum.2 + one.segments));
    assert_eq!(in_partitions, (figures.segment_entries, figures.segment_bytes, figures.segments));
    assert!(figures.partitions.is_sorted_by_key(|one| one.start_us));
    assert!(figures.partitions.iter().all(|one| one.start_us % figures.partition_us == 0));
    history.verify("orders", &mut |_, _| Ok(())).unwrap();
}

#[test]
fn entries_lists_each_key_once_for_what_it_is() {
    let (_directory, history) = fresh();
    let (trigger, ids) = (trigger(), uuids(0..300));
    let claim = begin(&history, &trigger, &ids[..200], START).claim.unwrap();
    begin(&history, &trigger, &["urn:1", "urn:2"], START + 5).claim.unwrap().complete(Some(&[1])).unwrap();
    seal(&history, "orders");
    claim.complete(Some(&(0..50).collect::<Vec<_>>())).unwrap();
    claim.release(Some(&(50..60).collect::<Vec<_>>())).unwrap();
    let list = |status| {
        let mut entries = history.entries("orders", status).unwrap();
        let mut keys = Vec::new();
        while let Some(batch) = entries.next_batch().unwrap() {
            keys.extend(batch.keys.into_iter().zip(batch.started_at));
        }
        keys.sort();
        keys
    };
    let expected = |rows: &[String], time: i64| rows.iter().map(|id| (id.clone(), time)).collect::<Vec<_>>();
    let mut completed = expected(&ids[..50], START);
    completed.push(("urn:2".into(), START + 5));
    completed.sort();
    assert_eq!(list(Some(EntryStatus::Completed)), completed);
    let mut processing = expected(&ids[60..200], START);
    processing.push(("urn:1".into(), START + 5));
    processing.sort();
    assert_eq!(list(Some(EntryStatus::Processing)), processing);
    assert_eq!(list(None).len(), completed.len() + processing.len());
}

#[test]
fn a_replayed_batch_is_known_for_what_became_of_it() {
    let (_directory, history) = fresh();
    let trigger = trigger();
    let batch = |number: i64| Transaction { application: "stream".into(), batch: number };
    let ids = Ids::new(&["a", "b"]);
    let start = |number: i64, replay: OnReplay| {
        history.begin(&trigger, &ids.documents(), &mut Call::at(START + number), Some(&batch(number)), replay)
    };
    let rule = |begun: &Begun| begun.verdicts.outcomes.iter().map(|outcome| outcome.rule()).collect::<Vec<_>>();
    let first = start(1, OnReplay::ByRules).unwrap();
    assert_eq!((rule(&first), first.replay), (vec!["R8", "R8"], Some(Replay::First)));
    let doubtful = start(1, OnReplay::ByRules).unwrap();
    assert_eq!((rule(&doubtful), doubtful.replay), (vec!["R11", "R11"], Some(Replay::Unfinished)));
    assert!(doubtful.claim.is_none());
    let again = start(1, OnReplay::Rerun).unwrap();
    assert_eq!(rule(&again), ["R8", "R8"]);
    again.claim.unwrap().complete(None).unwrap();
    let ended = start(1, OnReplay::Rerun).unwrap();
    assert_eq!((rule(&ended), ended.replay), (vec!["R9", "R9"], Some(Replay::Finished)));
    history.purge(&trigger, Purge::at(START + 40 * DAY)).unwrap();
    assert_eq!(
        rule(&start(1, OnReplay::ByRules).unwrap()),
        ["R9", "R9"],
        "a purge does not make a committed batch run again"
    );
    assert!(start(0, OnReplay::ByRules).unwrap_err().to_string().contains("new checkpoint"));
    assert_eq!(rule(&start(2, OnReplay::ByRules).unwrap()), ["R8", "R8"]);
}

#[test]
fn a_batch_that_goes_straight_into_segments_is_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("h");
    let history = open(&path);
    let (trigger, ids) = (trigger(), uuids(0..140_000));
    let column = Ids::new(&ids);
    let batch = |number: i64| Transaction { application: "stream".into(), batch: number };
    let start = |history: &History, number: i64| {
        history
            .begin(&trigger, &column.documents(), &mut Call::at(START), Some(&batch(number)), OnReplay::ByRules)
            .unwrap()
    };
    begin(&history, &trigger, &["small"], START).claim.unwrap().complete(None).unwrap();
    let large = start(&history, 7);
    assert!(large.verdicts.outcomes.iter().all(|outcome| outcome.rule() == "R8"));
    assert!(history.statistics("orders").unwrap().segments >= 1);
    let other = open(&path);
    assert_eq!(rules(&other, &trigger, &ids[..3], START), ["R11"; 3]);
    assert_eq!(start(&other, 7).replay, Some(Replay::Unfinished));
    let claim = large.claim.unwrap();
    claim.release(Some(&[2])).unwrap();
    claim.complete(None).unwrap();
    drop((history, other));
    let again = open(&path);
    assert_eq!(rules(&again, &trigger, &["small", &ids[0], &ids[1], &ids[2]], START), ["R9", "R9", "R9", "R8"]);
    let rest = start(&again, 7);
    assert_eq!((rest.replay, rest.claim.unwrap().len()), (Some(Replay::Unfinished), 1));
    again.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(rules(&again, &trigger, &["small", &ids[0], &ids[1], &ids[2]], START), ["R9", "R9", "R9", "R11"]);
}
