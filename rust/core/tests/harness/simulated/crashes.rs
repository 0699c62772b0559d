//! A workload of two processes, played with a crash at a given change of the files, and perhaps
//! another one during the recovery.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dochistory_core::Error;
use dochistory_core::testing::simulated::Simulated;

use super::{Harness, Subject};

/// What crashes when.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub seed: u64,
    /// Which of the two processes dies first.
    pub victim: usize,
    /// At which of its changes.
    pub at: u64,
    /// Whether the power goes with it.
    pub power: bool,
    /// At which change of the process that recovers the power goes again.
    pub again: Option<u64>,
}

/// A machine on which a schedule is played.
struct Crashing<S: Subject> {
    schedule: Schedule,
    machine: Simulated,
    processes: [Simulated; 2],
    harness: Harness<S>,
    crashes: u64,
    /// How many changes each process made before the first crash.
    changes: [u64; 2],
}

impl<S: Subject> Crashing<S> {
    fn of(schedule: Schedule) -> Self {
        let machine = Simulated::new(schedule.seed);
        let processes = [machine.process(), machine.process()];
        processes[schedule.victim].crash_at(schedule.at);
        let harness = Harness::new(&processes);
        Self { schedule, machine, processes, harness, crashes: 0, changes: [0; 2] }
    }

    /// After an error: somebody must have died of it. The power goes, if it is to, and the dead are
    /// started again.
    fn survive(&mut self, error: &Error) {
        assert!(self.processes.iter().any(Simulated::is_dead), "nobody died, but {error}");
        self.crashes += 1;
        if self.schedule.power || self.crashes > 1 {
            self.machine.lose_power(self.schedule.seed ^ (self.crashes << 32));
        }
        for by in [0, 1] {
            if self.processes[by].is_dead() {
                self.processes[by] = self.machine.process();
                self.harness.restart(by, &self.processes[by]);
                let is_first = self.crashes == 1 && by == self.schedule.victim;
                if let Some(again) = self.schedule.again.filter(|_| is_first) {
                    self.processes[by].crash_at(again);
                }
            }
        }
    }

    fn count(&mut self) {
        for by in [0, 1] {
            self.changes[by] = self.changes[by].max(self.processes[by].changes());
        }
    }
}

/// Play a schedule; answers how many changes each process made before the first crash.
pub fn crash<S: Subject>(schedule: Schedule) -> [u64; 2] {
    let mut crashing = Crashing::<S>::of(schedule);
    for step in &S::workload() {
        crashing.count();
        while let Err(error) = crashing.harness.step(step) {
            crashing.survive(&error);
            // First what is there, by either handle; then the step that failed once more.
            for by in [schedule.victim, 1 - schedule.victim] {
                while let Err(error) = crashing.harness.check(by) {
                    crashing.survive(&error);
                }
            }
        }
    }
    crashing.count();
    // What was acknowledged last must be durable too, whatever else the power takes.
    crashing.machine.lose_power(schedule.seed.wrapping_mul(3));
    for by in [0, 1] {
        crashing.harness.restart(by, &crashing.machine.process());
        crashing.harness.check(by).unwrap();
    }
    crashing.harness.verify().unwrap();
    crashing.changes
}

/// All schedules, the most telling first; without end.
fn schedules(changes: [u64; 2]) -> impl Iterator<Item = Schedule> {
    let places = move || {
        let of = move |victim: usize| (1..=changes[victim]).map(move |at| (victim, at));
        of(0).chain(of(1))
    };
    (0u64..).flat_map(move |seed| {
        // Power and kill, then a second crash, each further round a change later; and again with
        // other seeds.
        let again = seed % 40;
        places().map(move |(victim, at)| Schedule {
            seed: seed.wrapping_mul(0x9e37_79b9).wrapping_add(at),
            victim,
            at,
            power: again != 1,
            again: again.checked_sub(1).filter(|again| *again > 0),
        })
    })
}

/// Play some schedules that failed once, then this number of others; `what` names them in the
/// report.
pub fn crash_everywhere<S: Subject>(what: &str, wanted: usize, regressions: impl IntoIterator<Item = Schedule>) {
    let changes = crash::<S>(Schedule { seed: 1, victim: 0, at: u64::MAX, power: true, again: None });
    for schedule in regressions {
        crash::<S>(schedule);
    }
    eprintln!("the workload makes {changes:?} changes; {wanted} schedules");
    let queue = Mutex::new(schedules(changes).take(wanted));
    let (done, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || loop {
        let next = queue.lock().unwrap().next();
        let Some(schedule) = next else { break };
        if std::panic::catch_unwind(|| crash::<S>(schedule)).is_err() {
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
    eprintln!("figure: {what} = {}", done.into_inner());
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} schedules failed: {failed:?}", failed.len());
}
