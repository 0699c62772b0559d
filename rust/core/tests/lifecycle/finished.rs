//! A numbered batch that has ended and comes again: what it left out is decided by the history.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use dochistory_core::history::History;
use dochistory_core::protocols::trigger::{Begun, Call, OnReplay, Replay};
use dochistory_core::{Purge, Transaction};

use crate::harness::{DAY, Ids, START, begin, fresh, open, rules, seal, trigger, uuid};

/// Batch 1, which comes repeatedly.
fn batch(history: &History, ids: &[String]) -> Begun {
    let (ids, batch) = (Ids::new(ids), Transaction { application: "stream".into(), batch: 1 });
    history.begin(&trigger(), &ids.documents(), &mut Call::at(START), Some(&batch), OnReplay::ByRules).unwrap()
}

fn rules_of(begun: &Begun) -> Vec<&'static str> {
    begun.verdicts.outcomes.iter().map(|outcome| outcome.rule()).collect()
}

/// A UUID, a text and a third one.
fn ids() -> Vec<String> {
    vec![uuid(1), "urn:b".into(), uuid(2)]
}

/// A batch that has ended, with doubts about the first two of its documents, of which `others` is
/// told.
fn ended(history: &History) -> dochistory_core::protocols::trigger::Claim {
    let others = begin(history, &trigger(), &ids()[..2], START - DAY).claim.unwrap();
    let first = batch(history, &ids());
    assert_eq!(rules_of(&first), ["R11", "R11", "R8"]);
    first.claim.unwrap().complete(None).unwrap();
    others
}

#[test]
fn a_doubt_that_a_finished_batch_left_is_new_once_released() {
    for after in [|_: &History| (), |history: &History| seal(history, "orders")] {
        let (directory, history) = fresh();
        let others = ended(&history);
        after(&history);
        let again = batch(&history, &ids());
        assert_eq!((rules_of(&again), again.replay), (vec!["R11", "R11", "R9"], Some(Replay::Finished)));
        others.release(Some(&[1])).unwrap();
        after(&history);
        history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
        let history = open(directory.path());
        let again = batch(&history, &ids());
        assert_eq!((rules_of(&again), again.replay), (vec!["R11", "R8", "R9"], Some(Replay::Finished)));
        // Nothing has ended it yet, and the batch stays finished all the same.
        assert_eq!(rules_of(&batch(&history, &ids())), ["R11", "R11", "R9"]);
        assert_eq!(history.statistics("orders").unwrap().transactions, [("stream".to_owned(), 1, true)]);
        again.claim.unwrap().complete(None).unwrap();
        after(&history);
        assert_eq!(rules_of(&batch(&history, &ids())), ["R11", "R9", "R9"]);
        assert_eq!(rules(&history, &trigger(), &ids(), START), ["R11", "R9", "R9"]);
    }
}

#[test]
fn of_a_finished_batch_what_a_purge_took_is_a_duplicate() {
    let (_directory, history) = fresh();
    begin(&history, &trigger(), &["old"], START - 3 * DAY).claim.unwrap().complete(None).unwrap();
    let all = [ids(), vec!["old".into()]].concat();
    let others = begin(&history, &trigger(), &ids()[..1], START - DAY).claim.unwrap();
    let first = batch(&history, &all);
    assert_eq!(rules_of(&first), ["R11", "R8", "R8", "R9"]);
    first.claim.unwrap().complete(None).unwrap();
    history.purge(&trigger(), Purge::at(START + 28 * DAY)).unwrap();
    assert_eq!(rules(&history, &trigger(), &all, START), ["R11", "R9", "R9", "R8"]);
    others.release(None).unwrap();
    let again = batch(&history, &all);
    assert_eq!(rules_of(&again), ["R8", "R9", "R9", "R9"]);
    again.claim.unwrap().complete(None).unwrap();
    // What it left out is known as long as its own documents.
    history.purge(&trigger(), Purge::at(START + 32 * DAY)).unwrap();
    assert_eq!(rules(&history, &trigger(), &all, START), ["R8"; 4]);
    assert_eq!(rules_of(&batch(&history, &all)), ["R9"; 4]);
}

#[test]
fn copies_of_a_doubt_that_a_batch_left_follow_the_rules() {
    let (_directory, history) = fresh();
    let others = begin(&history, &trigger(), &["a"], START).claim.unwrap();
    let twice = || ["a", "b", "a", "b"].map(str::to_owned);
    let first = batch(&history, &twice());
    assert_eq!(rules_of(&first), ["R11", "R8", "R11", "R8+batch"]);
    first.claim.unwrap().complete(None).unwrap();
    others.release(None).unwrap();
    assert_eq!(rules_of(&batch(&history, &twice())), ["R8", "R9", "R8+batch", "R9"]);
}
