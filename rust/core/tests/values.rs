//! Value spaces: long random lives beside a naive model, with processes that are killed at any
//! change and power that goes; and a workload that touches every feature, crashed and disturbed at
//! every operation.
//!
//! `DOCHISTORY_LIVES` says how many lives; each follows from its number. `DOCHISTORY_SCHEDULES`
//! says how many crashes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::disturbed::{Handles, crash_everywhere, disturb_everywhere, flip};
use common::uuid;
use common::value_rig::{Op, Put, Rig, Step};
use dochistory_core::Error;
use dochistory_core::io::FileSystem;
use dochistory_core::testing::simulated::{Fault, Simulated};

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

impl Handles for Rig {
    type Step = Step;

    fn of(systems: Vec<Arc<dyn FileSystem>>) -> Self {
        Self::new("/history", systems, ids())
    }

    fn workload() -> Vec<Step> {
        workload()
    }

    fn by(step: &Step) -> usize {
        step.by
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        self.step(step)
    }

    fn check(&mut self, by: usize) -> Result<(), Error> {
        self.check(by)
    }

    fn restart(&mut self, by: usize, system: Arc<dyn FileSystem>) {
        self.restart(by, system);
    }

    fn verify(&mut self) -> Result<(), Error> {
        self.values(0)?.verify(&mut |_, _| Ok(())).map(drop)
    }
}

#[test]
fn no_crash_loses_a_value_or_leaves_half_of_a_change() {
    crash_everywhere::<Rig>("crash schedules of maps", wanted("DOCHISTORY_SCHEDULES", 10_000) as usize, []);
}

#[test]
fn no_operation_that_fails_loses_a_value_or_changes_one() {
    disturb_everywhere::<Rig>("Broken faults of maps", |_| Fault::Broken);
    disturb_everywhere::<Rig>("Full faults of maps", |_| Fault::Full);
    disturb_everywhere::<Rig>("Short faults of maps", |_| Fault::Short);
    disturb_everywhere::<Rig>("Flip(0) faults of maps", flip);
}

// At shipped thresholds the same workload makes other files.
#[cfg(feature = "small")]
#[test]
fn a_fixed_workload_of_values_writes_fixed_bytes() {
    common::bytes::writes_what_it_wrote::<Rig>("/history", "value_bytes.txt");
}
