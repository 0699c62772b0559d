//! A repair that is interrupted at any change it makes, by a kill or by power loss, has done
//! nothing or all: repaired again, the store says the same as after a repair without an
//! interruption.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dochistory_core::Result;
use dochistory_core::history::History;
use dochistory_core::io::FileSystem;
use dochistory_core::repair::{Options, Report, repair_on};
use dochistory_core::testing::simulated::Simulated;

use crate::harness::simulated::maps::{self, Put};
use crate::harness::simulated::{Harness, ROOT, Step, Subject, triggers};
use crate::harness::{Maps, Triggers, reading};

/// What a loss of power keeps of what was not synced differs from one to the next.
const SEEDS: Range<u64> = 7..11;

/// What is left of a key space that is gone.
const LEFT: [(&str, &[&str]); 2] = [("all", &[]), ("entries", &["turn", "filter"])];

/// A store of one key space, to be damaged.
struct Sample<S: Subject> {
    steps: Vec<Step<S::Op>>,
    ids: Vec<String>,
    room: &'static str,
}

impl<S: Subject> Sample<S> {
    /// A machine with it on which a file of a kind is damaged, or the key space is gone.
    fn damaged(&self, seed: u64, kind: &str, at: u64) -> Simulated {
        let machine = Simulated::new(seed);
        let mut harness = Harness::<S>::with_ids(&[machine.process(), machine.process()], self.ids.clone(), false);
        for step in &self.steps {
            harness.step(step).unwrap();
        }
        drop(harness);
        let (system, space) = (machine.process(), self.space(&machine));
        if let Some(left) = LEFT.iter().find(|left| left.0 == kind) {
            let is_left = |name: &String| left.1.iter().any(|kind| name.starts_with(kind));
            for name in system.list(&space).unwrap().into_iter().filter(|name| !is_left(name)) {
                system.remove(&space.join(name)).unwrap();
            }
            system.sync_directory(&space).unwrap();
        } else {
            scratch(&system, if kind == "HISTORY" { Path::new(ROOT) } else { &space }, kind, at);
        }
        machine
    }

    fn space(&self, machine: &Simulated) -> PathBuf {
        let room = Path::new(ROOT).join(self.room);
        room.join(&machine.process().list(&room).unwrap()[0])
    }

    /// What the store says, all of which has to be whole.
    fn find(&self, process: &Simulated) -> S::Found {
        let history = History::open_on(Arc::new(process.clone()), Path::new(ROOT), &reading()).unwrap();
        S::verify(&history).unwrap();
        S::find(&history, &self.ids).unwrap()
    }

    /// Interrupt the repair at every change it makes, by a kill and by a loss of power, and repair
    /// again; answers how often that was.
    fn interrupt(&self, seed: u64, kind: &str, at: u64) -> usize {
        let undisturbed = self.damaged(seed, kind, at).process();
        let report = repair(&undisturbed).unwrap();
        assert!(report.is_repaired, "{kind}: {report:#?}");
        let (changes, expected) = (undisturbed.changes(), self.find(&undisturbed));
        for (change, power) in (1..=changes).flat_map(|change| [(change, false), (change, true)]) {
            let machine = self.damaged(seed, kind, at);
            let victim = machine.process();
            victim.crash_at(change);
            assert!(repair(&victim).is_err() && victim.is_dead(), "{kind}: change {change}");
            if power {
                machine.lose_power(change);
            }
            let again = machine.process();
            let report = repair(&again).unwrap_or_else(|error| panic!("{kind}, change {change}: {error}"));
            assert_eq!(self.find(&again), expected, "{kind}, change {change}, power {power}: {report:#?}");
        }
        2 * changes as usize
    }

    fn interrupt_all(&self, of: &str, kinds: &[(&str, u64)]) {
        let each = |(kind, at): &(&str, u64)| SEEDS.map(|seed| self.interrupt(seed, kind, *at)).sum::<usize>();
        let interrupted: usize = kinds.iter().map(each).sum();
        eprintln!("figure: interrupted repairs{of} = {interrupted}");
        assert!(interrupted > 100, "{interrupted}");
    }
}

/// Change a byte of the first file of a kind.
fn scratch(system: &Simulated, directory: &Path, kind: &str, at: u64) {
    let names = system.list(directory).unwrap();
    let name = names.into_iter().filter(|name| name.starts_with(kind)).min().unwrap();
    let file = system.open(&directory.join(name), true).unwrap();
    let at = at % file.len().unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 0x55], at).unwrap();
    file.sync().unwrap();
}

fn repair(system: &Simulated) -> Result<Report> {
    let options = Options { apply: true, ..Options::default() };
    repair_on(Arc::new(system.clone()), Path::new(ROOT), &options, &mut |_, _| Ok(()))
}

/// The workload up to where there is something of every kind: segments, a filter and a log.
fn trigger() -> Sample<Triggers> {
    let mut steps = Triggers::workload();
    let maintained = steps.iter().position(|step| matches!(step.op, triggers::Op::Maintain)).unwrap();
    steps.truncate(maintained + 2);
    Sample { steps, ids: Triggers::ids(), room: "triggers" }
}

fn map() -> Sample<Maps> {
    let id = |number| format!("urn:message:{number}");
    let put = |number: u64, value: u8| Put {
        id: id(number),
        value: Some(vec![value; 40]),
        until: Some(20 + number as i64),
        pending: number.is_multiple_of(3),
    };
    let change = |numbers: Range<u64>, value, removes: Range<u64>| maps::Op::Change {
        puts: numbers.map(|number| put(number, value)).collect(),
        removes: removes.map(id).collect(),
        batch: Some(i64::from(value)),
    };
    let ops = [change(0..18, 1, 0..0), maps::Op::Seal, change(4..9, 2, 0..2), maps::Op::Seal, change(6..12, 3, 2..4)];
    let steps = ops.into_iter().enumerate().map(|(number, op)| Step { by: number % 2, op }).collect();
    Sample { steps, ids: (0..18).map(id).collect(), room: "mappers" }
}

#[test]
fn an_interrupted_repair_can_be_done_again() {
    let kinds = [
        ("segment", 4200),
        ("segment", 20),
        ("filter", 5000),
        ("log", 100),
        ("manifest", 60),
        ("HISTORY", 20),
        ("entries", 0),
    ];
    trigger().interrupt_all("", &kinds);
}

#[test]
fn an_interrupted_repair_of_a_map_can_be_done_again() {
    let kinds =
        [("values", 4200), ("values", 20), ("log", 70), ("log", 200), ("manifest", 60), ("all", 0), ("entries", 0)];
    map().interrupt_all(" of maps", &kinds);
}

#[test]
fn a_log_that_was_just_being_made_hides_none_before_it() {
    let sample = trigger();
    for length in [0, 8, 63, 64] {
        let told = [false, true].map(|has_one_in_the_making| {
            let machine = sample.damaged(7, "manifest", 60);
            let (system, space) = (machine.process(), sample.space(&machine));
            if has_one_in_the_making {
                let logs = system.list(&space).unwrap().into_iter().filter(|name| name.starts_with("log-"));
                let newest = logs.max().unwrap();
                let number = u64::from_str_radix(newest.strip_prefix("log-").unwrap(), 16).unwrap() + 1;
                let file = system.create(&space.join(format!("log-{number:016x}"))).unwrap();
                file.write_at(&vec![0; length], 0).unwrap();
                file.sync().unwrap();
                system.sync_directory(&space).unwrap();
            }
            assert!(repair(&system).unwrap().is_repaired);
            sample.find(&system)
        });
        assert_eq!(told[0], told[1], "{length} bytes");
        assert!(told[0].rules.contains(&"R9") && told[0].rules.contains(&"R11"));
    }
}
