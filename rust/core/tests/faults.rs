//! Storage that fails without a crash: every operation of a workload fails once, in every way. The call succeeds or gives a
//! typed error; after a failed write the handle refuses to write; after reopening nothing acknowledged is lost and nothing
//! unacknowledged is half there, even if the power goes in the end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::rig::{Op, Rig};
use common::workload::{IDS, ids, workload};
use common::{Ids, START, trigger};
use dochistory_core::Error;
use dochistory_core::engine::{Call, OnReplay};
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::io::simulated::{Fault, Simulated};

/// Play the workload with one fault; answers how many operations each process did.
fn play(victim: usize, at: u64, fault: Fault) -> [u64; 2] {
    let machine = Simulated::new(at);
    let processes = [machine.process(), machine.process()];
    processes[victim].fail_at(at, fault);
    let systems = processes.iter().map(|process| Arc::new(process.clone()) as _).collect();
    let mut rig = Rig::new("/history", systems, ids(0..IDS));
    for step in &workload() {
        while let Err(error) = rig.step(step) {
            assert!(processes[victim].has_failed(), "nothing failed, but {error}");
            is_sticky(&mut rig, step.by, &step.op, &error);
            // A sync that failed for one is told to the others too, once: each handle has to be reopened at most once.
            for by in [step.by, 1 - step.by] {
                let mut reopened = 0;
                rig.restart(by, Arc::new(processes[by].clone()));
                while let Err(error) = rig.check(by) {
                    reopened += 1;
                    assert!(reopened < 3, "reopening does not help: {error}");
                    rig.restart(by, Arc::new(processes[by].clone()));
                }
            }
        }
    }
    let operations = [0, 1].map(|process: usize| processes[process].operations());
    machine.lose_power(at);
    rig.restart(0, Arc::new(machine.process()));
    rig.check(0).unwrap();
    rig.history(0).unwrap().verify("orders", &mut |_, _| Ok(())).unwrap();
    operations
}

/// A handle that failed to write writes no more.
fn is_sticky(rig: &mut Rig, by: usize, op: &Op, error: &Error) {
    let text = error.to_string();
    // A claim may belong to the other handle.
    let writes = matches!(op, Op::Begin { .. } | Op::FinishKeys { .. });
    let is_of_write =
        ["cannot append to", "cannot sync", "cannot write", "cannot link"].iter().any(|what| text.contains(what));
    if writes && is_of_write && rig.histories[by].is_some() {
        let key = Ids::new(&["urn:never"]);
        let next = rig.history(by).unwrap().complete_keys(&trigger(), &key.documents(), START);
        assert!(matches!(next, Err(Error::Failed(_))), "{op:?} by {by}: after {error} came {next:?}");
    }
}

#[test]
fn nothing_rests_on_a_frame_whose_sync_failed_until_a_writer_has_written_it_anew() {
    let mut met = 0;
    for at in 1..40 {
        let machine = Simulated::new(at);
        let open = |process: &Simulated, read_only: bool| {
            let options = OpenOptions { create: !read_only, read_only, ..OpenOptions::default() };
            History::open_on(Arc::new(process.clone()), Path::new("/history"), &options).unwrap()
        };
        let rule = |history: &History| {
            let ids = Ids::new(&["urn:1"]);
            let verdicts = history.classify(&trigger(), &ids.documents(), &mut Call::at(START)).unwrap();
            (verdicts.outcomes[0].rule(), verdicts.unavailable.is_some())
        };
        let failing = machine.process();
        let history = open(&failing, false);
        let begin = |id: &str| {
            let ids = Ids::new(&[id]);
            history.begin(&trigger(), &ids.documents(), &mut Call::at(START), None, OnReplay::ByRules)
        };
        begin("urn:0").unwrap();
        failing.fail_at(failing.operations() + at, Fault::Broken);
        let Err(Error::Io { operation: "sync", .. }) = begin("urn:1") else { continue };
        met += 1;
        let reader = open(&machine.process(), true);
        assert!(rule(&reader).1, "a reader cannot mend it: for it the history is not available");
        assert_eq!(rule(&open(&machine.process(), false)), ("R11", false));
        assert_eq!(rule(&reader), ("R11", false));
        machine.lose_power(0);
        assert_eq!(rule(&open(&machine.process(), false)), ("R11", false));
    }
    assert_eq!(met, 1);
}

fn all(fault: fn(u64) -> Fault) {
    let operations = play(0, u64::MAX, Fault::Broken);
    let mut failed = Vec::new();
    for (victim, count) in operations.into_iter().enumerate() {
        for at in 1..=count {
            if std::panic::catch_unwind(|| play(victim, at, fault(at))).is_err() {
                eprintln!("failed: process {victim}, operation {at}, {:?}", fault(at));
                failed.push((victim, at));
            }
        }
    }
    eprintln!("figure: {:?} faults = {}", fault(0), operations[0] + operations[1]);
    assert!(failed.is_empty(), "of {operations:?} operations {failed:?} failed");
}

#[test]
fn an_input_output_error_at_any_operation_loses_nothing() {
    all(|_| Fault::Broken);
}

#[test]
fn a_full_disk_at_any_operation_loses_nothing() {
    all(|_| Fault::Full);
}

#[test]
fn a_write_that_stops_halfway_loses_nothing() {
    all(|_| Fault::Short);
}

#[test]
fn a_bit_read_wrongly_changes_no_verdict() {
    all(|at| Fault::Flip(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20));
}
