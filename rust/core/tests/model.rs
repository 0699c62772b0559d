//! Long random lives of a history beside a naive model: after every step both handles give the
//! model's verdicts, and so do two read-only ones that were opened before and are kept. Now and
//! then a process is killed at some change, or the power goes.
//!
//! `DOCHISTORY_LIVES` says how many lives; each follows from its number. `DOCHISTORY_LIFE` tells
//! one of them step by step.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

use dochistory_core::history::History;
use dochistory_core::testing::simulated::Simulated;
use dochistory_core::{OnOtherRows, OnReplay, Replays};
use harness::random::Random;
use harness::simulated::triggers::{Batch, Op};
use harness::simulated::{Harness, Step};
use harness::{Triggers, setting, uuid};

/// Lives that once went wrong, one number a line.
const REGRESSIONS: &str = include_str!("regressions/lives.txt");

const IDS: u64 = 24;
const STEPS: usize = 60;
/// The slot of the one transaction that is under way.
const TRANSACTION: usize = 100;

fn id(number: u64) -> String {
    if number.is_multiple_of(3) { uuid(number) } else { format!("urn:document:{number}") }
}

/// Chooses steps.
struct Life {
    random: Random,
    day: i64,
    number: i64,
    /// Of the last batch that was a transaction.
    last_ids: Vec<String>,
}

impl Life {
    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    fn ids(&mut self) -> Vec<String> {
        let (first, count) = (self.below(IDS), 1 + self.below(6));
        (first..first + count).map(|number| id(number % IDS)).collect()
    }

    /// Those of the last batch in another order, mostly; else others.
    fn batch_ids(&mut self) -> Vec<String> {
        if self.last_ids.is_empty() || self.below(3) == 0 {
            self.last_ids = self.ids();
        }
        let by = self.below(self.last_ids.len() as u64) as usize;
        self.last_ids.rotate_left(by);
        self.last_ids.clone()
    }

    fn replays(&mut self) -> Replays {
        let on_replay = if self.below(2) == 0 { OnReplay::Rerun } else { OnReplay::ByRules };
        let on_other_rows = if self.below(2) == 0 { OnOtherRows::LookUp } else { OnOtherRows::Refuse };
        Replays { on_replay, on_other_rows }
    }

    fn batch(&mut self, slot: usize, day: i64) -> Batch {
        Batch { slot, ids: self.ids(), day, number: None, replays: Replays::default() }
    }

    fn transaction(&mut self, day: i64) -> Batch {
        let replays = self.replays();
        Batch { slot: TRANSACTION, ids: self.batch_ids(), day, number: Some(self.number), replays }
    }

    fn step(&mut self) -> Step<Op> {
        let by = self.below(2) as usize;
        let slot = self.below(6) as usize;
        self.day += i64::from(self.below(4) == 0);
        // Sometimes a document is late; now and then the clock jumps, far back or far on.
        let day = match self.below(40) {
            0 => self.day - 50,
            1 => self.day + 50,
            _ => self.day - self.below(3) as i64,
        };
        let completed = self.below(3) > 0;
        let op = match self.below(26) {
            22..=23 => Op::BeginStaged(self.batch(slot, day)),
            24..=25 => {
                self.number += self.below(3) as i64;
                Op::BeginStaged(self.transaction(day))
            }
            0..=4 => Op::Begin(self.batch(slot, day)),
            5..=7 => {
                self.number += self.below(3) as i64 - i64::from(self.below(8) == 0);
                Op::Begin(self.transaction(day))
            }
            8..=9 => Op::FinishClaim { slot, completed },
            10 => Op::FinishClaim { slot: TRANSACTION, completed },
            11..=13 => Op::FinishRows { slot, ids: self.ids(), completed },
            14..=15 => Op::FinishKeys { ids: self.ids(), completed, day },
            16 => Op::Load { ids: self.ids(), day, completed },
            17..=18 => Op::Seal,
            19 => Op::Maintain,
            20 => Op::Purge { day: self.day + self.below(36) as i64 },
            _ => Op::Reopen,
        };
        Step { by, op }
    }
}

fn live(seed: u64) {
    let machine = Simulated::new(seed);
    let mut life = Life { random: Random(seed), day: 0, number: 1, last_ids: Vec::new() };
    let mut processes = [machine.process(), machine.process()];
    let mut harness = Harness::<Triggers>::with_ids(&processes, (0..IDS).map(id).collect(), seed % 2 == 1);
    let mut journal = Vec::new();
    // Two that only read, in processes of their own, each kept over many steps and asked after
    // every one.
    let mut readers: [Option<(Simulated, History)>; 2] = [None, None];
    for number in 0..STEPS {
        let step = life.step();
        if life.below(8) == 0 {
            let process = &processes[step.by];
            process.crash_at(process.changes() + 1 + life.below(30));
        }
        journal.push(format!("{step:?}"));
        if std::env::var("DOCHISTORY_LIFE").is_ok() {
            eprintln!("{step:?}");
        }
        let done = harness.step(&step);
        let mut checked = done.and_then(|()| harness.check(0)).and_then(|()| harness.check(1));
        while let Err(error) = checked {
            assert!(processes.iter().any(Simulated::is_dead), "{error} after\n{}", journal.join("\n"));
            let power = life.below(2) == 0;
            journal.push(format!("a process died, power lost: {power}"));
            if power {
                machine.lose_power(life.below(u64::MAX));
            }
            for by in [0, 1] {
                if processes[by].is_dead() {
                    processes[by] = machine.process();
                    harness.restart(by, &processes[by]);
                }
            }
            checked = harness.check(0).and_then(|()| harness.check(1));
        }
        for (which, reader) in readers.iter_mut().enumerate() {
            if number % [40, 25][which] == 0 || reader.as_ref().is_some_and(|(process, _)| process.is_dead()) {
                *reader = None;
            }
            let (_, history) = reader.get_or_insert_with(|| {
                let process = machine.process();
                let history = harness.reader(&process);
                (process, history)
            });
            harness.check_reader(history);
        }
    }
}

#[test]
fn history_matches_a_naive_model_after_any_events() {
    dochistory_core::testing::lower_limits();
    if let Ok(life) = std::env::var("DOCHISTORY_LIFE") {
        return live(life.parse().unwrap());
    }
    for seed in REGRESSIONS.lines().filter(|line| !line.starts_with('#')) {
        live(seed.parse().unwrap());
    }
    let lives = setting("DOCHISTORY_LIVES", 500);
    let failed: Vec<u64> =
        (0..lives).filter(|seed| std::panic::catch_unwind(|| live(*seed)).is_err()).take(5).collect();
    eprintln!("figure: random lives = {lives}");
    assert!(failed.is_empty(), "lives {failed:?} went wrong");
}
