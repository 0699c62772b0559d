//! Nothing acknowledged is ever lost: a workload that touches every feature, crashed at every
//! change it makes to the file system, and again at every change while it recovers. After each
//! crash the verdicts must be those of a plain model in which the one unacknowledged operation
//! happened whole or not at all, and the work goes on from there.
//!
//! `DOCHISTORY_SCHEDULES` says how many crashes to try. A failure names its schedule, which plays
//! again exactly.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod harness;

use harness::simulated::crashes::{Schedule, crash_everywhere};
use harness::{Maps, Triggers, setting};

/// Schedules that once failed: seed, victim, change, whether power was lost, and the change of the
/// second crash or `-`.
const REGRESSIONS: &str = include_str!("regressions/crash.txt");

fn regression(line: &str) -> Schedule {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse().unwrap();
    let (power, again) = (words[3] == "power", words[4].parse().ok());
    Schedule { seed: number(0), victim: number(1) as usize, at: number(2), power, again }
}

fn wanted() -> usize {
    setting("DOCHISTORY_SCHEDULES", 10_000) as usize
}

#[test]
fn crash_loses_nothing_acknowledged_and_leaves_no_half_batch() {
    dochistory_core::testing::lower_limits();
    let known = REGRESSIONS.lines().filter(|line| !line.starts_with('#')).map(regression);
    crash_everywhere::<Triggers>("crash schedules", wanted(), known);
}

#[test]
fn no_crash_loses_a_value_or_leaves_half_of_a_change() {
    crash_everywhere::<Maps>("crash schedules of maps", wanted().min(100_000), []);
}
