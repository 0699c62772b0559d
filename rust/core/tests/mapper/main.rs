//! Both directions of the mapper on a machine that crashes at every change it makes: what the next
//! arrival gets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(unreachable_pub, missing_docs, reason = "parts of one test")]
#![allow(clippy::option_option, reason = "an id may be mapped to nothing")]

#[path = "../harness/mod.rs"]
mod harness;
mod model;
mod overlap;

use std::path::Path;
use std::sync::Arc;

use dochistory_core::Error;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::protocols::mapper::rules::{Policy, Qos};
use dochistory_core::protocols::mapper::{Mapper, MapperSettings, Messages, Texts, Untils};
use dochistory_core::testing::simulated::Simulated;
use harness::{DAY, Ids, START, uuid};

const UNTIL: Untils<'static> = Untils::All(START + 30 * DAY);

fn mapper(process: &Simulated, policy: Policy) -> Result<Mapper, Error> {
    let options = OpenOptions { create: true, ..OpenOptions::default() };
    let history = History::open_on(Arc::new(process.clone()), Path::new("/history"), &options)?;
    Mapper::new(&history, "jms", MapperSettings { policy, ..MapperSettings::default() })
}

/// More than one frame's worth, so that some batches go into files at once.
fn batch(rows: u64) -> Ids {
    let id = |number: u64| if number.is_multiple_of(2) { uuid(number) } else { format!("urn:message:{number}") };
    Ids::new(&(0..rows).map(id).collect::<Vec<_>>())
}

/// How far an arrival got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    Nothing,
    /// Pending is durable, and the message was sent.
    Sent,
    /// The mapping is durable.
    Mapped,
}

/// Send a batch out; answers how far it got, and the rules.
fn send(process: &Simulated, policy: Policy, rows: u64) -> (Reached, Vec<&'static str>) {
    let column = batch(rows);
    let documents = column.documents();
    let (qos, queues) = (vec![Qos::ExactlyOnce; rows as usize], vec![0; rows as usize]);
    let begun = mapper(process, policy).and_then(|mapper| {
        let ids = mapper.values().ids(&documents.ids[0]);
        let messages = Messages { qos: &qos, queues: &queues };
        let send = mapper.begin_send(&ids, messages, UNTIL, START, None, false)?;
        Ok((mapper.clone(), send))
    });
    let Ok((mapper, send)) = begun else { return (Reached::Nothing, Vec::new()) };
    let rules = send.rules().iter().map(|rule| rule.code()).collect();
    let ids = mapper.values().ids(&documents.ids[0]);
    let open = send.open_rows();
    let external = Texts::of(Some(&documents.ids[0]), rows as usize).unwrap();
    if open.len() < rows as usize {
        return (Reached::Sent, rules);
    }
    let reached = if send.complete(&ids, &open, &external, UNTIL, 0).is_ok() { Reached::Mapped } else { Reached::Sent };
    (reached, rules)
}

/// All rules of a batch, which must be one.
fn only(rules: &[&'static str]) -> &'static str {
    assert!(!rules.is_empty() && rules.iter().all(|rule| *rule == rules[0]), "half a batch: {rules:?}");
    rules[0]
}

#[test]
fn crash_at_any_change_never_sends_a_message_twice() {
    for rows in [4, 40] {
        let mut met = Vec::new();
        for (at, power) in (1..120).flat_map(|at| [(at, true), (at, false)]) {
            let machine = Simulated::new(at);
            let victim = machine.process();
            victim.crash_at(at);
            let (reached, _) = send(&victim, Policy::Error, rows);
            if power {
                machine.lose_power(at);
            }
            let (_, rules) = send(&machine.process(), Policy::Error, rows);
            let next = only(&rules);
            let allowed = match reached {
                Reached::Nothing => &["M1", "M3"][..],
                Reached::Sent => &["M2", "M3"],
                Reached::Mapped => &["M2"],
            };
            assert!(allowed.contains(&next), "crash at {at}, power {power}: {reached:?}, then {next}");
            met.push((reached, next));
            if !victim.is_dead() {
                break;
            }
        }
        met.sort_unstable();
        met.dedup();
        for seen in [(Reached::Nothing, "M1"), (Reached::Nothing, "M3"), (Reached::Sent, "M3"), (Reached::Mapped, "M2")]
        {
            assert!(met.contains(&seen), "{seen:?} was not met: {met:?}");
        }
    }
}

#[test]
fn what_is_pending_after_a_crash_is_settled_by_the_policy() {
    let machine = Simulated::new(7);
    let crash_in_complete = || {
        // Between the two: begun, and not mapped.
        let column = batch(4);
        let documents = column.documents();
        let mapper = mapper(&machine.process(), Policy::Error).unwrap();
        let ids = mapper.values().ids(&documents.ids[0]);
        let messages = Messages { qos: &[Qos::ExactlyOnce; 4], queues: &[0; 4] };
        drop(mapper.begin_send(&ids, messages, UNTIL, START, None, false).unwrap());
        machine.lose_power(1);
    };
    crash_in_complete();
    assert_eq!(only(&send(&machine.process(), Policy::Error, 4).1), "M3");
    let (reached, rules) = send(&machine.process(), Policy::Process, 4);
    assert_eq!((reached, only(&rules)), (Reached::Mapped, "M4"));
    machine.lose_power(2);
    assert_eq!(only(&send(&machine.process(), Policy::Error, 4).1), "M2");

    let other = Simulated::new(8);
    let victim = other.process();
    let column = batch(4);
    let documents = column.documents();
    let begun = mapper(&victim, Policy::Error).unwrap();
    let ids = begun.values().ids(&documents.ids[0]);
    let messages = Messages { qos: &[Qos::ExactlyOnce; 4], queues: &[0; 4] };
    drop(begun.begin_send(&ids, messages, UNTIL, START, None, false).unwrap());
    other.lose_power(1);
    assert_eq!(only(&send(&other.process(), Policy::Duplicate, 4).1), "M5");
    other.lose_power(2);
    assert_eq!(only(&send(&other.process(), Policy::Error, 4).1), "M2");
}

/// Take a batch in; answers whether the unit committed, and the rules.
fn take(process: &Simulated, rows: u64) -> (bool, Vec<&'static str>) {
    let column = batch(rows);
    let documents = column.documents();
    let (qos, queues) = (vec![Qos::ExactlyOnce; rows as usize], vec![0; rows as usize]);
    let taken = mapper(process, Policy::Error).and_then(|mapper| {
        let ids = mapper.values().ids(&documents.ids[0]);
        let ours = Texts::of(Some(&documents.ids[0]), rows as usize)?;
        let mut unit = mapper.unit_of_work();
        let taken = unit.take(&ids, &ours, Messages { qos: &qos, queues: &queues }, UNTIL, START)?;
        Ok((unit, taken))
    });
    let Ok((unit, taken)) = taken else { return (false, Vec::new()) };
    let rules = taken.rules.iter().map(|rule| rule.code()).collect();
    (unit.commit(START).is_ok(), rules)
}

#[test]
fn crash_at_any_change_leaves_a_unit_of_work_whole_or_absent() {
    for rows in [4, 40] {
        let mut met = Vec::new();
        for (at, power) in (1..120).flat_map(|at| [(at, true), (at, false)]) {
            let machine = Simulated::new(at);
            let victim = machine.process();
            victim.crash_at(at);
            let (committed, _) = take(&victim, rows);
            if power {
                machine.lose_power(at);
            }
            let next = only(&take(&machine.process(), rows).1);
            assert!(next == "N3" || next == "N2" && !committed, "crash at {at}: committed {committed}, then {next}");
            met.push((committed, next));
            if !victim.is_dead() {
                break;
            }
        }
        assert!([(false, "N2"), (true, "N3")].iter().all(|seen| met.contains(seen)), "{met:?}");
    }
}

#[test]
fn a_unit_that_is_not_committed_leaves_nothing() {
    let machine = Simulated::new(3);
    let column = batch(4);
    let documents = column.documents();
    let process = machine.process();
    let mapper = mapper(&process, Policy::Error).unwrap();
    let ids = mapper.values().ids(&documents.ids[0]);
    let ours = Texts::of(None, 4).unwrap();
    let messages = Messages { qos: &[Qos::ExactlyOnce; 4], queues: &[0; 4] };
    let mut unit = mapper.unit_of_work();
    unit.take(&ids, &ours, messages, UNTIL, START).unwrap();
    drop(unit);
    assert_eq!(take(&machine.process(), 4), (true, vec!["N2"; 4]));
    assert_eq!(only(&take(&machine.process(), 4).1), "N3");
}
