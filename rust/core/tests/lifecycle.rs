//! The life of an entry in the store, from `processing` to the purge.

mod common;

use common::{DAY, Ids, START, begin, open, rules, trigger, uuid, uuids};
use dochistory_core::history::EntryStatus;
use dochistory_core::history::History;
use dochistory_core::protocols::trigger::{Call, OnReplay, Replay};
use dochistory_core::{Error, Purge, Transaction};

#[test]
fn a_document_is_new_then_in_doubt_then_a_duplicate() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
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
fn another_handle_sees_what_was_written_at_once_and_after_reopening() {
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
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
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
        let snapshot = history.pin("orders").unwrap();
        history.unpin("orders", &snapshot).unwrap();
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
fn a_claim_that_ends_after_its_entries_were_sealed_ends_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("h");
    let history = open(&path);
    let (trigger, ids) = (trigger(), uuids(0..100));
    let completed = begin(&history, &trigger, &ids[..50], START).claim.unwrap();
    let released = begin(&history, &trigger, &ids[50..], START).claim.unwrap();
    let seal = |history: &History| {
        let snapshot = history.pin("orders").unwrap();
        history.unpin("orders", &snapshot).unwrap();
    };
    seal(&history);
    completed.complete(None).unwrap();
    released.release(None).unwrap();
    let expected = [["R9"; 50], ["R8"; 50]].concat();
    assert_eq!(rules(&history, &trigger, &ids, START), expected);
    seal(&history);
    assert_eq!(rules(&history, &trigger, &ids, START), expected);
    assert_eq!(rules(&open(&path), &trigger, &ids, START), expected);
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(rules(&history, &trigger, &ids, START), expected);
}

#[test]
fn a_purge_drops_what_is_expired_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let trigger = trigger();
    let at = |day: i64| START + day * DAY;
    for day in 0..40 {
        begin(&history, &trigger, &[uuid(day as u64)], at(day)).claim.unwrap().complete(None).unwrap();
    }
    let ids = uuids(0..40);
    let planned = history.purge(&trigger, Purge { dry_run: true, ..Purge::at(at(40)) }).unwrap();
    assert_eq!(rules(&history, &trigger, &ids, at(40)), ["R9"; 40]);
    let purged = history.purge(&trigger, Purge::at(at(40))).unwrap();
    assert_eq!(planned, purged);
    // An entry is expired when now >= start + time to live: days 0 to 10.
    assert_eq!(purged.entries, 11);
    assert_eq!(rules(&history, &trigger, &ids, at(40)), [vec!["R8"; 11], vec!["R9"; 29]].concat());
    assert_eq!(history.purge(&trigger, Purge::at(at(40))).unwrap().entries, 0);
}

#[test]
fn a_completion_after_the_purge_stays_visible_until_the_next_purge() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let trigger = trigger();
    let claim = begin(&history, &trigger, &["slow"], START).claim.unwrap();
    history.purge(&trigger, Purge::at(START + 31 * DAY)).unwrap();
    assert_eq!(rules(&history, &trigger, &["slow"], START + 31 * DAY), ["R8"]);
    claim.complete(None).unwrap();
    assert_eq!(rules(&history, &trigger, &["slow"], START + 31 * DAY), ["R9"]);
    history.purge(&trigger, Purge::at(START + 31 * DAY)).unwrap();
    assert_eq!(rules(&history, &trigger, &["slow"], START + 31 * DAY), ["R8"]);
}

#[test]
fn a_row_released_after_its_claim_was_sealed_stays_released_when_the_rest_completes() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let trigger = trigger();
    let seal = |history: &History| {
        let snapshot = history.pin("orders").unwrap();
        history.unpin("orders", &snapshot).unwrap();
    };
    let expected = ["R8", "R9", "R8"];
    // Twice, so that the key has releases under two claims.
    for _ in 0..2 {
        let claim = begin(&history, &trigger, &["urn:a", "urn:b", &uuid(1)], START).claim.unwrap();
        seal(&history);
        claim.release(Some(&[0, 2])).unwrap();
        seal(&history);
        claim.complete(None).unwrap();
        assert_eq!(rules(&history, &trigger, &["urn:a", "urn:b", &uuid(1)], START), expected);
        seal(&history);
        assert_eq!(rules(&history, &trigger, &["urn:a", "urn:b", &uuid(1)], START), expected);
    }
    let listed = history.entries("orders", None).unwrap().next_batch().unwrap().unwrap();
    assert_eq!(listed.keys, ["urn:b"]);
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(rules(&history, &trigger, &["urn:a", "urn:b", &uuid(1)], START), expected);
}

#[test]
fn what_is_completed_stays_completed_whatever_is_released_later() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let trigger = trigger();
    let batch = dochistory_core::Transaction { application: "stream".into(), batch: 1 };
    let ids = Ids::new(&["a", "b"]);
    let begun = history.begin(&trigger, &ids.documents(), &mut Call::at(START), Some(&batch), OnReplay::Rerun).unwrap();
    let claim = begun.claim.unwrap();
    claim.complete(None).unwrap();
    assert!(matches!(claim.release(Some(&[0])), Err(Error::State(_))));
    assert_eq!(rules(&history, &trigger, &["a", "b"], START), ["R9", "R9"]);
    let snapshot = history.pin("orders").unwrap();
    history.unpin("orders", &snapshot).unwrap();
    assert!(matches!(claim.release(None), Err(Error::State(_))));
    claim.complete(None).unwrap();
    assert_eq!(rules(&history, &trigger, &["a", "b"], START), ["R9", "R9"]);
    let again = history.begin(&trigger, &ids.documents(), &mut Call::at(START), Some(&batch), OnReplay::Rerun).unwrap();
    assert_eq!(again.replay, Some(Replay::Finished));
}

#[test]
fn a_claim_that_was_released_completes_no_later_claims_document() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let trigger = trigger();
    let first = begin(&history, &trigger, &["a", "b"], START).claim.unwrap();
    first.release(None).unwrap();
    let second = begin(&history, &trigger, &["a", "b"], START).claim.unwrap();
    for rows in [None, Some(&[0][..])] {
        let refused = first.complete(rows).unwrap_err().to_string();
        assert!(refused.contains("was released"), "{refused}");
        first.release(rows).unwrap();
    }
    second.release(Some(&[1])).unwrap();
    assert!(second.complete(Some(&[0, 1])).unwrap_err().to_string().contains("row 1 of this claim was released"));
    second.complete(Some(&[0])).unwrap();
    assert!(second.release(Some(&[0])).unwrap_err().to_string().contains("row 0 of this claim was completed"));
    second.complete(None).unwrap();
    assert_eq!(rules(&history, &trigger, &["a", "b"], START), ["R9", "R8"]);
}

#[test]
fn a_completed_claim_that_was_purged_is_not_brought_back() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let trigger = trigger();
    let claim = begin(&history, &trigger, &["a"], START).claim.unwrap();
    claim.complete(None).unwrap();
    history.purge(&trigger, Purge::at(START + 40 * DAY)).unwrap();
    claim.complete(None).unwrap();
    assert_eq!(rules(&history, &trigger, &["a"], START), ["R8"]);
}

#[test]
fn a_purge_within_a_partition_keeps_the_ends_of_what_stays() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let trigger = trigger();
    // The early two share a partition, and so a segment, with one that is not expired yet.
    let completed = begin(&history, &trigger, &["a"], START).claim.unwrap();
    let released = begin(&history, &trigger, &["b"], START).claim.unwrap();
    begin(&history, &trigger, &["c"], START + 1_000);
    let seal = |history: &History| {
        let snapshot = history.pin("orders").unwrap();
        history.unpin("orders", &snapshot).unwrap();
    };
    seal(&history);
    completed.complete(None).unwrap();
    released.release(None).unwrap();
    seal(&history);
    begin(&history, &trigger, &["other"], START - 5 * DAY);
    history.purge(&trigger, Purge::at(START + 500 + 30 * DAY)).unwrap();
    assert_eq!(rules(&history, &trigger, &["a", "b", "c", "other"], START), ["R9", "R8", "R11", "R8"]);
    seal(&history);
    assert_eq!(rules(&open(&directory.path().join("h")), &trigger, &["a", "b", "c"], START), ["R9", "R8", "R11"]);
}

#[test]
fn a_claim_that_ends_after_the_purge_ends_its_transaction_and_leaves_released_rows_new() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let trigger = trigger();
    let batch = dochistory_core::Transaction { application: "stream".into(), batch: 1 };
    let ids = Ids::new(&["a", "b"]);
    let start = |now: i64| {
        let call = &mut Call::at(now);
        history.begin(&trigger, &ids.documents(), call, Some(&batch), OnReplay::Rerun).unwrap()
    };
    let claim = start(START).claim.unwrap();
    claim.release(Some(&[1])).unwrap();
    let late = START + 31 * DAY;
    history.purge(&trigger, Purge::at(late)).unwrap();
    claim.complete(None).unwrap();
    assert_eq!(rules(&history, &trigger, &["a", "b"], late), ["R9", "R8"]);
    assert_eq!(start(late).replay, Some(Replay::Finished));
}

#[test]
fn a_pinned_snapshot_gives_the_same_verdicts_whatever_comes_after() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("h");
    let history = open(&path);
    let trigger = trigger();
    begin(&history, &trigger, &["a"], START).claim.unwrap().complete(None).unwrap();
    let snapshot = history.pin("orders").unwrap();
    let options = dochistory_core::history::OpenOptions { snapshot: Some(snapshot.clone()), ..Default::default() };
    let pinned = History::open(&path, &options).unwrap();
    begin(&history, &trigger, &["b"], START + 1).claim.unwrap().complete(None).unwrap();
    for day in 1..20 {
        begin(&history, &trigger, &[uuid(day)], START + day as i64 * DAY).claim.unwrap().complete(None).unwrap();
        let other = history.pin("orders").unwrap();
        history.unpin("orders", &other).unwrap();
    }
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    history.purge(&trigger, Purge::at(START + 35 * DAY)).unwrap();
    assert_eq!(rules(&pinned, &trigger, &["a", "b"], START), ["R9", "R8"]);
    let late = History::open(&path, &options).unwrap();
    assert_eq!(rules(&late, &trigger, &["a", "b"], START), ["R9", "R8"]);
    assert_eq!(rules(&history, &trigger, &["a", "b"], START), ["R8", "R8"]);
    history.unpin("orders", &snapshot).unwrap();
    assert!(
        History::open(&path, &options)
            .unwrap()
            .classify(&trigger, &Ids::new(&["a"]).documents(), &mut Call::at(START))
            .is_err()
    );
}

#[test]
fn pins_are_listed_and_upkeep_lets_those_go_whose_lease_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    assert_eq!(history.pins("orders").unwrap(), []);
    begin(&history, &trigger(), &["a"], START);
    let over = history.pin_for("orders", Some(0)).unwrap();
    let leased = history.pin_for("orders", Some(3_600_000_000)).unwrap();
    let forgotten = history.pin("orders").unwrap();
    let names = || history.pins("orders").unwrap().into_iter().map(|pin| pin.name).collect::<Vec<_>>();
    assert_eq!(names(), [over, leased.clone(), forgotten.clone()]);
    assert_eq!(history.statistics("orders").unwrap().pins, 3);

    history.maintain("orders", false, &mut |_, _| Ok(())).unwrap();
    assert_eq!(names(), [leased, forgotten.clone()]);
    let pins = history.pins("orders").unwrap();
    let lasts: Vec<i64> = pins.iter().map(|pin| (pin.ends_at - pin.pinned_at) / 1_000_000).collect();
    assert_eq!(lasts, [3_600, 7 * 24 * 3_600]);
    assert!(pins.iter().all(|pin| pin.process == std::process::id()));
    history.unpin("orders", &forgotten).unwrap();
    assert_eq!(names().len(), 1);
}

#[test]
fn entries_lists_each_key_once_for_what_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let (trigger, ids) = (trigger(), uuids(0..300));
    let claim = begin(&history, &trigger, &ids[..200], START).claim.unwrap();
    begin(&history, &trigger, &["urn:1", "urn:2"], START + 5).claim.unwrap().complete(Some(&[1])).unwrap();
    let snapshot = history.pin("orders").unwrap();
    history.unpin("orders", &snapshot).unwrap();
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
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let trigger = trigger();
    let batch = |number: i64| Transaction { application: "stream".into(), batch: number };
    let ids = Ids::new(&["a", "b"]);
    let start = |number: i64, replay: OnReplay| {
        history.begin(&trigger, &ids.documents(), &mut Call::at(START + number), Some(&batch(number)), replay)
    };
    let rule = |begun: &dochistory_core::protocols::trigger::Begun| {
        begun.verdicts.outcomes.iter().map(|outcome| outcome.rule()).collect::<Vec<_>>()
    };
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
    assert_eq!(start(&again, 7).replay, Some(Replay::Finished));
    again.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(rules(&again, &trigger, &["small", &ids[0], &ids[1], &ids[2]], START), ["R9", "R9", "R9", "R8"]);
}

#[test]
fn ending_a_key_ends_all_its_open_claims_also_where_another_claim_has_completed() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(&directory.path().join("h"));
    let mut trigger = trigger();
    trigger.expiry = dochistory_core::protocols::trigger::rules::Expiry::Exact;
    let later = START + 30 * DAY;
    let first = begin(&history, &trigger, &["a"], START).claim.unwrap();
    begin(&history, &trigger, &["a"], later).claim.unwrap();
    first.complete(None).unwrap();
    assert_eq!(rules(&history, &trigger, &["a"], later), ["R11"], "what has expired does not count");
    let keys = Ids::new(&["a"]);
    history.complete_keys(&trigger, &keys.documents(), later).unwrap();
    assert_eq!(rules(&history, &trigger, &["a"], later), ["R9"]);

    trigger.name = "until purged".into();
    let first = begin(&history, &trigger, &["a"], START).claim.unwrap();
    begin(&history, &trigger, &["a"], later).claim.unwrap();
    first.complete(None).unwrap();
    trigger.expiry = dochistory_core::protocols::trigger::rules::Expiry::UntilPurged;
    history.complete_keys(&trigger, &keys.documents(), later).unwrap();
    history.purge(&trigger, Purge::at(later)).unwrap();
    assert_eq!(
        rules(&history, &trigger, &["a"], later),
        ["R9"],
        "the purge took the completed claim, not the other's end"
    );
}
