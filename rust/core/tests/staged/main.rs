//! Staging on many machines: what is committed is begun as a whole, and what is not never shows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../harness/mod.rs"]
mod harness;
mod lost;
mod replays;
mod resolved;

use std::path::Path;

use dochistory_core::columns::FlagColumn;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::{Attempt, Call, Job, JobPlan, Receipt};
use dochistory_core::{Error, OnOtherRows, Purge, Replays, Transaction};
use harness::{DAY, Ids, START, begin, fresh, open, reading, rules, trigger, uuids};

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
fn staged_entries_show_all_at_once_at_the_commit() {
    let (directory, history) = fresh();
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
    let (directory, history) = fresh();
    let job = reserve(&history, plan(1));
    stage(directory.path(), &job, 0, "p0-a0", &["lost"]);
    let won = stage(directory.path(), &job, 0, "p0-a1", &["won"]);
    history.commit(&trigger(), &job, &[won]).unwrap();

    assert_eq!(rules(&history, &trigger(), &["lost", "won"], START), ["R8", "R11"]);
}

#[test]
fn file_staged_after_the_commit_is_collected_as_an_orphan() {
    let (directory, history) = fresh();
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
fn maintenance_and_purges_keep_the_files_of_a_live_job() {
    let (directory, history) = fresh();
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

#[test]
fn single_documents_end_alone_and_the_rest_with_the_claim() {
    let (directory, history) = fresh();
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
    let (directory, history) = fresh();
    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, 0, "a0", &["a", "b"]);
    let claim = history.commit(&trigger(), &job, &[receipt]).unwrap();
    claim.release(Some(&Ids::new(&["b"]).documents())).unwrap();
    history.purge(&trigger(), Purge::at(START + 31 * DAY)).unwrap();
    assert_eq!(rules(&history, &trigger(), &["a", "b"], START), ["R8", "R8"]);

    claim.complete(None).unwrap();
    assert_eq!(rules(&history, &trigger(), &["a", "b"], START), ["R9", "R8"]);
}

#[test]
fn what_does_not_fit_the_job_is_refused() {
    let (directory, history) = fresh();
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
    let (directory, history) = fresh();
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
fn staged_entries_are_published_once_for_any_reserver() {
    let (directory, history) = fresh();
    let load = |part: u64| {
        let job = reserve(&history, JobPlan { reads: false, ..plan(1) });
        let ids = Ids::new(&uuids(part * 40..part * 40 + 40));
        let tasks = History::open(directory.path(), &reading()).unwrap();
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
