//! Histories on a store whose requests fail, come late and come twice: each id is NEW once, nothing
//! acknowledged is lost, and a handle that lost its way says so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::buckets::{calm, storm, summed};
use crate::harness::{DAY, Ids, START, rules, setting, trigger, uuids};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::trigger::{Begun, Call, OnReplay, Verdicts};
use dochistory_core::testing::objects::{Requests, SimulatedObjects, Weather};
use dochistory_core::{Purge, Result};

const STORM: Weather = Weather { failures: 12, duplicates: 15, stale_lists: 3, sleeps: 40 };

fn open(objects: &SimulatedObjects, replica: &Path) -> Result<History> {
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    History::open_objects(Arc::new(objects.clone()), replica, &options)
}

fn begin(history: &History, id: &str) -> Result<Begun> {
    let ids = Ids::new(&[id]);
    history.begin(&trigger(), &ids.documents(), &mut Call::at(START), None, OnReplay::ByRules)
}

/// The rules of a batch; none where the history could not be read.
fn judged(history: &History, ids: &Ids) -> Result<Vec<&'static str>> {
    history.classify(&trigger(), &ids.documents(), &mut Call::at(START)).map(|verdicts| rules_of(&verdicts))
}

/// The same, as something that is made of verdicts before it is known whether they count.
fn made_of(history: &History, ids: &Ids) -> Result<Vec<&'static str>> {
    history.classify_into(&trigger(), &ids.documents(), &mut Call::at(START), rules_of)
}

fn rules_of(verdicts: &Verdicts) -> Vec<&'static str> {
    let known = verdicts.outcomes.iter().filter(|_| verdicts.unavailable.is_none());
    known.map(|outcome| outcome.rule()).collect()
}

/// What the handles were told about each id.
#[derive(Debug, Default)]
struct Told {
    begun: BTreeMap<u64, usize>,
    completed: BTreeSet<u64>,
    /// Its release was acknowledged, or may have happened: it may be NEW again.
    released: BTreeSet<u64>,
    in_doubt: usize,
    wrong: Vec<String>,
}

fn id(number: u64) -> String {
    format!("urn:document:{number}")
}

/// One handle's work: it begins ids that others begin, too, and completes or releases them.
fn work(client: &SimulatedObjects, replica: &Path, actor: u64, told: &Mutex<Told>) {
    let mut opened = open(client, replica);
    for _ in 0..5 {
        if opened.is_ok() {
            break;
        }
        opened = open(client, replica);
    }
    let Ok(history) = opened else { return };
    for turn in 0..7 {
        let number = (turn * (2 * actor + 1) + actor) % 7;
        let known: BTreeSet<u64> = told.lock().unwrap().completed.clone();
        match begin(&history, &id(number)) {
            Ok(begun) => {
                let is_new = begun.claim.as_ref().is_some_and(|claim| claim.len() == 1);
                if known.contains(&number) && begun.verdicts.outcomes[0].rule() != "R9" {
                    told.lock().unwrap().wrong.push(format!("{number} was completed, and begins again"));
                }
                let Some(claim) = begun.claim.filter(|_| is_new) else { continue };
                *told.lock().unwrap().begun.entry(number).or_default() += 1;
                if number == 3 {
                    told.lock().unwrap().released.insert(number);
                    drop(claim.release(None));
                } else if claim.complete(None).is_ok() {
                    told.lock().unwrap().completed.insert(number);
                }
            }
            Err(_) if client.is_dead() => return,
            Err(_) => told.lock().unwrap().in_doubt += 1,
        }
        if turn % 3 == 2 {
            drop(history.collect_objects("orders", Duration::ZERO));
        }
        if turn % 3 == 1 {
            let known: Vec<u64> = told.lock().unwrap().completed.iter().copied().collect();
            let ids = Ids::new(&known.iter().map(|number| id(*number)).collect::<Vec<_>>());
            let found = if turn == 1 { made_of(&history, &ids) } else { judged(&history, &ids) };
            if found.is_ok_and(|rules| rules.iter().any(|rule| *rule != "R9")) {
                told.lock().unwrap().wrong.push(format!("one of {known:?} was completed, and is no duplicate"));
            }
        }
    }
}

fn schedule(seed: u64) -> Told {
    let directory = tempfile::tempdir().unwrap();
    let told = Mutex::new(Told::default());
    let objects = storm(seed, STORM, (seed % 3, 40 + seed / 3 % 160), &|client, actor| {
        work(client, &directory.path().join(actor.to_string()), actor, &told);
    });
    let mut told = told.into_inner().unwrap();
    let reader = open(&objects, &directory.path().join("reader")).unwrap();
    for number in 0..7 {
        let rule = rules(&reader, &trigger(), &[id(number)], START)[0];
        let wanted = match number {
            number if told.completed.contains(&number) => rule == "R9",
            number if told.released.contains(&number) => true,
            number if told.begun.contains_key(&number) => ["R9", "R11"].contains(&rule),
            _ => true,
        };
        if !wanted {
            told.wrong.push(format!("a reader finds {rule} for {number}"));
        }
    }
    for (number, times) in &told.begun {
        if *times > 1 && !told.released.contains(number) {
            told.wrong.push(format!("{number} was NEW {times} times"));
        }
    }
    told
}

#[test]
fn each_document_is_new_once_whatever_becomes_of_requests() {
    let schedules = setting("DOCHISTORY_SCHEDULES", 100);
    let [begun, in_doubt] = summed(schedules, |seed| {
        let told = schedule(seed);
        assert_eq!(told.wrong, Vec::<String>::new(), "seed {seed}: {told:?}");
        [told.begun.len() as u64, told.in_doubt as u64]
    });
    println!("{schedules} schedules: {begun} ids NEW, {in_doubt} in doubt");
    assert!(begun > schedules * 4, "{begun} ids of {schedules} schedules");
}

#[test]
fn handles_of_one_bucket_share_a_history() {
    let (objects, directory) = calm();
    let one = open(&objects, &directory.path().join("1")).unwrap();
    let other = open(&objects, &directory.path().join("2")).unwrap();
    assert_eq!(one.id(), other.id());
    for round in 0..40 {
        let (first, second) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let claim = begin(first, &id(round)).unwrap().claim.unwrap();
        assert_eq!(rules(second, &trigger(), &[id(round)], START), ["R11"]);
        assert!(begin(second, &id(round)).unwrap().claim.is_none());
        match round % 3 {
            0 => claim.release(None).unwrap(),
            _ => claim.complete(None).unwrap(),
        }
        let expected = if round % 3 == 0 { "R8" } else { "R9" };
        assert_eq!(rules(second, &trigger(), &[id(round)], START), [expected], "round {round}");
    }
    let cold = open(&objects, &directory.path().join("3")).unwrap();
    for round in 0..40 {
        let expected = if round % 3 == 0 { "R8" } else { "R9" };
        assert_eq!(rules(&cold, &trigger(), &[id(round)], START), [expected], "round {round}");
    }
}

#[test]
fn what_is_made_of_an_old_state_is_made_again() {
    let (objects, directory) = calm();
    let writer = open(&objects, &directory.path().join("writer")).unwrap();
    let reader = open(&objects, &directory.path().join("reader")).unwrap();
    let ids = Ids::new(&["a"]);
    let answer = || {
        let mut made = Vec::new();
        let make = |verdicts: &Verdicts| {
            made.push(verdicts.outcomes[0].rule());
            verdicts.outcomes[0].rule()
        };
        let answer = reader.classify_into(&trigger(), &ids.documents(), &mut Call::at(START), make).unwrap();
        (answer, made)
    };
    begin(&writer, "first").unwrap();
    assert_eq!(answer(), ("R8", vec!["R8"]));
    begin(&writer, "a").unwrap();
    assert_eq!(answer(), ("R11", vec!["R8", "R11"]));
    assert_eq!(answer(), ("R11", vec!["R11"]));
}

#[test]
fn large_batches_and_maintenance_reach_the_other_handle() {
    let (objects, directory) = calm();
    let one = open(&objects, &directory.path().join("1")).unwrap();
    let other = open(&objects, &directory.path().join("2")).unwrap();
    let all: Vec<String> = uuids(0..400);
    for (number, ids) in all.chunks(50).enumerate() {
        let history = if number % 2 == 0 { &one } else { &other };
        let begun = crate::harness::begin(history, &trigger(), ids, START + number as i64 * DAY);
        begun.claim.unwrap().complete(None).unwrap();
    }
    one.maintain("orders", true, &mut |_, _| Ok(())).unwrap();
    other.collect_objects("orders", Duration::ZERO).unwrap();
    let cold = open(&objects, &directory.path().join("3")).unwrap();
    for history in [&one, &other, &cold] {
        assert!(rules(history, &trigger(), &all, START).iter().all(|rule| *rule == "R9"));
    }
    let purged = other.purge(&trigger(), Purge::at(START + 31 * DAY)).unwrap();
    assert_eq!(purged.entries, 100);
    let gone = |history: &History| rules(history, &trigger(), &all[..100], START).iter().all(|rule| *rule == "R8");
    assert!(gone(&one) && gone(&open(&objects, &directory.path().join("4")).unwrap()));
}

#[test]
fn begin_complete_and_release_are_one_put_and_one_get() {
    let (objects, directory) = calm();
    let history = open(&objects, directory.path()).unwrap();
    begin(&history, "warm").unwrap();
    let counted = |work: &mut dyn FnMut()| {
        let before = objects.requests();
        work();
        let Requests { puts, gets, lists, deletes, .. } = objects.requests();
        (puts - before.puts, gets - before.gets, lists - before.lists, deletes - before.deletes)
    };
    let mut claim = None;
    assert_eq!(counted(&mut || claim = begin(&history, "a").unwrap().claim), (1, 1, 0, 0));
    assert_eq!(counted(&mut || claim.as_ref().unwrap().complete(None).unwrap()), (1, 1, 0, 0));
    let second = begin(&history, "b").unwrap().claim.unwrap();
    assert_eq!(counted(&mut || second.release(None).unwrap()), (1, 1, 0, 0));
    assert_eq!(counted(&mut || drop(rules(&history, &trigger(), &["a"], START))), (0, 2, 0, 0));
    assert_eq!(counted(&mut || std::thread::sleep(Duration::from_millis(50))), (0, 0, 0, 0));
}

#[test]
fn threads_of_a_handle_claim_each_id_once() {
    let (objects, directory) = calm();
    let history = open(&objects, directory.path()).unwrap();
    let new: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let claims = (0..30).filter_map(|number| begin(&history, &id(number)).unwrap().claim);
                    claims.map(|claim| claim.complete(None).unwrap()).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(new, 30);
}

#[test]
fn a_trigger_whose_objects_are_gone_is_not_a_new_one() {
    let (objects, directory) = calm();
    let history = open(&objects, &directory.path().join("1")).unwrap();
    begin(&history, "a").unwrap();
    let cold = open(&objects, &directory.path().join("2")).unwrap();
    assert_eq!(cold.triggers().unwrap(), ["orders"]);
    let lost: Vec<String> = objects.names().into_iter().filter(|name| name.starts_with("triggers/")).collect();
    for name in &lost {
        objects.lose(name);
    }
    let answer = begin(&cold, "a").unwrap_err().to_string();
    assert!(answer.starts_with("[DH-MISSING] cannot rely on known/triggers-orders-"), "{answer}");
    assert!(begin(&history, "b").is_err());
}

#[test]
fn a_commit_deleted_in_the_middle_is_not_the_end() {
    let (objects, directory) = calm();
    let history = open(&objects, &directory.path().join("1")).unwrap();
    for name in ["a", "b", "c"] {
        begin(&history, name).unwrap();
    }
    let mut commits: Vec<String> = objects.names().into_iter().filter(|name| name.contains("/commit-")).collect();
    commits.sort();
    let missing = &commits[commits.len() - 2];
    objects.lose(missing);
    let cold = open(&objects, &directory.path().join("2")).unwrap();
    for name in ["b", "c", "d"] {
        let answer = begin(&cold, name).unwrap_err().to_string();
        assert!(answer.starts_with(&format!("[DH-MISSING] cannot find {missing}")), "{answer}");
    }
    assert!(!objects.names().contains(missing), "nobody writes over it");
}

#[test]
fn a_segment_that_a_rule_deleted_is_an_error_that_says_so() {
    let (objects, directory) = calm();
    let history = open(&objects, &directory.path().join("1")).unwrap();
    crate::harness::begin(&history, &trigger(), &uuids(0..50), START);
    let lost: Vec<String> = objects.names().into_iter().filter(|name| name.contains("/data-")).collect();
    assert!(!lost.is_empty());
    for name in &lost {
        objects.lose(name);
    }
    let cold = open(&objects, &directory.path().join("2")).unwrap();
    let ids = Ids::new(&["a"]);
    let answer = cold.classify(&trigger(), &ids.documents(), &mut Call::at(START)).unwrap_err().to_string();
    assert!(answer.starts_with("[DH-MISSING] cannot find triggers/orders-"), "{answer}");
    assert!(answer.contains("lifecycle rule"), "{answer}");
    assert!(begin(&cold, "a").is_err(), "nothing is NEW while it is unknown");
}
