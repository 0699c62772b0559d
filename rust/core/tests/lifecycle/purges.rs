//! What a purge drops, and what claims that end later find.

use dochistory_core::protocols::trigger::{Call, OnReplay, Replay};
use dochistory_core::{Purge, Transaction};

use crate::harness::{DAY, Ids, START, begin, fresh, open, rules, seal, trigger, uuid, uuids};

#[test]
fn a_purge_drops_what_is_expired_and_nothing_else() {
    let (_directory, history) = fresh();
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
fn completion_after_a_purge_is_visible_until_the_next_purge() {
    let (_directory, history) = fresh();
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
fn a_completed_claim_that_was_purged_is_not_brought_back() {
    let (_directory, history) = fresh();
    let trigger = trigger();
    let claim = begin(&history, &trigger, &["a"], START).claim.unwrap();
    claim.complete(None).unwrap();
    history.purge(&trigger, Purge::at(START + 40 * DAY)).unwrap();
    claim.complete(None).unwrap();
    assert_eq!(rules(&history, &trigger, &["a"], START), ["R8"]);
}

#[test]
fn a_purge_within_a_partition_keeps_the_ends_of_what_stays() {
    let (directory, history) = fresh();
    let trigger = trigger();
    // The early two share a partition, and so a segment, with one that is not expired yet.
    let completed = begin(&history, &trigger, &["a"], START).claim.unwrap();
    let released = begin(&history, &trigger, &["b"], START).claim.unwrap();
    begin(&history, &trigger, &["c"], START + 1_000);
    seal(&history, "orders");
    completed.complete(None).unwrap();
    released.release(None).unwrap();
    seal(&history, "orders");
    begin(&history, &trigger, &["other"], START - 5 * DAY);
    history.purge(&trigger, Purge::at(START + 500 + 30 * DAY)).unwrap();
    assert_eq!(rules(&history, &trigger, &["a", "b", "c", "other"], START), ["R9", "R8", "R11", "R8"]);
    seal(&history, "orders");
    assert_eq!(rules(&open(directory.path()), &trigger, &["a", "b", "c"], START), ["R9", "R8", "R11"]);
}

#[test]
fn a_purge_within_a_partition_keeps_the_ends_of_single_rows() {
    for in_segments in [false, true] {
        let (directory, history) = fresh();
        let trigger = trigger();
        let claim = begin(&history, &trigger, &["a", "b", "c"], START).claim.unwrap();
        begin(&history, &trigger, &["stays"], START + 1_000);
        seal(&history, "orders");
        claim.complete(Some(&[0])).unwrap();
        claim.release(Some(&[1])).unwrap();
        if in_segments {
            // Their ends are in a file of their own, all of which is expired.
            seal(&history, "orders");
        }
        let ids = ["a", "b", "c", "stays"];
        let purge = Purge::at(START + 500 + 30 * DAY);
        let planned = history.purge(&trigger, Purge { dry_run: true, ..purge }).unwrap();
        assert_eq!(history.purge(&trigger, purge).unwrap(), planned);
        assert_eq!(rules(&history, &trigger, &ids, START), ["R9", "R8", "R11", "R11"]);
        seal(&history, "orders");
        assert_eq!(rules(&open(directory.path()), &trigger, &ids, START), ["R9", "R8", "R11", "R11"]);
        // They leave together.
        history.purge(&trigger, Purge::at(START + 1_000 + 30 * DAY)).unwrap();
        assert_eq!(rules(&history, &trigger, &ids, START), ["R8"; 4]);
    }
}

#[test]
fn claim_ending_after_a_purge_keeps_released_rows_new() {
    let (_directory, history) = fresh();
    let trigger = trigger();
    let batch = Transaction { application: "stream".into(), batch: 1 };
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
    // The released row is to be processed still.
    assert_eq!(start(late).replay, Some(Replay::Unfinished));
}
