//! What the resolvers of tasks call duplicates: the commit completes it, once and only if it holds.

use std::path::Path;

use dochistory_core::Result;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::rules::{Answer, Trigger};
use dochistory_core::protocols::trigger::{Ask, Attempt, Call, Job, Receipt, Reply, Resolver};

use crate::harness::{Ids, START, begin, fresh, open, rules, trigger, uuids};
use crate::{plan, reserve};

/// A resolver that gives these answers, in turn.
struct Says(Vec<Answer>);

impl Resolver for Says {
    fn resolve(&mut self, ask: Ask<'_>) -> Result<Reply> {
        Ok(Reply { answers: self.0.drain(..ask.rows.len()).collect(), messages: Vec::new() })
    }
}

/// A trigger that records what its resolver calls a duplicate.
fn asking() -> Trigger {
    Trigger { complete_resolved: true, ..trigger() }
}

/// As a task does it that has a resolver.
fn stage_as<S: AsRef<str>>(
    trigger: &Trigger,
    path: &Path,
    job: &Job,
    part: u32,
    name: &str,
    ids: &[S],
    answers: &[Answer],
) -> Receipt {
    let snapshot = History::snapshot_of_job(job);
    let history = History::open(path, &OpenOptions { snapshot, read_only: true, ..OpenOptions::default() }).unwrap();
    let (ids, mut resolver) = (Ids::new(ids), Says(answers.to_vec()));
    let mut call = Call { resolver: Some(&mut resolver), ..Call::at(0) };
    let staged = history.stage(trigger, job, Attempt { part, name }, &ids.documents(), &mut call).unwrap();
    Receipt::decode(&staged.receipt.encode()).unwrap()
}

fn stage<S: AsRef<str>>(path: &Path, job: &Job, name: &str, ids: &[S], answers: &[Answer]) -> Receipt {
    stage_as(&asking(), path, job, 0, name, ids, answers)
}

/// The rule of `"a"`, whose task's resolver called it a duplicate, after something happened
/// between the task and the commit.
fn after(between: impl FnOnce(&History)) -> &'static str {
    let (directory, history) = fresh();
    begin(&history, &asking(), &["a"], START);
    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, "a0", &["a"], &[Answer::Duplicate]);
    between(&history);
    history.commit(&asking(), &job, &[receipt]).unwrap();
    let found = rules(&history, &asking(), &["a"], START)[0];
    assert_eq!(rules(&open(directory.path()), &asking(), &["a"], START)[0], found);
    found
}

#[test]
fn duplicates_of_a_tasks_resolver_are_completed_at_the_commit() {
    let (directory, history) = fresh();
    let ids = [uuids(0..2), vec!["urn:a".into(), "urn:b".into(), "urn:new".into()]].concat();
    begin(&history, &asking(), &ids[..4], START);
    let job = reserve(&history, plan(1));
    let answers = [Answer::Duplicate, Answer::InDoubt, Answer::Duplicate, Answer::InDoubt];
    let receipt = stage(directory.path(), &job, "a0", &ids, &answers);
    assert_eq!(rules(&history, &asking(), &ids, START), ["R11", "R11", "R11", "R11", "R8"]);
    history.commit(&asking(), &job, &[receipt]).unwrap();
    let expected = ["R9", "R11", "R9", "R11", "R11"];
    assert_eq!(rules(&history, &asking(), &ids, START), expected);
    assert_eq!(rules(&open(directory.path()), &asking(), &ids, START), expected);
    history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    assert_eq!(rules(&open(directory.path()), &asking(), &ids, START), expected);
}

#[test]
fn attempt_that_lost_or_a_job_given_up_completes_nothing() {
    let (directory, history) = fresh();
    begin(&history, &asking(), &["a"], START);
    let job = reserve(&history, plan(1));
    stage(directory.path(), &job, "a0", &["a"], &[Answer::Duplicate]);
    let won = stage(directory.path(), &job, "a1", &["a"], &[Answer::InDoubt]);
    history.commit(&asking(), &job, &[won]).unwrap();
    assert_eq!(rules(&history, &asking(), &["a"], START), ["R11"]);
    let job = reserve(&history, plan(1));
    stage(directory.path(), &job, "a0", &["a"], &[Answer::Duplicate]);
    history.give_up(&job).unwrap();
    assert_eq!(rules(&history, &asking(), &["a"], START), ["R11"]);
}

#[test]
fn resolution_of_an_entry_that_changed_since_is_not_recorded() {
    let a = Ids::new(&["a"]);
    let release = |history: &History| {
        assert_eq!(history.release_keys(&asking(), &a.documents(), START).unwrap().changed, 1);
    };
    assert_eq!(after(|_| ()), "R9");
    // Nobody has it in progress: a document that was rolled back must be new.
    assert_eq!(after(release), "R8");
    // Others began it again, and have it in progress now.
    let again = |history: &History| {
        release(history);
        begin(history, &asking(), &["a"], START);
    };
    assert_eq!(after(again), "R11");
    let complete = |history: &History| {
        assert_eq!(history.complete_keys(&asking(), &a.documents(), START).unwrap().changed, 1);
    };
    assert_eq!(after(complete), "R9");
}

#[test]
fn contradictory_answers_of_a_task_complete_nothing() {
    let (directory, history) = fresh();
    begin(&history, &asking(), &["a"], START);
    let job = reserve(&history, plan(1));
    let receipt = stage(directory.path(), &job, "a0", &["a", "a"], &[Answer::Duplicate, Answer::InDoubt]);
    history.commit(&asking(), &job, &[receipt]).unwrap();
    assert_eq!(rules(&history, &asking(), &["a"], START), ["R11"]);
}

#[test]
fn document_that_another_task_runs_is_not_completed() {
    let (directory, history) = fresh();
    begin(&history, &asking(), &["a"], START);
    let job = reserve(&history, plan(2));
    let duplicate = stage(directory.path(), &job, "a0", &["a"], &[Answer::Duplicate]);
    let new = stage_as(&asking(), directory.path(), &job, 1, "a1", &["a"], &[Answer::New]);
    let claim = history.commit(&asking(), &job, &[duplicate, new]).unwrap();
    assert_eq!((claim.len(), rules(&history, &asking(), &["a"], START)), (1, vec!["R11"]));
}

#[test]
fn task_of_a_trigger_without_complete_resolved_records_nothing() {
    let (directory, history) = fresh();
    let without = trigger();
    begin(&history, &without, &["a"], START);
    let job = reserve(&history, plan(1));
    let receipt = stage_as(&without, directory.path(), &job, 0, "a0", &["a"], &[Answer::Duplicate]);
    history.commit(&without, &job, &[receipt]).unwrap();
    assert_eq!(rules(&history, &asking(), &["a"], START), ["R11"]);
}
