//! Long random lives of a map of values beside a naive model, with processes that are killed at any
//! change and power that goes.
//!
//! `DOCHISTORY_LIVES` says how many lives; each follows from its number. `DOCHISTORY_LIFE` tells
//! one of them step by step.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

use dochistory_core::testing::simulated::Simulated;
use harness::random::Random;
use harness::simulated::maps::{Op, Put};
use harness::simulated::{Harness, Step, Subject};
use harness::{Maps, setting};

const IDS: u64 = 36;

/// Chooses steps.
struct Life {
    random: Random,
    day: i64,
    batch: i64,
}

impl Life {
    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    fn ids(&mut self) -> Vec<String> {
        let (all, first, count) = (Maps::ids(), self.below(IDS), 1 + self.below(6));
        (first..first + count).map(|number| all[(number % IDS) as usize].clone()).collect()
    }

    fn puts(&mut self) -> Vec<Put> {
        let many = self.below(8) == 0;
        let ids = if many { Maps::ids() } else { self.ids() };
        let put = |id| {
            let length = [0, 3, 36, 300][self.below(4) as usize];
            let value = (self.below(5) > 0).then(|| vec![self.below(256) as u8; length]);
            let until = (self.below(6) > 0).then(|| self.day + self.below(200) as i64);
            Put { id, value, until, pending: self.below(3) == 0 }
        };
        ids.into_iter().map(put).collect()
    }

    fn step(&mut self) -> Step<Op> {
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
    let mut life = Life { random: Random(seed), day: 0, batch: 1 };
    let mut processes = [machine.process(), machine.process()];
    let mut harness = Harness::<Maps>::with_ids(&processes, Maps::ids(), seed.is_multiple_of(2));
    for _ in 0..60 {
        let step = life.step();
        if life.below(10) == 0 {
            processes[step.by].crash_at(processes[step.by].changes() + 1 + life.below(12));
        }
        if setting("DOCHISTORY_LIFE", u64::MAX) == seed {
            eprintln!("{step:?}");
        }
        let result = harness.step(&step);
        if life.below(30) == 0 || result.is_err() && life.below(2) == 0 {
            machine.lose_power(life.random.0);
        }
        for by in [0, 1] {
            if processes[by].is_dead() {
                processes[by] = machine.process();
                harness.restart(by, &processes[by]);
            }
        }
        for by in [step.by, 1 - step.by] {
            while let Err(error) = harness.check(by) {
                assert!(processes[by].is_dead(), "nobody died, but {error}");
                processes[by] = machine.process();
                harness.restart(by, &processes[by]);
            }
        }
    }
    harness.verify().unwrap();
}

#[test]
fn value_space_matches_a_naive_model_after_any_events() {
    let mut failed = Vec::new();
    for seed in 0..setting("DOCHISTORY_LIVES", 300) {
        let only = setting("DOCHISTORY_LIFE", seed);
        if only == seed && std::panic::catch_unwind(|| live(seed)).is_err() {
            failed.push(seed);
        }
    }
    eprintln!("figure: random lives of maps = {}", setting("DOCHISTORY_LIVES", 300));
    assert!(failed.is_empty(), "lives {failed:?} failed");
}
