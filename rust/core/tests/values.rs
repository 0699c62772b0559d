//! Value spaces: long random lives beside a naive model, with processes that are killed at any change and power that goes; and
//! a workload that touches every feature, crashed and disturbed at every operation.
//!
//! `DOCHISTORY_LIVES` says how many lives; each follows from its number. `DOCHISTORY_SCHEDULES` says how many crashes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::uuid;
use common::value_rig::{Op, Put, Rig, Step};
use dochistory_core::io::simulated::{Fault, Simulated};

const IDS: u64 = 36;

fn id(number: u64) -> String {
    match number % 3 {
        0 => uuid(number),
        1 => format!("urn:message:{number}"),
        _ => format!("{}{number}", "long ".repeat(40)),
    }
}

fn ids() -> Vec<String> {
    (0..IDS).map(id).collect()
}

fn wanted(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

/// Chooses steps.
struct Life {
    random: u64,
    day: i64,
    batch: i64,
}

impl Life {
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn ids(&mut self) -> Vec<String> {
        let (first, count) = (self.below(IDS), 1 + self.below(6));
        (first..first + count).map(|number| id(number % IDS)).collect()
    }

    fn puts(&mut self) -> Vec<Put> {
        let many = self.below(8) == 0;
        let ids = if many { ids() } else { self.ids() };
        let put = |id| {
            let length = [0, 3, 36, 300][self.below(4) as usize];
            let value = (self.below(5) > 0).then(|| vec![self.below(256) as u8; length]);
            let until = (self.below(6) > 0).then(|| self.day + self.below(200) as i64);
            Put { id, value, until, pending: self.below(3) == 0 }
        };
        ids.into_iter().map(put).collect()
    }

    fn step(&mut self) -> Step {
        self.day += self.below(12) as i64;
        let by = self.below(2) as usize;
        let op = match self.below(20) {
            0..=4 => Op::Change { puts: self.puts(), removes: self.ids(), batch: None },
            5..=6 => Op::Take { puts: self.puts() },
            7..=8 => {
                self.batch += self.below(3) as i64;
                Op::Change { puts: self.puts(), removes: Vec::new(), batch: Some(self.batch) }
            }
            9 => Op::End { removes: self.ids() },
            10..=11 => Op::Change { puts: Vec::new(), removes: self.ids(), batch: None },
            12 => Op::Fail { puts: self.puts() },
            13..=15 => Op::Seal,
            16 => Op::Maintain { all: self.below(2) == 0 },
            17..=18 => Op::Purge { day: self.day + self.below(60) as i64, pending: self.below(3) == 0 },
            _ => Op::Reopen,
        };
        Step { by, op }
    }
}

fn live(seed: u64) {
    let machine = Simulated::new(seed);
    let mut life = Life { random: seed, day: 0, batch: 1 };
    let mut processes = [machine.process(), machine.process()];
    let systems = processes.iter().map(|process| Arc::new(process.clone()) as _).collect();
    let mut rig = Rig::new("/history", systems, ids());
    rig.collides = seed.is_multiple_of(2);
    for _ in 0..60 {
        let step = life.step();
        if life.below(10) == 0 {
            processes[step.by].crash_at(processes[step.by].changes() + 1 + life.below(12));
        }
        if wanted("DOCHISTORY_LIFE", u64::MAX) == seed {
            eprintln!("{step:?}");
        }
        let result = rig.step(&step);
        if life.below(30) == 0 || result.is_err() && life.below(2) == 0 {
            machine.lose_power(life.random);
        }
        for by in [0, 1] {
            if processes[by].is_dead() {
                processes[by] = machine.process();
                rig.restart(by, Arc::new(processes[by].clone()));
            }
        }
        for by in [step.by, 1 - step.by] {
            while let Err(error) = rig.check(by) {
                assert!(processes[by].is_dead(), "nobody died, but {error}");
                processes[by] = machine.process();
                rig.restart(by, Arc::new(processes[by].clone()));
            }
        }
    }
    rig.values(0).unwrap().verify(&mut |_, _| Ok(())).unwrap();
}

#[test]
fn a_space_holds_what_a_naive_model_holds_whatever_happens_to_it() {
    let mut failed = Vec::new();
    for seed in 0..wanted("DOCHISTORY_LIVES", 300) {
        let only = wanted("DOCHISTORY_LIFE", seed);
        if only == seed && std::panic::catch_unwind(|| live(seed)).is_err() {
            failed.push(seed);
        }
    }
    eprintln!("figure: random lives of maps = {}", wanted("DOCHISTORY_LIVES", 300));
    assert!(failed.is_empty(), "lives {failed:?} failed");
}

/// Two handles, all features, several weeks.
fn workload() -> Vec<Step> {
    let puts = |numbers: std::ops::Range<u64>, value: u8, until, pending| {
        let put = |number| Put { id: id(number), value: Some(vec![value; 20]), until, pending };
        numbers.map(put).collect::<Vec<_>>()
    };
    let removes = |numbers: std::ops::Range<u64>| numbers.map(id).collect::<Vec<_>>();
    let change = |puts, removes, batch| Op::Change { puts, removes, batch };
    let steps = [
        (0, change(puts(0..6, 1, Some(5), false), vec![], None)),
        (1, change(puts(4..10, 2, Some(20), true), removes(0..1), None)),
        (0, Op::Seal),
        (1, change(puts(2..5, 3, None, false), removes(5..7), None)),
        (0, change(puts(10..14, 4, Some(30), true), vec![], Some(1))),
        (1, Op::Seal),
        (1, Op::End { removes: removes(10..11) }),
        (0, Op::Take { puts: puts(8..20, 5, Some(60), false) }),
        (0, Op::Seal),
        (1, Op::Maintain { all: false }),
        (1, Op::Purge { day: 10, pending: false }),
        // Large: goes into files at once.
        (0, change(puts(0..30, 6, Some(90), false), vec![], Some(2))),
        (1, change(vec![], removes(20..25), None)),
        (0, Op::Fail { puts: puts(0..36, 7, None, false) }),
        (1, Op::Seal),
        (0, Op::Maintain { all: true }),
        (1, Op::Reopen),
        (1, change(puts(30..36, 8, Some(40), true), vec![], None)),
        (0, Op::Purge { day: 50, pending: true }),
        (1, Op::Take { puts: puts(0..36, 9, Some(100), false) }),
        (0, Op::End { removes: vec![] }),
        (0, Op::Purge { day: 95, pending: false }),
    ];
    steps.map(|(by, op)| Step { by, op }).to_vec()
}

/// What crashes when: a process at one of its changes, with the power or without; and the one that recovers again.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    seed: u64,
    victim: usize,
    at: u64,
    power: bool,
    again: Option<u64>,
}

/// Play a schedule; answers how many changes each process made before the first crash.
fn play(schedule: Schedule) -> [u64; 2] {
    let machine = Simulated::new(schedule.seed);
    let mut processes = [machine.process(), machine.process()];
    processes[schedule.victim].crash_at(schedule.at);
    let systems = processes.iter().map(|process| Arc::new(process.clone()) as _).collect();
    let mut rig = Rig::new("/history", systems, ids());
    let (mut crashes, mut changes) = (0, [0; 2]);
    let mut survive = |rig: &mut Rig, processes: &mut [Simulated; 2], error: &dochistory_core::Error| {
        assert!(processes.iter().any(Simulated::is_dead), "nobody died, but {error}");
        crashes += 1;
        if schedule.power || crashes > 1 {
            machine.lose_power(schedule.seed ^ (crashes << 32));
        }
        for by in [0, 1] {
            if processes[by].is_dead() {
                processes[by] = machine.process();
                rig.restart(by, Arc::new(processes[by].clone()));
                if let Some(again) = schedule.again.filter(|_| crashes == 1 && by == schedule.victim) {
                    processes[by].crash_at(again);
                }
            }
        }
    };
    for step in &workload() {
        changes = [0, 1].map(|process| changes[process].max(processes[process].changes()));
        while let Err(error) = rig.step(step) {
            survive(&mut rig, &mut processes, &error);
            for by in [schedule.victim, 1 - schedule.victim] {
                while let Err(error) = rig.check(by) {
                    survive(&mut rig, &mut processes, &error);
                }
            }
        }
    }
    changes = [0, 1].map(|process| changes[process].max(processes[process].changes()));
    // What was acknowledged last must be durable too, whatever else the power takes.
    machine.lose_power(schedule.seed.wrapping_mul(3));
    for by in [0, 1] {
        rig.restart(by, Arc::new(machine.process()));
        rig.check(by).unwrap();
    }
    rig.values(0).unwrap().verify(&mut |_, _| Ok(())).unwrap();
    changes
}

#[test]
fn no_crash_loses_a_value_or_leaves_half_of_a_change() {
    let changes = play(Schedule { seed: 1, victim: 0, at: u64::MAX, power: true, again: None });
    let places = || [0, 1].into_iter().flat_map(move |victim: usize| (1..=changes[victim]).map(move |at| (victim, at)));
    let schedules = (0u64..).flat_map(|round| {
        places().map(move |(victim, at)| Schedule {
            seed: round.wrapping_mul(0x9e37_79b9).wrapping_add(at),
            victim,
            at,
            power: round % 40 != 1,
            again: (round % 40).checked_sub(1).filter(|again| *again > 0),
        })
    });
    let count = wanted("DOCHISTORY_SCHEDULES", 10_000) as usize;
    eprintln!("the workload makes {changes:?} changes; {count} schedules");
    let failed: Vec<_> = schedules
        .take(count)
        .filter(|schedule| std::panic::catch_unwind(|| play(*schedule)).is_err())
        .take(5)
        .collect();
    eprintln!("figure: crash schedules of maps = {count}");
    assert!(failed.is_empty(), "schedules failed: {failed:?}");
}

/// Play the workload with one operation that fails; answers how many operations each process did.
fn disturb(victim: usize, at: u64, fault: Fault) -> [u64; 2] {
    let machine = Simulated::new(at);
    let processes = [machine.process(), machine.process()];
    processes[victim].fail_at(at, fault);
    let systems = processes.iter().map(|process| Arc::new(process.clone()) as _).collect();
    let mut rig = Rig::new("/history", systems, ids());
    for step in &workload() {
        while let Err(error) = rig.step(step) {
            assert!(processes[victim].has_failed(), "nothing failed, but {error}");
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
    rig.values(0).unwrap().verify(&mut |_, _| Ok(())).unwrap();
    operations
}

#[test]
fn no_operation_that_fails_loses_a_value_or_changes_one() {
    let operations = disturb(0, u64::MAX, Fault::Broken);
    eprintln!("figure: faults of maps = {}", 4 * (operations[0] + operations[1]));
    let mut failed = Vec::new();
    for (victim, count) in operations.into_iter().enumerate() {
        for at in 1..=count {
            let bit = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            for fault in [Fault::Broken, Fault::Full, Fault::Short, Fault::Flip(bit)] {
                if std::panic::catch_unwind(|| disturb(victim, at, fault)).is_err() {
                    eprintln!("failed: process {victim}, operation {at}, {fault:?}");
                    failed.push((victim, at));
                }
            }
        }
    }
    assert!(failed.is_empty(), "of {operations:?} operations {failed:?} failed");
}
