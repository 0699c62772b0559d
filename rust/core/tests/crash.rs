//! Nothing acknowledged is ever lost: a workload that touches every feature, crashed at every change it makes to the file
//! system, and again at every change while it recovers. After each crash the verdicts must be those of a plain model in
//! which the one unacknowledged operation happened whole or not at all, and the work goes on from there.
//!
//! `DOCHISTORY_SCHEDULES` says how many crashes to try. A failure names its schedule, which plays again exactly.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::rig::Rig;
use common::workload::{IDS, ids, workload};
use dochistory_core::io::simulated::Simulated;

/// What crashes when.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    seed: u64,
    /// Which of the two processes dies first.
    victim: usize,
    /// At which of its changes.
    at: u64,
    /// Whether the power goes with it.
    power: bool,
    /// At which change of the process that recovers the power goes again.
    again: Option<u64>,
}

/// Play a schedule; answers how many changes each process made before the first crash.
fn play(schedule: Schedule) -> [u64; 2] {
    let machine = Simulated::new(schedule.seed);
    let mut processes = [machine.process(), machine.process()];
    processes[schedule.victim].crash_at(schedule.at);
    let systems = processes.iter().map(|process| Arc::new(process.clone()) as _).collect();
    let mut rig = Rig::new("/history", systems, ids(0..IDS));
    let mut crashes = 0;
    let mut changes = [0; 2];
    let mut survive = |rig: &mut Rig, processes: &mut [Simulated; 2], error: &dochistory_core::Error| {
        let dead = [0, 1].map(|process| processes[process].is_dead());
        assert!(dead.contains(&true), "nobody died, but {error}");
        crashes += 1;
        if schedule.power || crashes > 1 {
            machine.lose_power(schedule.seed ^ (crashes << 32));
        }
        for by in [0, 1] {
            if processes[by].is_dead() {
                processes[by] = machine.process();
                rig.restart(by, Arc::new(processes[by].clone()));
                if crashes == 1
                    && by == schedule.victim
                    && let Some(again) = schedule.again
                {
                    processes[by].crash_at(again);
                }
            }
        }
    };
    for step in &workload() {
        changes = [0, 1].map(|process| changes[process].max(processes[process].changes()));
        while let Err(error) = rig.step(step) {
            survive(&mut rig, &mut processes, &error);
            // First what is there, by either handle; then the step that failed once more.
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
    rig.history(0).unwrap().verify("orders", &mut |_, _| Ok(())).unwrap();
    changes
}

/// Schedules that once failed: seed, victim, change, whether power was lost, and the change of the second crash or `-`.
const REGRESSIONS: &str = include_str!("regressions/crash.txt");

fn regression(line: &str) -> Schedule {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse().unwrap();
    let (power, again) = (words[3] == "power", words[4].parse().ok());
    Schedule { seed: number(0), victim: number(1) as usize, at: number(2), power, again }
}

/// All schedules, the most telling first; without end.
fn schedules(changes: [u64; 2]) -> impl Iterator<Item = Schedule> {
    let places = move || {
        let of = move |victim: usize| (1..=changes[victim]).map(move |at| (victim, at));
        of(0).chain(of(1))
    };
    (0u64..).flat_map(move |round| {
        // Power and kill, then a second crash, each further round a change later; and again with other seeds.
        let (again, seed) = (round % 40, round);
        places().map(move |(victim, at)| Schedule {
            seed: seed.wrapping_mul(0x9e37_79b9).wrapping_add(at),
            victim,
            at,
            power: again != 1,
            again: again.checked_sub(1).filter(|again| *again > 0),
        })
    })
}

#[test]
fn no_crash_loses_what_was_acknowledged_or_leaves_half_of_what_was_not() {
    let wanted: usize = std::env::var("DOCHISTORY_SCHEDULES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let nobody = Schedule { seed: 1, victim: 0, at: u64::MAX, power: true, again: None };
    let changes = play(nobody);
    for schedule in REGRESSIONS.lines().filter(|line| !line.starts_with('#')).map(regression) {
        play(schedule);
    }
    eprintln!("the workload makes {changes:?} changes; {wanted} schedules");
    let queue = Mutex::new(schedules(changes).take(wanted));
    let (done, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || loop {
        let next = queue.lock().unwrap().next();
        let Some(schedule) = next else { break };
        if std::panic::catch_unwind(|| play(schedule)).is_err() {
            eprintln!("failed: {schedule:?}");
            failed.lock().unwrap().push(schedule);
        }
        if failed.lock().unwrap().len() >= 10 {
            break;
        }
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done % 2_000 == 0 {
            eprintln!("{done} of {wanted} schedules");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |threads| threads.get().min(4)) {
            scope.spawn(work);
        }
    });
    eprintln!("figure: crash schedules = {}", done.into_inner());
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} schedules failed: {failed:?}", failed.len());
}
