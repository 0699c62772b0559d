//! A workload of two processes, played with one crash at a given change of the files, or with one
//! operation that fails. What it is played on, a history or a space of values, brings its models
//! along: [`Handles`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dochistory_core::Error;
use dochistory_core::io::FileSystem;
use dochistory_core::testing::simulated::{Fault, Simulated};

/// Two handles on one store, and what it may hold.
pub trait Handles: Sized {
    type Step;
    /// The store of the workload, nothing in it yet.
    fn of(systems: Vec<Arc<dyn FileSystem>>) -> Self;
    fn workload() -> Vec<Self::Step>;
    /// Which of the two handles does a step.
    fn by(step: &Self::Step) -> usize;
    fn step(&mut self, step: &Self::Step) -> Result<(), Error>;
    /// Every answer of a handle must be one that a model allows.
    fn check(&mut self, by: usize) -> Result<(), Error>;
    fn restart(&mut self, by: usize, system: Arc<dyn FileSystem>);
    /// Every byte on disk.
    fn verify(&mut self) -> Result<(), Error>;
    /// What has to hold between an operation that failed and the handle being opened anew.
    fn failed(&mut self, _: &Self::Step, _: &Error) {}
}

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
struct Crashing<H> {
    schedule: Schedule,
    machine: Simulated,
    processes: [Simulated; 2],
    handles: H,
    crashes: u64,
    /// How many changes each process made before the first crash.
    changes: [u64; 2],
}

impl<H: Handles> Crashing<H> {
    fn of(schedule: Schedule) -> Self {
        let machine = Simulated::new(schedule.seed);
        let processes = [machine.process(), machine.process()];
        processes[schedule.victim].crash_at(schedule.at);
        let handles = H::of(systems(&processes));
        Self { schedule, machine, processes, handles, crashes: 0, changes: [0; 2] }
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
                self.handles.restart(by, Arc::new(self.processes[by].clone()));
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

fn systems(processes: &[Simulated; 2]) -> Vec<Arc<dyn FileSystem>> {
    processes.iter().map(|process| Arc::new(process.clone()) as _).collect()
}

/// Play a schedule; answers how many changes each process made before the first crash.
pub fn crash<H: Handles>(schedule: Schedule) -> [u64; 2] {
    let mut crashing = Crashing::<H>::of(schedule);
    for step in &H::workload() {
        crashing.count();
        while let Err(error) = crashing.handles.step(step) {
            crashing.survive(&error);
            // First what is there, by either handle; then the step that failed once more.
            for by in [schedule.victim, 1 - schedule.victim] {
                while let Err(error) = crashing.handles.check(by) {
                    crashing.survive(&error);
                }
            }
        }
    }
    crashing.count();
    // What was acknowledged last must be durable too, whatever else the power takes.
    crashing.machine.lose_power(schedule.seed.wrapping_mul(3));
    for by in [0, 1] {
        crashing.handles.restart(by, Arc::new(crashing.machine.process()));
        crashing.handles.check(by).unwrap();
    }
    crashing.handles.verify().unwrap();
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

/// Play some schedules that failed once, then so many others; `what` names them in the report.
pub fn crash_everywhere<H: Handles>(what: &str, wanted: usize, regressions: impl IntoIterator<Item = Schedule>) {
    let changes = crash::<H>(Schedule { seed: 1, victim: 0, at: u64::MAX, power: true, again: None });
    for schedule in regressions {
        crash::<H>(schedule);
    }
    eprintln!("the workload makes {changes:?} changes; {wanted} schedules");
    let queue = Mutex::new(schedules(changes).take(wanted));
    let (done, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || loop {
        let next = queue.lock().unwrap().next();
        let Some(schedule) = next else { break };
        if std::panic::catch_unwind(|| crash::<H>(schedule)).is_err() {
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

/// Play the workload with one operation that fails; answers how many operations each process did.
pub fn disturb<H: Handles>(victim: usize, at: u64, fault: Fault) -> [u64; 2] {
    let machine = Simulated::new(at);
    let processes = [machine.process(), machine.process()];
    processes[victim].fail_at(at, fault);
    let mut handles = H::of(systems(&processes));
    for step in &H::workload() {
        let mut tries = 0;
        while let Err(error) = handles.step(step) {
            assert!(processes[victim].has_failed(), "nothing failed, but {error}");
            tries += 1;
            assert!(tries < 6, "trying again does not help: {error}");
            handles.failed(step, &error);
            // A sync that failed for one is told to the others too, once: each handle has to be
            // reopened at most once.
            for by in [H::by(step), 1 - H::by(step)] {
                let mut reopened = 0;
                handles.restart(by, Arc::new(processes[by].clone()));
                while let Err(error) = handles.check(by) {
                    reopened += 1;
                    assert!(reopened < 3, "reopening does not help: {error}");
                    handles.restart(by, Arc::new(processes[by].clone()));
                }
            }
        }
    }
    let operations = [0, 1].map(|process: usize| processes[process].operations());
    machine.lose_power(at);
    handles.restart(0, Arc::new(machine.process()));
    handles.check(0).unwrap();
    handles.verify().unwrap();
    operations
}

/// Without `DOCHISTORY_FAULTS=all`, which the campaign sets, one operation of this many fails; each
/// kind of fault begins at another one.
const EVERY: usize = 5;

/// Let operations of the workload fail, each once in one way, which may follow from the operation's
/// number.
pub fn disturb_everywhere<H: Handles>(what: &str, fault: impl Fn(u64) -> Fault + std::panic::RefUnwindSafe) {
    let operations = disturb::<H>(0, u64::MAX, Fault::Broken);
    let is_all = std::env::var("DOCHISTORY_FAULTS").is_ok_and(|wanted| wanted == "all");
    let (every, first) = if is_all { (1, 1) } else { (EVERY, 1 + what.len() as u64 % EVERY as u64) };
    let (mut failed, mut tried) = (Vec::new(), 0);
    for (victim, count) in operations.into_iter().enumerate() {
        for at in (first..=count).step_by(every) {
            tried += 1;
            if std::panic::catch_unwind(|| disturb::<H>(victim, at, fault(at))).is_err() {
                eprintln!("failed: process {victim}, operation {at}, {:?}", fault(at));
                failed.push((victim, at));
            }
        }
    }
    eprintln!("figure: {what} = {tried}");
    assert!(tried > 0 && failed.is_empty(), "of {operations:?} operations {failed:?} failed");
}

/// A bit of a file that is read wrongly.
pub fn flip(at: u64) -> Fault {
    Fault::Flip(at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20)
}
