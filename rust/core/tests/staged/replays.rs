//! Jobs that are transactions, and come again.

use std::path::Path;

use dochistory_core::history::History;
use dochistory_core::protocols::trigger::rules::Answer;
use dochistory_core::protocols::trigger::{Call, Claim, Job, JobPlan, Receipt, Replay, StagedClaim};
use dochistory_core::{Error, OnReplay, Replays};

use crate::harness::{Ids, START, begin, fresh, open, rules, seal, trigger};
use crate::lost::Says;
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
    // What it lost was not done: it is new, and the batch stays ended.
    let counts = |new, done| vec![("R8".to_owned(), new), ("R9".to_owned(), done)];
    let again = replayed(&history, directory.path(), of(false), &["a", "b", "c"]);
    assert_eq!((again.0, again.1), (Some(Replay::Finished), counts(1, 2)));
    assert_eq!(history.statistics("orders").unwrap().transactions, [("stream".to_owned(), 1, true)]);
}

/// Begin and commit batch 1 in two parts.
fn run(path: &Path, history: &History, on_replay: OnReplay, parts: [&[&str]; 2]) -> StagedClaim {
    let (job, receipts) = staged(path, history, on_replay, parts);
    history.commit_rest(&trigger(), &job, &receipts, 9).unwrap()
}

fn staged(path: &Path, history: &History, on_replay: OnReplay, parts: [&[&str]; 2]) -> (Job, [Receipt; 2]) {
    let plan = JobPlan { transaction: Some(batch(1)), replays: on_replay.into(), ..plan(2) };
    let job = reserve(history, plan);
    let receipts = [stage(path, &job, 0, "a0", parts[0]), stage(path, &job, 1, "a0", parts[1])];
    (job, receipts)
}

#[test]
fn a_doubt_that_a_finished_batch_left_is_new_once_released() {
    let (directory, history) = fresh();
    let run = || run(directory.path(), &history, OnReplay::ByRules, [&["x", "y", "x"], &["z"]]);
    let others = begin(&history, &trigger(), &["x"], START).claim.unwrap();
    run().complete(None).unwrap();
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!((run().len(), run().replay()), (0, Some(Replay::Finished)));
    others.release(None).unwrap();
    let again = run();
    assert_eq!((again.len(), again.replay()), (1, Some(Replay::Finished)));
    assert_eq!(rules(&history, &trigger(), &["x", "y", "z"], START), ["R11", "R9", "R9"]);
    again.release(None).unwrap();
    run().complete(None).unwrap();
    assert_eq!((run().len(), run().replay()), (0, Some(Replay::Finished)));
    assert_eq!(rules(&open(directory.path()), &trigger(), &["x", "y", "z"], START), ["R9"; 3]);
}

/// Begin a document that others have begun.
fn begin_too(history: &History, id: &str) -> Claim {
    let (ids, mut says) = (Ids::new(&[id]), Says(Answer::New, 0));
    let mut call = Call { resolver: Some(&mut says), ..Call::at(START) };
    let begun = history.begin(&trigger(), &ids.documents(), &mut call, None, OnReplay::ByRules).unwrap();
    begun.claim.unwrap()
}

/// One ended, one is not handed out; after whatever becomes of the files.
fn stay(path: &Path, history: &History, ids: &[&str], expected: &[&str]) {
    assert_eq!(rules(history, &trigger(), ids, START), expected);
    seal(history, "orders");
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(rules(&open(path), &trigger(), ids, START), expected);
}

#[test]
fn a_rerun_by_tasks_leaves_what_it_does_not_run_in_doubt() {
    for parts in [[&["g", "h"][..], &["i"]], [&["g"], &["h", "i"]]] {
        let (directory, history) = fresh();
        let path = directory.path();
        run(path, &history, OnReplay::ByRules, parts);
        let others = begin_too(&history, "g");
        begin_too(&history, "i").complete(None).unwrap();
        let again = run(path, &history, OnReplay::Rerun, parts);
        assert_eq!((again.len(), again.replay()), (1, Some(Replay::Unfinished)));
        others.release(None).unwrap();
        stay(path, &history, &["g", "h", "i"], &["R11", "R11", "R9"]);
        again.release(None).unwrap();
        stay(path, &history, &["g", "h", "i"], &["R11", "R8", "R9"]);
    }
}

#[test]
fn a_rerun_leaves_what_it_lost_to_others_in_doubt() {
    let (directory, history) = fresh();
    let (path, parts) = (directory.path(), [&["g", "h"][..], &["i"]]);
    run(path, &history, OnReplay::ByRules, parts);
    let (job, receipts) = staged(path, &history, OnReplay::Rerun, parts);
    let others = begin_too(&history, "g");
    let again = history.commit_rest(&trigger(), &job, &receipts, 1).unwrap();
    assert_eq!((again.len(), again.lost()), (2, &["g".to_owned()][..]));
    others.release(None).unwrap();
    again.release(None).unwrap();
    stay(path, &history, &["g", "h", "i"], &["R11", "R8", "R8"]);
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
