//! Staging on many machines: what is committed is begun as a whole, and what is not never shows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use common::{DAY, Ids, START, begin, open, rules, trigger, uuids};
use dochistory_core::columns::FlagColumn;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::rules::{Answer, Expiry};
use dochistory_core::protocols::trigger::{Ask, Attempt, Call, Job, JobPlan, Receipt, Replay, Reply, Resolver};
use dochistory_core::{Error, OnOtherRows, OnReplay, Purge, Replays, Transaction};

fn plan(parts: u32) -> JobPlan {
    JobPlan {
        parts,
        reads: true,
        routed: false,
        replays: Replays::default(),
        transaction: None,
        rows: None,
        started_at: START,
    }
}

fn batch(number: i64) -> Transaction {
    Transaction { application: "stream".into(), batch: number }
}

fn reserve(history: &History, plan: JobPlan) -> Job {
    history.reserve(&trigger(), plan).unwrap().0
}

/// As a task does it, in a process of its own that has the job as text only.
fn stage<S: AsRef<str>>(path: &Path, job: &Job, part: u32, name: &str, ids: &[S]) -> Receipt {
    let job = Job::from_token(&job.token()).unwrap();
    let snapshot = History::snapshot_of_job(&job);
    let history = History::open(path, &OpenOptions { snapshot, read_only: true, ..OpenOptions::default() }).unwrap();
    let ids = Ids::new(ids);
    let attempt = Attempt { part, name };
    let staged = history.stage(&trigger(), &job, attempt, &ids.documents(), &mut Call::at(0)).unwrap();
    Receipt::decode(&staged.receipt.encode()).unwrap()
}

fn staged_files(path: &Path) -> usize {
    let space = std::fs::read_dir(path.join("triggers")).unwrap().next().unwrap().unwrap().path();
    let names = std::fs::read_dir(space).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("new-")).count()
}

#[test]
fn nothing_staged_shows_before_it_is_committed_and_then_all_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let ids = [uuids(0..50), vec!["urn:a".into(), "urn:b".into()]].concat();
    let job = reserve(&history, plan(2));
    let receipts =
        [stage(directory.path(), &job, 0, "a0", &ids[..30]), stage(directory.path(), &job, 1, "a1", &ids[30..])];
    assert!(rules(&history, &trigger(), &ids, START).iter().all(|rule| *rule == "R8"));

    let claim = history.commit(&trigger(), &job, &receipts).unwrap();
    assert_eq!((claim.len(), claim.number()), (52, Some(job.claim())));
    assert!(rules(&history, &trigger(), &ids, START).iter().all(|rule| *rule == "R11"));
    assert_eq!(staged_files(directory.path()), 0);

    claim.complete(None).unwrap();
    assert!(rules(&open(directory.path()), &trigger(), &ids, START).iter().all(|rule| *rule == "R9"));
}

#[test]
fn only_the_attempts_that_won_count() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let job = reserve(&history, plan(1));
    stage(directory.path(), &job, 0, "p0-a0", &["lost"]);
    let won = stage(directory.path(), &job, 0, "p0-a1", &["won"]);
    history.commit(&trigger(), &job, &[won]).unwrap();

    assert_eq!(rules(&history, &trigger(), &["lost", "won"], START), ["R8", "R11"]);
}

#[test]
fn what_comes_after_the_commit_is_never_named_and_upkeep_takes_it_away() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let job = reserve(&history, plan(1));
    let snapshot = History::snapshot_of_job(&job);
    let options = OpenOptions { snapshot, ..OpenOptions::default() };
    // The zombie has the snapshot open since before.
    let zombie = History::open(directory.path(), &options).unwrap();
    let ids = Ids::new(&["a"]);
    let attempt = |name| Attempt { part: 0, name };
    let first = zombie.stage(&trigger(), &job, attempt("a0"), &ids.documents(), &mut Call::at(0)).unwrap().receipt;
    history.commit(&trigger(), &job, std::slice::from_ref(&first)).unwrap();
    let late = zombie.stage(&trigger(), &job, attempt("a1"), &ids.documents(), &mut Call::at(0)).unwrap().receipt;
    assert_eq!(staged_files(directory.path()), 1);

    for receipt in [late, first] {
        assert!(matches!(history.commit(&trigger(), &job, &[receipt]), Err(Error::State(_))));
    }
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(staged_files(directory.path()), 0);
    assert_eq!(rules(&history, &trigger(), &["a"], START), ["R11"]);
}

#[test]
fn upkeep_and_purges_leave_a_live_jobs_files_alone() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    begin(&history, &trigger(), &uuids(100..140), START - 90 * DAY);
    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, 0, "a0", &uuids(0..40));
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    history.purge(&trigger(), Purge::at(START)).unwrap();
    begin(&history, &trigger(), &uuids(200..240), START);
    history.pin("orders").unwrap();

    history.commit(&trigger(), &job, &[receipt]).unwrap();
    assert!(rules(&history, &trigger(), &uuids(0..40), START).iter().all(|rule| *rule == "R11"));
}

/// Who did what between the reservation and the commit, and whether the job may still commit.
fn conflicts(between: impl FnOnce(&History)) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    begin(&history, &trigger(), &["known"], START - DAY);
    let job = reserve(&history, plan(2));
    let receipts = [
        stage(directory.path(), &job, 0, "a0", &[uuids(0..300), vec!["urn:x".into()]].concat()),
        stage(directory.path(), &job, 1, "a0", &uuids(300..600)),
    ];
    between(&history);
    let before = rules(&history, &trigger(), &uuids(0..600), START);
    match history.commit(&trigger(), &job, &receipts) {
        Ok(_) => false,
        Err(Error::Conflict(_)) => {
            assert_eq!(rules(&history, &trigger(), &uuids(0..600), START), before, "half of it was begun");
            history.give_up(&job).unwrap();
            true
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_document_that_others_began_meanwhile_is_a_conflict_wherever_it_stands() {
    let seal = |history: &History| drop(history.pin("orders").unwrap());
    assert!(!conflicts(|_| ()));
    assert!(!conflicts(|history| drop(begin(history, &trigger(), &uuids(1000..1010), START))));
    assert!(!conflicts(|history| drop(begin(history, &trigger(), &uuids(1000..4000), START))));
    assert!(conflicts(|history| drop(begin(history, &trigger(), &uuids(599..610), START))));
    assert!(conflicts(|history| drop(begin(history, &trigger(), &["urn:x"], START))));
    assert!(conflicts(|history| {
        begin(history, &trigger(), &["urn:x"], START);
        seal(history);
    }));
    assert!(conflicts(|history| drop(begin(history, &trigger(), &uuids(500..4000), START))));
    assert!(conflicts(|history| {
        history.complete_keys(&trigger(), &Ids::new(&["urn:x"]).documents(), START).unwrap();
        seal(history);
        history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    }));
    // What others began and took back again is new as before.
    assert!(!conflicts(|history| begin(history, &trigger(), &["urn:x"], START).claim.unwrap().release(None).unwrap()));
    assert!(!conflicts(|history| {
        seal(history);
        history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    }));
}

/// What is left out of a claim on these ids when `between` comes first, and what the lost are
/// decided to be.
fn left_out(
    ids: &[&str],
    between: impl FnOnce(&History),
    before_decision: impl FnOnce(&History),
) -> (Vec<String>, Vec<&'static str>, u64) {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, 0, "a0", ids);
    between(&history);
    let claim = history.commit_rest(&trigger(), &job, &[receipt], u64::MAX).unwrap();
    let mut lost = claim.lost().to_vec();
    lost.sort();
    before_decision(&history);
    let again = claim.decide_lost(&trigger(), &Ids::new(&lost).documents(), &mut Call::at(0)).unwrap();
    let rules = again.outcomes.iter().map(|outcome| outcome.rule()).collect();
    let expected =
        ids.len() as u64 - lost.len() as u64 + again.outcomes.iter().filter(|one| one.rule() == "R8").count() as u64;
    assert_eq!((claim.len(), claim.number().is_some()), (expected, expected > 0));
    claim.complete(None).unwrap();
    (lost, rules, claim.len())
}

#[test]
fn a_claim_leaves_out_what_others_were_first_with() {
    let ended = |history: &History| begin(history, &trigger(), &["b"], START).claim.unwrap().complete(None).unwrap();
    let begun = |history: &History| drop(begin(history, &trigger(), &["b", "d", "z"], START));
    let nothing = |_: &History| ();
    let of = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    assert_eq!(left_out(&["a", "b", "c", "d"], ended, nothing), (of(&["b"]), vec!["R9"], 3));
    assert_eq!(left_out(&["a", "b", "c", "d"], begun, nothing), (of(&["b", "d"]), vec!["R11", "R11"], 2));
    assert_eq!(left_out(&["a", "b"], nothing, nothing), (vec![], vec![], 2));
    assert_eq!(left_out(&["b", "d"], begun, nothing), (of(&["b", "d"]), vec!["R11", "R11"], 0));
}

#[test]
fn a_lost_document_that_was_released_since_is_begun_under_the_claim() {
    let release = |history: &History| {
        assert_eq!(history.release_keys(&trigger(), &Ids::new(&["b"]).documents(), START).unwrap().changed, 1);
    };
    let begun = |history: &History| drop(begin(history, &trigger(), &["b", "d"], START));
    let (lost, rules, count) = left_out(&["a", "b", "c", "d"], begun, release);
    assert_eq!((lost, rules, count), (vec!["b".into(), "d".into()], vec!["R8", "R11"], 3));
    assert_eq!(left_out(&["b"], begun, release), (vec!["b".into()], vec!["R8"], 1));
}

#[test]
fn what_a_claim_leaves_out_is_not_its_to_end() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let ids = [uuids(0..100), vec!["urn:a".into(), "urn:b".into()]].concat();
    let job = reserve(&history, plan(2));
    let receipts =
        [stage(directory.path(), &job, 0, "a0", &ids[..60]), stage(directory.path(), &job, 1, "a0", &ids[60..])];
    let others = begin(&history, &trigger(), &[uuids(50..55), vec!["urn:b".into()]].concat(), START).claim.unwrap();
    assert!(matches!(history.commit_rest(&trigger(), &job, &receipts, 5), Err(Error::Conflict(_))));
    let claim = history.commit_rest(&trigger(), &job, &receipts, 6).unwrap();
    assert_eq!((claim.len(), claim.lost().len()), (96, 6));
    for stranger in [uuids(50..51), vec!["urn:b".into()]] {
        assert!(matches!(claim.complete(Some(&Ids::new(&stranger).documents())), Err(Error::State(_))));
    }
    claim.complete(None).unwrap();
    let lost = |number: usize| (50..55).contains(&number) || number == 101;
    let found = |history: &History| rules(history, &trigger(), &ids, START);
    let is = |rule: &'static str| (0..102).map(|number| if lost(number) { rule } else { "R9" }).collect::<Vec<_>>();
    assert_eq!(found(&history), is("R11"));
    others.release(None).unwrap();
    assert_eq!(found(&open(directory.path())), is("R8"));
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(found(&open(directory.path())), is("R8"));
    let late = claim.decide_lost(&trigger(), &Ids::new(&["urn:b"]).documents(), &mut Call::at(0));
    assert!(matches!(late, Err(Error::State(_))), "a claim that has ended takes no more");
}

/// A resolver that knows one answer.
struct Says(Answer, usize);

impl Resolver for Says {
    fn resolve(&mut self, ask: Ask<'_>) -> dochistory_core::Result<Reply> {
        self.1 += ask.rows.len();
        Ok(Reply { answers: vec![self.0; ask.rows.len()], messages: Vec::new() })
    }
}

#[test]
fn lost_documents_are_the_resolvers_to_settle() {
    for (answer, rule, count) in [(Answer::New, "R10>S1", 2), (Answer::Duplicate, "R10>S2", 1)] {
        let directory = tempfile::tempdir().unwrap();
        let history = open(directory.path());
        let job = reserve(&history, plan(1));
        let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b"]);
        begin(&history, &trigger(), &["b"], START);
        let claim = history.commit_rest(&trigger(), &job, &[receipt], 1).unwrap();
        let (ids, mut resolver) = (Ids::new(&["b", "b"]), Says(answer, 0));
        let mut call = Call { resolver: Some(&mut resolver), ..Call::at(0) };
        let again = claim.decide_lost(&trigger(), &ids.documents(), &mut call).unwrap();
        assert_eq!(again.outcomes[0].rule(), rule);
        assert_eq!(again.outcomes.iter().filter(|one| one.writes_processing()).count() as u64, count - 1);
        assert_eq!((claim.len(), resolver.1), (count, 2));
        claim.complete(None).unwrap();
        let reopened = rules(&open(directory.path()), &trigger(), &["a", "b"], START);
        assert_eq!(reopened, ["R9", if count == 2 { "R9" } else { "R11" }]);
    }
}

#[test]
fn a_row_that_a_resolver_let_run_is_lost_if_others_ran_it_too() {
    let staged = |between: &dyn Fn(&History)| {
        let directory = tempfile::tempdir().unwrap();
        let history = open(directory.path());
        begin(&history, &trigger(), &["b"], START);
        let job = reserve(&history, plan(1));
        let snapshot = History::snapshot_of_job(&job);
        let tasks = History::open(directory.path(), &OpenOptions { snapshot, ..OpenOptions::default() }).unwrap();
        let (ids, mut resolver) = (Ids::new(&["a", "b"]), Says(Answer::New, 0));
        let mut call = Call { resolver: Some(&mut resolver), ..Call::at(0) };
        let attempt = Attempt { part: 0, name: "a0" };
        let receipt = tasks.stage(&trigger(), &job, attempt, &ids.documents(), &mut call).unwrap().receipt;
        between(&history);
        history.commit_rest(&trigger(), &job, &[receipt], 9).unwrap().lost().to_vec()
    };
    let b = Ids::new(&["b"]);
    let release = |history: &History| history.release_keys(&trigger(), &b.documents(), START).unwrap();
    assert!(staged(&|_| ()).is_empty());
    assert!(staged(&|history| assert_eq!(release(history).changed, 1)).is_empty());
    let complete = |history: &History| history.complete_keys(&trigger(), &b.documents(), START).unwrap();
    assert_eq!(staged(&|history| assert_eq!(complete(history).changed, 1)), ["b"]);
    let again = |history: &History| {
        release(history);
        begin(history, &trigger(), &["b"], START);
    };
    assert_eq!(staged(&again), ["b"]);
}

#[test]
fn what_had_expired_and_was_ended_again_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let mut trigger = trigger();
    trigger.expiry = Expiry::Exact;
    begin(&history, &trigger, &["a"], START - 40 * DAY).claim.unwrap().complete(None).unwrap();
    let job = history.reserve(&trigger, plan(1)).unwrap().0;
    let snapshot = History::snapshot_of_job(&job);
    let tasks = History::open(directory.path(), &OpenOptions { snapshot, ..OpenOptions::default() }).unwrap();
    let (ids, attempt) = (Ids::new(&["a", "b"]), Attempt { part: 0, name: "a0" });
    let staged = tasks.stage(&trigger, &job, attempt, &ids.documents(), &mut Call::at(0)).unwrap();
    assert!(staged.verdicts.outcomes.iter().all(|one| one.rule() == "R8"));
    begin(&history, &trigger, &["a"], START).claim.unwrap().complete(None).unwrap();
    let claim = history.commit_rest(&trigger, &job, &[staged.receipt], 9).unwrap();
    assert_eq!(claim.lost(), ["a"]);
}

#[test]
fn a_replay_of_a_claim_that_lost_documents_gives_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
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
fn the_same_job_decided_anew_gets_what_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b"]);
    begin(&history, &trigger(), &["a"], START).claim.unwrap().complete(None).unwrap();
    assert!(matches!(history.commit(&trigger(), &job, &[receipt]), Err(Error::Conflict(_))));
    history.give_up(&job).unwrap();

    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b"]);
    assert_eq!(
        receipt.counts().iter().map(|count| (&count.rule[..], count.rows)).collect::<Vec<_>>(),
        [("R8", 1), ("R9", 1)]
    );
    assert_eq!(history.commit(&trigger(), &job, &[receipt]).unwrap().len(), 1);
}

#[test]
fn single_documents_end_by_themselves_and_the_rest_with_the_claim() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b", "c", "d"]);
    let claim = history.commit(&trigger(), &job, &[receipt]).unwrap();
    claim.release(Some(&Ids::new(&["b"]).documents())).unwrap();
    claim.complete(Some(&Ids::new(&["a"]).documents())).unwrap();
    let found = |history: &History| rules(history, &trigger(), &["a", "b", "c", "d"], START);
    assert_eq!(found(&history), ["R9", "R8", "R11", "R11"]);
    assert!(matches!(claim.complete(Some(&Ids::new(&["z"]).documents())), Err(Error::State(_))));

    let refused = claim.complete(Some(&Ids::new(&["b"]).documents())).unwrap_err().to_string();
    assert!(refused.contains("document \"b\" of this claim was released"), "{refused}");
    let refused = claim.release(Some(&Ids::new(&["a"]).documents())).unwrap_err().to_string();
    assert!(refused.contains("document \"a\" of this claim was completed"), "{refused}");

    claim.complete(None).unwrap();
    assert_eq!(found(&history), ["R9", "R8", "R9", "R9"]);
    assert!(claim.release(None).unwrap_err().to_string().contains("this claim was completed"));
    assert_eq!(found(&history), ["R9", "R8", "R9", "R9"]);
}

#[test]
fn a_claim_ends_also_after_its_partition_was_purged() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b"]);
    let claim = history.commit(&trigger(), &job, &[receipt]).unwrap();
    claim.release(Some(&Ids::new(&["b"]).documents())).unwrap();
    history.purge(&trigger(), Purge::at(START + 31 * DAY)).unwrap();
    assert_eq!(rules(&history, &trigger(), &["a", "b"], START), ["R8", "R8"]);

    claim.complete(None).unwrap();
    assert_eq!(rules(&history, &trigger(), &["a", "b"], START), ["R9", "R8"]);
}

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
fn a_batch_that_comes_again_is_known_by_its_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
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
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let of = || JobPlan { transaction: Some(batch(7)), ..plan(1) };
    let jobs = [reserve(&history, of()), reserve(&history, of())];
    let receipts = [0, 1].map(|run| stage(directory.path(), &jobs[run], 0, "a0", &["a"]));
    history.commit(&trigger(), &jobs[1], &receipts[1..]).unwrap();
    assert!(matches!(history.commit(&trigger(), &jobs[0], &receipts[..1]), Err(Error::Conflict(_))));
}

#[test]
fn an_empty_batch_is_remembered() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let job = reserve(&history, JobPlan { transaction: Some(batch(3)), ..plan(4) });
    history.commit(&trigger(), &job, &[]).unwrap().complete(None).unwrap();
    assert_eq!(history.statistics("orders").unwrap().transactions, [("stream".to_owned(), 3, true)]);
}

#[test]
fn what_does_not_fit_the_job_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let (job, other) = (reserve(&history, plan(2)), reserve(&history, plan(2)));
    let receipt = stage(directory.path(), &job, 0, "a0", &["a"]);
    let twice = [receipt.clone(), stage(directory.path(), &job, 0, "a1", &["a"])];
    assert!(matches!(history.commit(&trigger(), &job, &twice), Err(Error::Config(_))));
    assert!(matches!(history.commit(&trigger(), &other, std::slice::from_ref(&receipt)), Err(Error::Config(_))));
    let ids = Ids::new(&["a"]);
    let stage = |attempt| history.stage(&trigger(), &job, attempt, &ids.documents(), &mut Call::at(0));
    assert!(matches!(stage(Attempt { part: 0, name: "a" }), Err(Error::Config(_))), "not the job's snapshot");
    assert!(matches!(stage(Attempt { part: 2, name: "a" }), Err(Error::Config(_))));
    assert!(matches!(stage(Attempt { part: 0, name: "../a" }), Err(Error::Config(_))));
    history.commit(&trigger(), &job, &[receipt]).unwrap();
}

#[test]
fn a_row_that_was_sent_to_another_part_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let job = reserve(&history, JobPlan { routed: true, ..plan(8) });
    let snapshot = History::snapshot_of_job(&job);
    let tasks = History::open(directory.path(), &OpenOptions { snapshot, ..OpenOptions::default() }).unwrap();
    // What Spark answers to `select pmod(xxhash64('abc'), 8)`.
    let ids = Ids::new(&["abc"]);
    let fits = (0..8).filter(|part| {
        let attempt = Attempt { part: *part, name: "a" };
        tasks.stage(&trigger(), &job, attempt, &ids.documents(), &mut Call::at(0)).is_ok()
    });
    assert_eq!(fits.collect::<Vec<_>>(), [6]);
}

#[test]
fn entries_are_staged_and_published_once_whoever_reserved_for_them() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let load = |part: u64| {
        let job = reserve(&history, JobPlan { reads: false, ..plan(1) });
        let ids = Ids::new(&uuids(part * 40..part * 40 + 40));
        let tasks =
            History::open(directory.path(), &OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
        let mut staging = tasks.stage_entries(&job, Attempt { part: 0, name: "a0" }).unwrap();
        let times: Vec<i64> = (0..40).map(|row| START - row * DAY).collect();
        staging.push(&ids.documents(), &times, FlagColumn::Absent).unwrap();
        staging.finish().unwrap()
    };
    let receipts = [load(0), load(1)];
    let commit = |receipts: &[Receipt], number| {
        history.commit_entries(&trigger(), receipts, Some(&batch(number)), OnOtherRows::Refuse)
    };
    assert!(rules(&history, &trigger(), &uuids(0..80), START).iter().all(|rule| *rule == "R8"));
    assert_eq!(commit(&receipts, 5).unwrap(), 80);
    assert_eq!(commit(&receipts, 5).unwrap(), 0);
    assert!(matches!(commit(&receipts, 4), Err(Error::Transaction(_))));
    assert!(matches!(commit(&receipts, 6), Err(Error::State(_))));
    assert!(rules(&open(directory.path()), &trigger(), &uuids(0..80), START).iter().all(|rule| *rule == "R9"));

    let given_up = load(2);
    history.abort_entries(std::slice::from_ref(&given_up));
    history.abort_entries(&receipts);
    assert_eq!(staged_files(directory.path()), 0);
    assert!(commit(&[given_up], 7).is_err());
    assert!(rules(&history, &trigger(), &uuids(0..80), START).iter().all(|rule| *rule == "R9"));
}
