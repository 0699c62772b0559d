//! Jobs that are transactions, and come again.

use std::path::Path;

use dochistory_core::history::History;
use dochistory_core::protocols::trigger::{JobPlan, Replay};
use dochistory_core::{Error, OnReplay, Replays};

use crate::harness::{START, begin, fresh, open, rules, trigger};
use crate::{batch, plan, reserve, stage};

fn replayed(
    history: &History,
    path: &Path,
    plan: JobPlan,
    ids: &[&str],
) -> (Option<Replay>, Vec<(String, u64)>, Option<u64>) {
    let (job, replay) = history.reserve(&trigger(), plan).unwrap();
    let receipt = stage(path, &job, 0, "a0", ids);
    let counts = receipt.counts().iter().map(|count| (count.rule.clone(), count.rows)).collect();
    let claim = history.commit(&trigger(), &job, &[receipt]).unwrap();
    (replay, counts, claim.number())
}

#[test]
fn a_replay_of_a_claim_that_lost_documents_gives_the_same() {
    let (directory, history) = fresh();
    let of = |reruns| {
        let on_replay = if reruns { OnReplay::Rerun } else { OnReplay::ByRules };
        JobPlan { transaction: Some(batch(1)), replays: Replays { on_replay, ..Replays::default() }, ..plan(1) }
    };
    let job = reserve(&history, of(false));
    let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b", "c"]);
    let others = begin(&history, &trigger(), &["b"], START).claim.unwrap();
    assert_eq!(history.commit_rest(&trigger(), &job, &[receipt], 9).unwrap().lost(), ["b"]);
    // The driver dies, and the batch comes again: by the rules all is in doubt; run again, what was
    // lost stays so.
    let job = reserve(&history, of(true));
    let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b", "c"]);
    let claim = history.commit_rest(&trigger(), &job, &[receipt], 9).unwrap();
    assert_eq!((claim.len(), claim.lost().len()), (2, 0));
    assert_eq!(rules(&history, &trigger(), &["a", "b", "c"], START), ["R11"; 3]);
    claim.complete(None).unwrap();
    others.release(None).unwrap();
    assert_eq!(rules(&history, &trigger(), &["a", "b", "c"], START), ["R9", "R8", "R9"]);
    let (replay, counts, _) = replayed(&history, directory.path(), of(false), &["a", "b", "c"]);
    assert_eq!((replay, counts), (Some(Replay::Finished), vec![("R9".to_owned(), 3)]));
}

#[test]
fn a_batch_that_comes_again_is_known_by_its_transaction() {
    let (directory, history) = fresh();
    let of = |number, reruns| {
        let on_replay = if reruns { OnReplay::Rerun } else { OnReplay::ByRules };
        JobPlan { transaction: Some(batch(number)), replays: on_replay.into(), ..plan(1) }
    };
    let again = |plan| replayed(&history, directory.path(), plan, &["a", "b"]);
    let rows = |rule: &str| vec![(rule.to_owned(), 2)];

    let (replay, counts, first) = again(of(1, false));
    assert_eq!((replay, counts), (Some(Replay::First), rows("R8")));
    let (replay, counts, claim) = again(of(1, false));
    assert_eq!((replay, counts, claim), (Some(Replay::Unfinished), rows("R11"), None));
    let (replay, counts, second) = again(of(1, true));
    assert_eq!((replay, counts), (Some(Replay::Unfinished), rows("R8")));
    assert!(second > first);
    assert_eq!(rules(&open(directory.path()), &trigger(), &["a", "b"], START), ["R11", "R11"]);

    let (job, _) = history.reserve(&trigger(), of(1, true)).unwrap();
    let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b"]);
    history.commit(&trigger(), &job, &[receipt]).unwrap().complete(None).unwrap();
    let (replay, counts, claim) = again(of(1, true));
    assert_eq!((replay, counts, claim), (Some(Replay::Finished), rows("R9"), None));
    let reopened = open(directory.path());
    assert_eq!(reopened.statistics("orders").unwrap().transactions, [("stream".to_owned(), 1, true)]);
    assert_eq!(rules(&reopened, &trigger(), &["a", "b"], START), ["R9", "R9"]);

    again(of(2, false));
    assert!(matches!(history.reserve(&trigger(), of(1, false)), Err(Error::Transaction(_))));
}

#[test]
fn two_runs_of_one_transaction_do_not_both_begin_it() {
    let (directory, history) = fresh();
    let of = || JobPlan { transaction: Some(batch(7)), ..plan(1) };
    let jobs = [reserve(&history, of()), reserve(&history, of())];
    let receipts = [0, 1].map(|run| stage(directory.path(), &jobs[run], 0, "a0", &["a"]));
    history.commit(&trigger(), &jobs[1], &receipts[1..]).unwrap();
    assert!(matches!(history.commit(&trigger(), &jobs[0], &receipts[..1]), Err(Error::Conflict(_))));
}

#[test]
fn an_empty_batch_is_remembered() {
    let (_directory, history) = fresh();
    let job = reserve(&history, JobPlan { transaction: Some(batch(3)), ..plan(4) });
    history.commit(&trigger(), &job, &[]).unwrap().complete(None).unwrap();
    assert_eq!(history.statistics("orders").unwrap().transactions, [("stream".to_owned(), 3, true)]);
}
