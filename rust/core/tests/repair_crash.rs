//! A repair that is interrupted at any change it makes, by a kill or by power loss, has done
//! nothing or all: repaired again, the store gives the same verdicts as after a repair that nothing
//! disturbed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::rig::{Op, Rig};
use common::value_rig;
use common::workload::{IDS, ids, workload};
use common::{Ids, START, trigger};
use dochistory_core::history::values::Room;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::io::FileSystem;
use dochistory_core::protocols::trigger::Call;
use dochistory_core::repair::{Options, Report, repair_on};
use dochistory_core::testing::simulated::Simulated;

const ROOT: &str = "/history";
/// What a loss of power keeps of what was not synced differs from one to the next.
const SEEDS: std::ops::Range<u64> = 7..11;

/// A machine with a store in which a file of a kind is damaged.
fn damaged(seed: u64, kind: &str, at: u64) -> Option<Simulated> {
    let machine = Simulated::new(seed);
    let systems = vec![Arc::new(machine.process()) as _, Arc::new(machine.process()) as _];
    let mut rig = Rig::new(ROOT, systems, ids(0..IDS));
    // Up to where there is something of every kind: segments, a filter and a log.
    let steps = workload();
    let maintained = steps.iter().position(|step| matches!(step.op, Op::Maintain)).unwrap();
    for step in &steps[..maintained + 2] {
        rig.step(step).unwrap();
    }
    drop(rig);
    let directory = if kind == "HISTORY" { PathBuf::from(ROOT) } else { space_in(&machine, "triggers") };
    scratch(&machine, &directory, kind, at).then_some(machine)
}

/// The only key space of a room.
fn space_in(machine: &Simulated, room: &str) -> PathBuf {
    let room = Path::new(ROOT).join(room);
    room.join(&machine.process().list(&room).unwrap()[0])
}

/// Change a byte of a file of a kind; answers whether there is one.
fn scratch(machine: &Simulated, directory: &Path, kind: &str, at: u64) -> bool {
    let system = machine.process();
    let names = system.list(directory).unwrap();
    let Some(name) = names.into_iter().filter(|name| name.starts_with(kind)).min() else { return false };
    let file = system.open(&directory.join(name), true).unwrap();
    let at = at % file.len().unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 0x55], at).unwrap();
    file.sync().unwrap();
    true
}

/// A machine with a map of values in which a file of a kind is damaged; or all of the map is gone.
fn damaged_map(seed: u64, kind: &str, at: u64) -> Simulated {
    let machine = Simulated::new(seed);
    let systems = vec![Arc::new(machine.process()) as _, Arc::new(machine.process()) as _];
    let mut rig = value_rig::Rig::new(ROOT, systems, Vec::new());
    let put = |number: u64, value: u8| value_rig::Put {
        id: format!("urn:message:{number}"),
        value: Some(vec![value; 40]),
        until: Some(20 + number as i64),
        pending: number.is_multiple_of(3),
    };
    let change = |numbers: std::ops::Range<u64>, value, removes: std::ops::Range<u64>| value_rig::Op::Change {
        puts: numbers.map(|number| put(number, value)).collect(),
        removes: removes.map(|number| format!("urn:message:{number}")).collect(),
        batch: Some(i64::from(value)),
    };
    let seal = || value_rig::Op::Seal;
    let ops = [change(0..18, 1, 0..0), seal(), change(4..9, 2, 0..2), seal(), change(6..12, 3, 2..4)];
    for (number, op) in ops.into_iter().enumerate() {
        rig.step(&value_rig::Step { by: number % 2, op }).unwrap();
    }
    drop(rig);
    let space = space_in(&machine, "mappers");
    if kind == "all" {
        let system = machine.process();
        for name in system.list(&space).unwrap() {
            system.remove(&space.join(name)).unwrap();
        }
        system.sync_directory(&space).unwrap();
    } else {
        assert!(scratch(&machine, &space, kind, at), "there is no {kind}");
    }
    machine
}

/// What the map holds.
fn entries(system: &Simulated) -> Vec<String> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let history = History::open_on(Arc::new(system.clone()), Path::new(ROOT), &options).unwrap();
    let values = history.values(Room::Mapper, value_rig::SPACE).unwrap();
    values.verify(&mut |_, _| Ok(())).unwrap();
    let mut entries = values.entries().unwrap();
    let mut all = Vec::new();
    while let Some(batch) = entries.next_batch().unwrap() {
        let one = |(row, id): (usize, &String)| {
            format!("{id} {:?} {}", batch.found.value(row), batch.found.persist_until(row))
        };
        all.extend(batch.ids.iter().enumerate().map(one));
    }
    all.sort();
    all
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

/// Interrupt the repair of a damaged machine at every change it makes, and repair again; answers
/// how often that was.
fn interrupt<T: PartialEq + Debug>(
    what: &str,
    damaged: impl Fn() -> Simulated,
    told: impl Fn(&Simulated) -> T,
) -> usize {
    let undisturbed = damaged().process();
    let report = repair(&undisturbed).unwrap();
    assert!(report.is_repaired, "{what}: {report:#?}");
    let (changes, expected) = (undisturbed.changes(), told(&undisturbed));
    for change in 1..=changes {
        for power in [false, true] {
            let machine = damaged();
            let victim = machine.process();
            victim.crash_at(change);
            assert!(repair(&victim).is_err() && victim.is_dead(), "{what}: change {change}");
            if power {
                machine.lose_power(change);
            }
            let again = machine.process();
            let report = repair(&again).unwrap_or_else(|error| panic!("{what}, change {change}: {error}"));
            assert_eq!(told(&again), expected, "{what}, change {change}, power {power}: {report:#?}");
        }
    }
    2 * changes as usize
}

#[test]
fn an_interrupted_repair_can_be_done_again() {
    let kinds = [("segment", 4200), ("segment", 20), ("filter", 5000), ("log", 100), ("manifest", 60), ("HISTORY", 20)];
    let mut interrupted = 0;
    for (kind, at) in kinds {
        for seed in SEEDS {
            interrupted += interrupt(kind, || damaged(seed, kind, at).unwrap(), rules);
        }
    }
    eprintln!("figure: interrupted repairs = {interrupted}");
    assert!(interrupted > 100, "{interrupted}");
}

#[test]
fn an_interrupted_repair_of_a_map_can_be_done_again() {
    let kinds = [("values", 4200), ("values", 20), ("log", 70), ("log", 200), ("manifest", 60), ("all", 0)];
    let mut interrupted = 0;
    for (kind, at) in kinds {
        for seed in SEEDS {
            interrupted += interrupt(kind, || damaged_map(seed, kind, at), entries);
        }
    }
    eprintln!("figure: interrupted repairs of maps = {interrupted}");
    assert!(interrupted > 100, "{interrupted}");
}

#[test]
fn a_log_that_was_just_being_made_hides_none_before_it() {
    for length in [0, 8, 63, 64] {
        let told = [false, true].map(|has_one_in_the_making| {
            let machine = damaged(7, "manifest", 60).unwrap();
            let (system, space) = (machine.process(), space_in(&machine, "triggers"));
            if has_one_in_the_making {
                let newest =
                    system.list(&space).unwrap().into_iter().filter(|name| name.starts_with("log-")).max().unwrap();
                let number = u64::from_str_radix(newest.strip_prefix("log-").unwrap(), 16).unwrap() + 1;
                let file = system.create(&space.join(format!("log-{number:016x}"))).unwrap();
                file.write_at(&vec![0; length], 0).unwrap();
                file.sync().unwrap();
                system.sync_directory(&space).unwrap();
            }
            assert!(repair(&system).unwrap().is_repaired);
            rules(&system)
        });
        assert_eq!(told[0], told[1], "{length} bytes");
        assert!(told[0].contains(&"R9") && told[0].contains(&"R11"));
    }
}
