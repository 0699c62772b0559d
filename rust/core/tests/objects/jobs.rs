//! Pinned states and jobs of many machines in a bucket, which they alone share: what is pinned
//! stays, and what tasks staged is begun once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::buckets::{calm, storm, summed};
use crate::harness::{DAY, Ids, START, rules, setting, trigger, uuids};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::objects::{Listed, ObjectStore, Put};
use dochistory_core::protocols::trigger::rules::{Answer, Trigger};
use dochistory_core::protocols::trigger::{Ask, Attempt, Call, Job, JobPlan, Receipt, Reply, Resolver};
use dochistory_core::testing::objects::{Requests, SimulatedObjects, Weather};
use dochistory_core::{Error, Replays, Result, Transaction};

// A pin is found by listing: a store whose lists are old may lose one, and says so when it is read.
const STORM: Weather = Weather { failures: 10, duplicates: 12, stale_lists: 0, sleeps: 30 };

fn open_as(objects: &SimulatedObjects, replica: &Path, options: &OpenOptions) -> Result<History> {
    History::open_objects(Arc::new(objects.clone()), replica, options)
}

fn open(objects: &SimulatedObjects, replica: &Path) -> Result<History> {
    open_as(objects, replica, &OpenOptions { create: true, ..OpenOptions::default() })
}

fn pinned(objects: &SimulatedObjects, replica: &Path, snapshot: Option<String>) -> Result<History> {
    open_as(objects, replica, &OpenOptions { snapshot, read_only: true, ..OpenOptions::default() })
}

fn plan(transaction: Option<i64>) -> JobPlan {
    let transaction = transaction.map(|batch| Transaction { application: "stream".into(), batch });
    let replays = Replays::default();
    JobPlan { parts: 2, reads: true, routed: false, replays, transaction, rows: None, started_at: START }
}

/// As a task does it, on a machine of its own that has the job as text only. Answers the receipt,
/// and which documents it takes for new.
fn stage(
    objects: &SimulatedObjects,
    replica: &Path,
    token: &str,
    part: u32,
    ids: &[String],
) -> Result<(Vec<u8>, Vec<String>)> {
    let job = Job::from_token(token)?;
    let history = pinned(objects, replica, History::snapshot_of_job(&job))?;
    let name = format!("p{part}");
    let documents = Ids::new(ids);
    let attempt = Attempt { part, name: &name };
    let staged = history.stage(&trigger(), &job, attempt, &documents.documents(), &mut Call::at(0))?;
    let is_new = |row: &usize| staged.verdicts.outcomes[*row].rule() == "R8";
    Ok((staged.receipt.encode(), (0..ids.len()).filter(is_new).map(|row| ids[row].clone()).collect()))
}

fn begin(history: &History, ids: &[String]) {
    crate::harness::begin(history, &trigger(), ids, START).claim.unwrap().complete(None).unwrap();
}

#[test]
fn a_pinned_state_stays_until_it_is_let_go() {
    let (objects, directory) = calm();
    let one = open(&objects, &directory.path().join("1")).unwrap();
    let other = open(&objects, &directory.path().join("2")).unwrap();
    let (old, new) = (uuids(0..60), uuids(60..200));
    begin(&one, &old);
    let snapshot = one.pin("orders").unwrap();
    assert_eq!(other.pins("orders").unwrap()[0].name, snapshot);
    for ids in new.chunks(30) {
        begin(&other, ids);
        other.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
        other.collect_objects("orders", Duration::ZERO).unwrap();
    }
    let reader = pinned(&objects, &directory.path().join("3"), Some(snapshot.clone())).unwrap();
    assert!(rules(&reader, &trigger(), &old, START).iter().all(|rule| *rule == "R9"));
    assert!(rules(&reader, &trigger(), &new, START).iter().all(|rule| *rule == "R8"));
    // Its second task reads nothing from the bucket.
    let before = objects.requests();
    assert!(rules(&reader, &trigger(), &old, START).iter().all(|rule| *rule == "R9"));
    assert_eq!(objects.requests(), before);
    other.unpin("orders", &snapshot).unwrap();
    let kept = objects.names().len();
    assert!(other.collect_objects("orders", Duration::ZERO).unwrap() > 0);
    assert!(objects.names().len() < kept);
    let late = pinned(&objects, &directory.path().join("4"), Some(snapshot)).unwrap();
    let ids = Ids::new(&old);
    let refused = late.classify(&trigger(), &ids.documents(), &mut Call::at(START)).unwrap_err();
    assert!(matches!(&refused, Error::Open { reason, .. } if reason.contains("this snapshot is over")), "{refused}");
    // Who has it open still reads it.
    assert!(rules(&reader, &trigger(), &old, START).iter().all(|rule| *rule == "R9"));
}

/// A store that takes several requests at a time, and at which something happens once: before the
/// first object with this in its name is stored.
struct Overtaken {
    store: SimulatedObjects,
    at: &'static str,
    before: Before,
    /// Whether it answers no question from then on.
    is_mute: Arc<AtomicBool>,
}

type Before = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

impl Overtaken {
    /// A handle, and where to say what happens.
    fn open(objects: &SimulatedObjects, replica: &Path, at: &'static str) -> (History, Before) {
        let (history, before, _) = Self::open_mute(objects, replica, at);
        (history, before)
    }

    /// The same, and where to say that no question is answered any more.
    fn open_mute(objects: &SimulatedObjects, replica: &Path, at: &'static str) -> (History, Before, Arc<AtomicBool>) {
        let (before, is_mute) = (Before::default(), Arc::<AtomicBool>::default());
        let store = Self { store: objects.clone(), at, before: before.clone(), is_mute: is_mute.clone() };
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        (History::open_objects(Arc::new(store), replica, &options).unwrap(), before, is_mute)
    }
}

impl std::fmt::Debug for Overtaken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Overtaken")
    }
}

impl ObjectStore for Overtaken {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        if name.contains(self.at) {
            let before = self.before.lock().unwrap().take();
            if let Some(before) = before {
                before();
            }
        }
        self.store.put_new(name, bytes)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.store.put(name, bytes)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if self.is_mute.load(Ordering::Acquire) {
            return Err(Error::Objects { operation: "get", name: name.to_owned(), reason: "no answer".to_owned() });
        }
        self.store.get(name)
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>> {
        self.store.get_range(name, offset, length)
    }

    fn put_file(&self, name: &str, path: &Path) -> Result<Put> {
        self.store.put_file(name, path)
    }

    fn get_file(&self, name: &str, path: &Path, bytes: u64) -> Result<bool> {
        self.store.get_file(name, path, bytes)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.store.list(prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.store.delete(name)
    }

    fn lanes(&self) -> usize {
        4
    }
}

/// Fill blocks with commits, and collect them.
fn fill_blocks(history: &History) {
    for ids in uuids(100..220).chunks(10) {
        begin(history, ids);
        history.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
        history.collect_objects("orders", Duration::ZERO).unwrap();
    }
}

#[test]
fn a_pin_that_a_collector_overtook_is_made_again() {
    // With nothing in the log there is no commit that the pin could go along with.
    for is_sealed in [false, true] {
        pin_is_overtaken(is_sealed);
    }
}

fn pin_is_overtaken(is_sealed: bool) {
    let (objects, directory) = calm();
    let other = open(&objects, &directory.path().join("1")).unwrap();
    let old = uuids(0..60);
    for ids in old.chunks(30) {
        begin(&other, ids);
    }
    if is_sealed {
        other.unpin("orders", &other.pin("orders").unwrap()).unwrap();
    }
    // While a pin is on its way, what it names is compacted and collected.
    let overtake = move || {
        other.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
        begin(&other, &uuids(60..90));
        other.collect_objects("orders", Duration::ZERO).unwrap();
    };
    let (history, before) = Overtaken::open(&objects, &directory.path().join("2"), "/pin-");
    *before.lock().unwrap() = Some(Box::new(overtake));
    let snapshot = history.pin("orders").unwrap();
    assert_eq!(history.pins("orders").unwrap().len(), 1);
    let reader = pinned(&objects, &directory.path().join("3"), Some(snapshot)).unwrap();
    assert!(rules(&reader, &trigger(), &uuids(0..90), START).iter().all(|rule| *rule == "R9"));
}

#[test]
fn a_pin_whose_lease_is_over_keeps_nothing() {
    let (objects, directory) = calm();
    let history = open(&objects, &directory.path().join("1")).unwrap();
    begin(&history, &uuids(0..60));
    history.pin_for("orders", Some(1_000_000)).unwrap();
    history.pin_for("orders", None).unwrap();
    objects.wait(Duration::from_secs(3600));
    history.collect_objects("orders", Duration::ZERO).unwrap();
    assert_eq!(history.pins("orders").unwrap().len(), 1);
    objects.wait(Duration::from_secs(8 * 24 * 3600));
    history.collect_objects("orders", Duration::ZERO).unwrap();
    assert!(history.pins("orders").unwrap().is_empty());
}

#[test]
fn a_pin_is_one_put_and_a_look_at_the_newest_state() {
    let (objects, directory) = calm();
    let history = open(&objects, &directory.path().join("1")).unwrap();
    begin(&history, &uuids(0..60));
    let before = objects.requests();
    history.pin("orders").unwrap();
    // With the commit that seals: the pin, the commit, and a hint beside the gate.
    assert_eq!(spent(&objects, &before), (3, 1, 0, 0));
    let before = objects.requests();
    let snapshot = history.pin("orders").unwrap();
    let after = objects.requests();
    assert_eq!((after.puts - before.puts, after.lists - before.lists), (1, 0));
    let before = after;
    let reader = pinned(&objects, &directory.path().join("2"), Some(snapshot)).unwrap();
    rules(&reader, &trigger(), &uuids(0..60), START);
    let Requests { puts, lists, .. } = objects.requests();
    assert_eq!((puts - before.puts, lists - before.lists), (0, 0));
}

/// PUT, GET, LIST and DELETE since then.
fn spent(objects: &SimulatedObjects, before: &Requests) -> (u64, u64, u64, u64) {
    let now = objects.requests();
    (now.puts - before.puts, now.gets - before.gets, now.lists - before.lists, now.deletes - before.deletes)
}

#[test]
fn a_job_asks_no_more_than_it_has_to() {
    let (objects, directory) = calm();
    let driver = open(&objects, &directory.path().join("driver")).unwrap();
    begin(&driver, &uuids(0..15));
    let before = objects.requests();
    let (job, _) = driver.reserve(&trigger(), plan(None)).unwrap();
    // What was in the log and the pin, side by side; the commit; the gate, and beside it a hint.
    assert_eq!(spent(&objects, &before), (4, 1, 0, 0));
    let before = objects.requests();
    let (receipt, _) = stage(&objects, &directory.path().join("task"), &job.token(), 0, &uuids(10..90)).unwrap();
    // The identity, the pin, the file; and what is staged.
    assert_eq!(spent(&objects, &before), (1, 3, 0, 0));
    let before = objects.requests();
    let claim = driver.commit(&trigger(), &job, &[Receipt::decode(&receipt).unwrap()]).unwrap();
    // What was staged, the pin, and the gate; this commit begins a block, whose gate it opens after
    // one more look at the one before.
    assert_eq!(spent(&objects, &before), (2, 4, 0, 1));
    let before = objects.requests();
    claim.complete(None).unwrap();
    assert_eq!(spent(&objects, &before), (1, 1, 0, 0));
    // Its log holds nothing but that end, so nothing is stored before the pin.
    let before = objects.requests();
    let (ahead, _) = driver.reserve_ahead(&trigger(), plan(None)).unwrap();
    assert_eq!(spent(&objects, &before), (2, 0, 0, 0));
    let before = objects.requests();
    driver.prove(&ahead).unwrap();
    assert_eq!(spent(&objects, &before), (1, 1, 0, 0));
    driver.give_up(&ahead).unwrap();
    // Now there is nothing to seal, and no hint.
    let before = objects.requests();
    driver.give_up(&driver.reserve(&trigger(), plan(None)).unwrap().0).unwrap();
    assert_eq!(spent(&objects, &before), (2, 1, 0, 1));
    assert!(rules(&driver, &trigger(), &uuids(0..90), START).iter().all(|rule| *rule == "R9"));
}

#[test]
fn a_job_whose_commit_was_overtaken_is_decided_again() {
    let (objects, directory) = calm();
    let other = open(&objects, &directory.path().join("other")).unwrap();
    begin(&other, &uuids(0..30));
    let after = open(&objects, &directory.path().join("after")).unwrap();
    // While its commit is on its way, others fill blocks with theirs, which are collected.
    let overtake = move || fill_blocks(&other);
    let (driver, before) = Overtaken::open(&objects, &directory.path().join("driver"), "/commit-");
    let (job, _) = driver.reserve(&trigger(), plan(None)).unwrap();
    *before.lock().unwrap() = Some(Box::new(overtake));
    let task = |name: &str, job: &Job| {
        stage(&objects, &directory.path().join(name), &job.token(), 0, &uuids(90..110)).unwrap()
    };
    let receipt = Receipt::decode(&task("task", &job).0).unwrap();
    let refused = driver.commit(&trigger(), &job, &[receipt]).map(|claim| claim.len());
    assert!(matches!(&refused, Err(Error::Conflict(said)) if said.contains("slept")), "{refused:?}");
    assert!(rules(&after, &trigger(), &uuids(90..100), START).iter().all(|rule| *rule == "R8"));
    driver.give_up(&job).unwrap();
    let (again, _) = driver.reserve(&trigger(), plan(None)).unwrap();
    let (receipt, new) = task("again", &again);
    assert_eq!(new, uuids(90..100));
    let claim = driver.commit(&trigger(), &again, &[Receipt::decode(&receipt).unwrap()]).unwrap();
    assert_eq!(claim.len(), 10);
    claim.complete(None).unwrap();
    assert!(rules(&after, &trigger(), &uuids(90..110), START).iter().all(|rule| *rule == "R9"));
    assert!(after.pins("orders").unwrap().is_empty());
}

#[test]
fn a_reservation_that_a_collector_overtook_begins_nothing() {
    let (objects, directory) = calm();
    let other = open(&objects, &directory.path().join("other")).unwrap();
    begin(&other, &uuids(0..30));
    // Its number is taken, and free again: the reservation is stored, and does not count.
    let overtake = move || fill_blocks(&other);
    let (driver, before) = Overtaken::open(&objects, &directory.path().join("driver"), "/commit-");
    assert!(rules(&driver, &trigger(), &uuids(0..30), START).iter().all(|rule| *rule == "R11" || *rule == "R9"));
    *before.lock().unwrap() = Some(Box::new(overtake));
    let (job, _) = driver.reserve_ahead(&trigger(), plan(None)).unwrap();
    let refused = driver.prove(&job);
    assert!(matches!(&refused, Err(Error::Conflict(said)) if said.contains("slept")), "{refused:?}");
    driver.give_up(&job).unwrap();
    let (again, _) = driver.reserve_ahead(&trigger(), plan(None)).unwrap();
    driver.prove(&again).unwrap();
    assert_ne!(again.claim(), job.claim());
    let (receipt, new) = stage(&objects, &directory.path().join("task"), &again.token(), 0, &uuids(90..110)).unwrap();
    assert_eq!(new, uuids(90..100));
    driver.commit(&trigger(), &again, &[Receipt::decode(&receipt).unwrap()]).unwrap().complete(None).unwrap();
    assert!(rules(&driver, &trigger(), &uuids(90..220), START).iter().all(|rule| *rule == "R9"));
}

#[test]
fn a_sleeper_who_reads_what_does_not_count_finds_the_state() {
    let (objects, directory) = calm();
    let other = open(&objects, &directory.path().join("other")).unwrap();
    begin(&other, &uuids(0..30));
    let overtake = move || fill_blocks(&other);
    let sleeper = open(&objects, &directory.path().join("sleeper")).unwrap();
    let (late, before) = Overtaken::open(&objects, &directory.path().join("late"), "/commit-");
    for one in [&sleeper, &late] {
        assert!(rules(one, &trigger(), &uuids(0..30), START).iter().all(|rule| *rule == "R9"));
    }
    // The late one's commit takes the number behind the one that the sleeper knows, and does not
    // count.
    *before.lock().unwrap() = Some(Box::new(overtake));
    begin(&late, &uuids(300..310));
    let before = objects.requests();
    let (job, _) = sleeper.reserve(&trigger(), plan(None)).unwrap();
    let puts = spent(&objects, &before).0;
    assert!(puts < 15, "{puts} PUT");
    assert_eq!(job.claim(), late.reserve(&trigger(), plan(None)).unwrap().0.claim() - 1);
    assert!(rules(&sleeper, &trigger(), &uuids(100..220), START).iter().all(|rule| *rule == "R9"));
    assert!(rules(&sleeper, &trigger(), &uuids(300..310), START).iter().all(|rule| *rule == "R9"));
}

#[test]
fn a_sleeper_refuses_nothing_because_of_what_does_not_count() {
    let (objects, directory) = calm();
    let other = open(&objects, &directory.path().join("other")).unwrap();
    begin(&other, &uuids(0..30));
    let sleeper = open(&objects, &directory.path().join("sleeper")).unwrap();
    let (late, before, is_mute) = Overtaken::open_mute(&objects, &directory.path().join("late"), "/commit-");
    for one in [&sleeper, &late] {
        assert!(rules(one, &trigger(), &uuids(0..30), START).iter().all(|rule| *rule == "R9"));
    }
    // The late one's commit is stored and does not count, and its writer never hears of it.
    *before.lock().unwrap() = Some(Box::new(move || {
        fill_blocks(&other);
        is_mute.store(true, Ordering::Release);
    }));
    let another = Trigger { history_time_to_live_us: DAY, ..trigger() };
    assert_eq!(late.change(&another).unwrap_err().code(), "DH-OBJECTS");
    // By that commit this time to live would be a wrong one.
    let ids = Ids::new(&uuids(310..320));
    let begun = sleeper.begin(&trigger(), &ids.documents(), &mut Call::at(START), None, Replays::default()).unwrap();
    assert_eq!(begun.claim.unwrap().len(), 10);
}

#[test]
fn what_tasks_staged_is_begun_by_one_commit() {
    let (objects, directory) = calm();
    let driver = open(&objects, &directory.path().join("driver")).unwrap();
    let other = open(&objects, &directory.path().join("other")).unwrap();
    begin(&other, &uuids(0..10));
    let (job, _) = driver.reserve(&trigger(), plan(Some(1))).unwrap();
    let task = |part: u32, ids: &[String]| {
        stage(&objects, &directory.path().join(format!("task{part}")), &job.token(), part, ids).unwrap()
    };
    let (first, second) = (task(0, &uuids(0..40)), task(1, &uuids(40..80)));
    assert_eq!((first.1.len(), second.1.len()), (30, 40));
    // Others are first with some of them, and collect what nobody names.
    begin(&other, &uuids(30..45));
    other.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    other.collect_objects("orders", Duration::ZERO).unwrap();
    let receipts = [Receipt::decode(&first.0).unwrap(), Receipt::decode(&second.0).unwrap()];
    assert!(matches!(driver.commit(&trigger(), &job, &receipts), Err(Error::Conflict(_))));
    let claim = driver.commit_rest(&trigger(), &job, &receipts, 100).unwrap();
    assert_eq!((claim.len(), claim.lost().len()), (55, 15));
    assert!(rules(&other, &trigger(), &uuids(45..80), START).iter().all(|rule| *rule == "R11"));
    claim.complete(None).unwrap();
    assert!(rules(&other, &trigger(), &uuids(0..80), START).iter().all(|rule| *rule == "R9"));
    assert!(matches!(driver.commit(&trigger(), &job, &receipts), Err(Error::State(_))));
    assert!(driver.pins("orders").unwrap().is_empty());
    // The same batch again.
    let (again, replay) = driver.reserve(&trigger(), plan(Some(1))).unwrap();
    assert!(replay.is_some());
    let (_, new) = stage(&objects, &directory.path().join("task2"), &again.token(), 0, &uuids(0..80)).unwrap();
    assert!(new.is_empty());
    driver.give_up(&again).unwrap();
}

/// A resolver that knows one answer.
struct Duplicate;

impl Resolver for Duplicate {
    fn resolve(&mut self, ask: Ask<'_>) -> Result<Reply> {
        Ok(Reply { answers: vec![Answer::Duplicate; ask.rows.len()], messages: Vec::new() })
    }
}

#[test]
fn duplicates_of_a_tasks_resolver_are_completed_with_the_commit() {
    let (objects, directory) = calm();
    let driver = open(&objects, &directory.path().join("driver")).unwrap();
    let asking = Trigger { complete_resolved: true, ..trigger() };
    crate::harness::begin(&driver, &trigger(), &uuids(0..10), START);
    let (job, _) = driver.reserve(&asking, plan(None)).unwrap();
    let task = pinned(&objects, &directory.path().join("task"), History::snapshot_of_job(&job)).unwrap();
    let (ids, mut resolver) = (Ids::new(&uuids(5..20)), Duplicate);
    let mut call = Call { resolver: Some(&mut resolver), ..Call::at(0) };
    let attempt = Attempt { part: 0, name: "p0" };
    let staged = task.stage(&asking, &job, attempt, &ids.documents(), &mut call).unwrap();
    let claim = driver.commit(&asking, &job, &[staged.receipt]).unwrap();
    let other = open(&objects, &directory.path().join("other")).unwrap();
    let found = |first, last| rules(&other, &trigger(), &uuids(first..last), START);
    assert_eq!((claim.len(), found(0, 5), found(5, 10)), (10, vec!["R11"; 5], vec!["R9"; 5]));
    assert_eq!(found(10, 20), vec!["R11"; 10]);
}

#[test]
fn a_staged_file_that_is_gone_begins_nothing() {
    let (objects, directory) = calm();
    let driver = open(&objects, &directory.path().join("driver")).unwrap();
    begin(&driver, &uuids(0..10));
    let (job, _) = driver.reserve(&trigger(), plan(None)).unwrap();
    let (receipt, _) = stage(&objects, &directory.path().join("task"), &job.token(), 0, &uuids(10..40)).unwrap();
    let receipt = Receipt::decode(&receipt).unwrap();
    let known: Vec<String> = objects.names();
    objects.lose(known.iter().rfind(|name| name.contains("/data-")).unwrap());
    let refused = driver.commit(&trigger(), &job, &[receipt]).unwrap_err();
    assert!(matches!(refused, Error::Conflict(_)), "{refused}");
    assert!(rules(&driver, &trigger(), &uuids(10..40), START).iter().all(|rule| *rule == "R8"));
}

/// What drivers and readers were told.
#[derive(Debug, Default)]
struct Told {
    begun: BTreeMap<String, usize>,
    completed: Vec<String>,
    jobs: usize,
    pins: usize,
    wrong: Vec<String>,
}

/// A driver: it claims overlapping documents by jobs whose tasks have replicas of their own.
fn drive(client: &SimulatedObjects, home: &Path, actor: u64, told: &Mutex<Told>) {
    let Some(history) = (0..5).find_map(|_| open(client, &home.join("driver")).ok()) else { return };
    for turn in 0..3 {
        let ids: Vec<String> =
            (0..5).map(|number| crate::harness::uuid((turn * (actor + 1) * 3 + number) % 12)).collect();
        let is_ahead = (actor + turn).is_multiple_of(2);
        let reserved = if is_ahead {
            history.reserve_ahead(&trigger(), plan(None))
        } else {
            history.reserve(&trigger(), plan(None))
        };
        let job = match reserved {
            Ok((job, _)) => job,
            Err(_) if client.is_dead() => return,
            Err(_) => continue,
        };
        let parts = [&ids[..2], &ids[2..]];
        let task =
            |part: usize| stage(client, &home.join(format!("{turn}-{part}")), &job.token(), part as u32, parts[part]);
        let (Ok(first), Ok(second)) = (task(0), task(1)) else {
            drop(history.give_up(&job));
            continue;
        };
        if is_ahead && history.prove(&job).is_err() {
            drop(history.give_up(&job));
            continue;
        }
        let receipts = [Receipt::decode(&first.0).unwrap(), Receipt::decode(&second.0).unwrap()];
        let Ok(claim) = history.commit_rest(&trigger(), &job, &receipts, 100) else {
            drop(history.give_up(&job));
            continue;
        };
        let is_kept = |id: &&String| !claim.lost().contains(id);
        let new: Vec<String> = first.1.iter().chain(&second.1).filter(is_kept).cloned().collect();
        {
            let mut told = told.lock().unwrap();
            told.jobs += 1;
            for id in &new {
                *told.begun.entry(id.clone()).or_default() += 1;
            }
        }
        if claim.complete(None).is_ok() {
            told.lock().unwrap().completed.extend(new);
        }
    }
}

/// Another writer: it pins, writes, compacts and collects at once, and reads what it pinned.
fn disturb(client: &SimulatedObjects, home: &Path, told: &Mutex<Told>) {
    let Some(history) = (0..5).find_map(|_| open(client, &home.join("writer")).ok()) else { return };
    for turn in 0..4u64 {
        let known: Vec<String> = told.lock().unwrap().completed.clone();
        let snapshot = history.pin("orders");
        let document = Ids::new(&[format!("urn:{turn}")]);
        if let Ok(begun) = history.begin(
            &trigger(),
            &document.documents(),
            &mut Call::at(START),
            None,
            dochistory_core::protocols::trigger::OnReplay::ByRules,
        ) && let Some(claim) = begun.claim
        {
            drop(claim.complete(None));
        }
        drop(history.maintain("orders", true, &mut |_, _| Ok(())));
        drop(history.collect_objects("orders", Duration::ZERO));
        let Ok(snapshot) = snapshot else { continue };
        let ids = Ids::new(&known);
        let read = pinned(client, &home.join(format!("reader{turn}")), Some(snapshot.clone()))
            .and_then(|reader| reader.classify(&trigger(), &ids.documents(), &mut Call::at(START)));
        match read {
            Ok(verdicts) if verdicts.unavailable.is_none() => {
                told.lock().unwrap().pins += 1;
                if verdicts.outcomes.iter().any(|outcome| outcome.rule() != "R9") {
                    told.lock().unwrap().wrong.push(format!("the pin of {known:?} has forgotten one"));
                }
            }
            Err(error) if error.code() == "DH-MISSING" => {
                told.lock().unwrap().wrong.push(format!("what was pinned is gone: {error}"));
            }
            _ => {}
        }
        if turn % 2 == 0 {
            drop(history.unpin("orders", &snapshot));
        }
    }
}

fn schedule(seed: u64) -> Told {
    let directory = tempfile::tempdir().unwrap();
    let told = Mutex::new(Told::default());
    // Every fourth schedule kills nobody.
    let objects = storm(seed, STORM, (seed % 4, 40 + seed / 4 % 200), &|client, actor| {
        let home = directory.path().join(actor.to_string());
        std::fs::create_dir_all(&home).unwrap();
        if actor == 2 { disturb(client, &home, &told) } else { drive(client, &home, actor, &told) }
    });
    let mut told = told.into_inner().unwrap();
    let reader = open(&objects, &directory.path().join("reader")).unwrap();
    let found = rules(&reader, &trigger(), &told.completed, START);
    let lost = told.completed.iter().zip(found).filter(|(_, rule)| *rule != "R9");
    told.wrong.extend(lost.map(|(id, rule)| format!("{id} was completed, and a reader finds {rule}")));
    let twice = told.begun.iter().filter(|(_, times)| **times > 1);
    told.wrong.extend(twice.map(|(id, times)| format!("{id} was NEW {times} times")));
    told
}

#[test]
fn jobs_and_pins_are_right_whatever_becomes_of_requests() {
    let schedules = setting("DOCHISTORY_SCHEDULES", 60);
    let sums = summed(schedules, |seed| {
        let told = schedule(seed);
        assert_eq!(told.wrong, Vec::<String>::new(), "seed {seed}: {told:?}");
        [told.begun.len(), told.jobs, told.pins].map(|sum| sum as u64)
    });
    println!("{schedules} schedules: {} ids NEW in {} jobs, {} pins read", sums[0], sums[1], sums[2]);
    assert!(sums.iter().all(|sum| *sum > schedules), "{sums:?}");
}
