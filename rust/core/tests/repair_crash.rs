//! A repair that is interrupted at any change it makes, by a kill or by power loss, has done nothing or all: repaired again, the
//! store gives the same verdicts as after a repair that nothing disturbed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::rig::Rig;
use common::workload::{IDS, ids, workload};
use common::{Ids, START, trigger};
use dochistory_core::engine::Call;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::io::FileSystem;
use dochistory_core::io::simulated::Simulated;
use dochistory_core::repair::{Options, Report, repair_on};

const ROOT: &str = "/history";

/// A machine with a store in which a file of a kind is damaged.
fn damaged(seed: u64, kind: &str, at: u64) -> Option<Simulated> {
    let machine = Simulated::new(seed);
    let systems = vec![Arc::new(machine.process()) as _, Arc::new(machine.process()) as _];
    let mut rig = Rig::new(ROOT, systems, ids(0..IDS));
    for step in workload().iter().take(20) {
        rig.step(step).unwrap();
    }
    drop(rig);
    let system = machine.process();
    let triggers = Path::new(ROOT).join("triggers");
    let space = triggers.join(&system.list(&triggers).unwrap()[0]);
    let directory = if kind == "HISTORY" { PathBuf::from(ROOT) } else { space };
    let name = system.list(&directory).unwrap().into_iter().filter(|name| name.starts_with(kind)).min()?;
    let file = system.open(&directory.join(name), true).unwrap();
    let at = at % file.len().unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 0x55], at).unwrap();
    file.sync().unwrap();
    Some(machine)
}

fn repair(system: &Simulated) -> dochistory_core::Result<Report> {
    let options = Options { apply: true, ..Options::default() };
    repair_on(Arc::new(system.clone()), Path::new(ROOT), &options, &mut |_, _| Ok(()))
}

/// What the store says, or how it refuses.
fn rules(system: &Simulated) -> Vec<&'static str> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let history = History::open_on(Arc::new(system.clone()), Path::new(ROOT), &options).unwrap();
    history.verify("orders", &mut |_, _| Ok(())).unwrap();
    let ids = Ids::new(&ids(0..IDS));
    let verdicts = history.classify(&trigger(), &ids.documents(), &mut Call::at(START)).unwrap();
    verdicts.outcomes.iter().map(|outcome| outcome.rule()).collect()
}

#[test]
fn an_interrupted_repair_can_be_done_again() {
    let mut interrupted = 0;
    for (kind, at) in
        [("segment", 4200), ("segment", 20), ("filter", 5000), ("log", 100), ("manifest", 60), ("HISTORY", 20)]
    {
        let Some(machine) = damaged(7, kind, at) else { panic!("there is no {kind}") };
        let undisturbed = machine.process();
        let report = repair(&undisturbed).unwrap();
        assert!(report.is_repaired, "{kind}: {report:#?}");
        let changes = undisturbed.changes();
        let expected = rules(&undisturbed);
        for change in 1..=changes {
            for power in [false, true] {
                let machine = damaged(7, kind, at).unwrap();
                let victim = machine.process();
                victim.crash_at(change);
                assert!(repair(&victim).is_err() && victim.is_dead(), "{kind}: change {change}");
                if power {
                    machine.lose_power(change);
                }
                let again = machine.process();
                let report = repair(&again).unwrap_or_else(|error| panic!("{kind}, change {change}: {error}"));
                assert_eq!(rules(&again), expected, "{kind}, change {change}, power {power}: {report:#?}");
                interrupted += 1;
            }
        }
    }
    assert!(interrupted > 100, "{interrupted}");
}
