//! How claims end, and what their ends leave alone.

use dochistory_core::protocols::trigger::rules::Expiry;
use dochistory_core::protocols::trigger::{Call, OnReplay, Replay};
use dochistory_core::{Error, Purge, Transaction};

use crate::harness::{DAY, Ids, START, begin, fresh, open, rules, seal, trigger, uuid, uuids};

#[test]
fn a_claim_that_ends_after_its_entries_were_sealed_ends_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("h");
    let history = open(&path);
    let (trigger, ids) = (trigger(), uuids(0..100));
    let completed = begin(&history, &trigger, &ids[..50], START).claim.unwrap();
    let released = begin(&history, &trigger, &ids[50..], START).claim.unwrap();
    seal(&history, "orders");
    completed.complete(None).unwrap();
    released.release(None).unwrap();
    let expected = [["R9"; 50], ["R8"; 50]].concat();
    assert_eq!(rules(&history, &trigger, &ids, START), expected);
    seal(&history, "orders");
    assert_eq!(rules(&history, &trigger, &ids, START), expected);
    assert_eq!(rules(&open(&path), &trigger, &ids, START), expected);
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(rules(&history, &trigger, &ids, START), expected);
}

#[test]
fn row_released_after_sealing_stays_released() {
    let (_directory, history) = fresh();
    let trigger = trigger();
    let expected = ["R8", "R9", "R8"];
    // Twice, so that the key has releases under two claims.
    for _ in 0..2 {
        let claim = begin(&history, &trigger, &["urn:a", "urn:b", &uuid(1)], START).claim.unwrap();
        seal(&history, "orders");
        claim.release(Some(&[0, 2])).unwrap();
        seal(&history, "orders");
        claim.complete(None).unwrap();
        assert_eq!(rules(&history, &trigger, &["urn:a", "urn:b", &uuid(1)], START), expected);
        seal(&history, "orders");
        assert_eq!(rules(&history, &trigger, &["urn:a", "urn:b", &uuid(1)], START), expected);
    }
    let listed = history.entries("orders", None).unwrap().next_batch().unwrap().unwrap();
    assert_eq!(listed.keys, ["urn:b"]);
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(rules(&history, &trigger, &["urn:a", "urn:b", &uuid(1)], START), expected);
}

#[test]
fn completed_key_stays_completed_after_later_releases() {
    let (_directory, history) = fresh();
    let trigger = trigger();
    let batch = Transaction { application: "stream".into(), batch: 1 };
    let ids = Ids::new(&["a", "b"]);
    let begun = history.begin(&trigger, &ids.documents(), &mut Call::at(START), Some(&batch), OnReplay::Rerun).unwrap();
    let claim = begun.claim.unwrap();
    claim.complete(None).unwrap();
    assert!(matches!(claim.release(Some(&[0])), Err(Error::State(_))));
    assert_eq!(rules(&history, &trigger, &["a", "b"], START), ["R9", "R9"]);
    seal(&history, "orders");
    assert!(matches!(claim.release(None), Err(Error::State(_))));
    claim.complete(None).unwrap();
    assert_eq!(rules(&history, &trigger, &["a", "b"], START), ["R9", "R9"]);
    let again = history.begin(&trigger, &ids.documents(), &mut Call::at(START), Some(&batch), OnReplay::Rerun).unwrap();
    assert_eq!(again.replay, Some(Replay::Finished));
}

#[test]
fn a_claim_that_was_released_completes_no_later_claims_document() {
    let (_directory, history) = fresh();
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
fn ending_a_key_ends_all_its_open_claims() {
    let (_directory, history) = fresh();
    let mut trigger = trigger();
    trigger.expiry = Expiry::Exact;
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
    trigger.expiry = Expiry::UntilPurged;
    history.complete_keys(&trigger, &keys.documents(), later).unwrap();
    history.purge(&trigger, Purge::at(later)).unwrap();
    assert_eq!(
        rules(&history, &trigger, &["a"], later),
        ["R9"],
        "the purge took the completed claim, not the other's end"
    );
}
