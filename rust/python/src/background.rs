//! Maintenance in the background: threads of their own, which `begin` starts when something is due.
//! For each handle there is at most one that puts a full log into segments, one that renews the
//! filter in memory after that, one that compacts and builds filters, and one that gives back what
//! is kept for the next log once nobody writes. Closing the history stops
//! them, which does no harm: finished steps stay, and the rest comes next time.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dochistory_core::history::History;
use dochistory_core::history::values::ValueMap;
use dochistory_core::{Error, Progress, background};

/// Time that each `begin` waits at most for maintenance, for each segment that is too many, and in
/// all: a small debt slows many calls a little.
const OVERDUE_WAIT: Duration = Duration::from_millis(2);
const LONGEST_OVERDUE_WAIT: Duration = Duration::from_millis(150);
/// Maximum time that closing waits for it.
const CLOSING_WAIT: Duration = Duration::from_millis(150);
const BETWEEN_LOOKS: Duration = Duration::from_micros(150);
/// Nobody writes if nothing came for this time, or up to twice as long.
const IDLE: Duration = Duration::from_secs(10);

/// How long maintenance that failed is not tried again: at first, and when it goes on failing.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How much lower the priority of these threads is, as `nice` has it: callers come first where
/// cores are few, and then a full log, for which callers wait soonest.
const SEALING_NICER: c_int = 1;
const RENEWING_NICER: c_int = 7;
const MAINTAINING_NICER: c_int = 15;

/// Lower the priority of this thread. (Linux has one for each thread.)
#[cfg(target_os = "linux")]
fn lower_priority(more: c_int) {
    #[expect(unsafe_code, reason = "the standard library has no priorities")]
    unsafe extern "C" {
        fn nice(more: c_int) -> c_int;
    }
    // SAFETY: it takes a number alone. Where it is refused, the priority stays.
    #[expect(unsafe_code, reason = "the standard library has no priorities")]
    unsafe {
        nice(more);
    }
}

#[cfg(not(target_os = "linux"))]
fn lower_priority(_more: c_int) {}

/// What was maintained, and why that failed. The next call tells it, of whatever it is itself.
pub(crate) type Failed = (String, String);

/// A job that runs, if one does.
#[derive(Default)]
struct Job {
    running: Mutex<Option<JoinHandle<Option<Failed>>>>,
    pauses: Arc<Pauses>,
}

/// Until when what failed is not tried again, and the length of that pause. On a full disk each try
/// writes as much as there is room for.
#[derive(Default)]
struct Pauses(Mutex<HashMap<String, (Instant, Duration)>>);

impl Pauses {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, Duration)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_paused(&self, what: &str) -> bool {
        self.lock().get(what).is_some_and(|(until, _)| Instant::now() < *until)
    }

    fn note(&self, what: &str, has_failed: bool) {
        let mut pauses = self.lock();
        let before = pauses.remove(what);
        if has_failed {
            let pause = before.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
            pauses.insert(what.to_owned(), (Instant::now() + pause, pause));
        }
    }
}

#[derive(Default)]
pub(crate) struct Maintenance {
    maintaining: Job,
    sealing: Job,
    /// By itself: the next log is not to wait for it.
    renewing: Arc<Job>,
    /// Gives back what is kept for the next log.
    releasing: Job,
    stop: Arc<AtomicBool>,
}

impl Job {
    fn lock(&self) -> MutexGuard<'_, Option<JoinHandle<Option<Failed>>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Start `work` for `what`, unless the job runs already, or this has failed a moment ago. If no
    /// thread can be started, it comes later.
    fn start(
        &self,
        (name, nicer): (&str, c_int),
        what: String,
        work: impl FnOnce() -> dochistory_core::Result<()> + Send + 'static,
    ) {
        let mut running = self.lock();
        if running.is_none() && !self.pauses.is_paused(&what) {
            let pauses = self.pauses.clone();
            let work = move || {
                background::enter();
                lower_priority(nicer);
                let failed = work().err();
                pauses.note(&what, failed.is_some());
                failed.map(|error| (what, error.to_string()))
            };
            *running = std::thread::Builder::new().name(name.into()).spawn(work).ok();
        }
    }

    /// The result of the last run, if it is over.
    fn collect(&self) -> Option<Failed> {
        let mut running = self.lock();
        running.take_if(|thread| thread.is_finished())?.join().ok().flatten()
    }

    fn wait(&self, limit: Duration) {
        self.wait_while(|waited| waited < limit);
    }

    /// Wait for it while `is_to_wait`, which is told for how long that has been.
    fn wait_while(&self, is_to_wait: impl Fn(Duration) -> bool) {
        let start = Instant::now();
        while is_to_wait(start.elapsed()) && self.lock().as_ref().is_some_and(|thread| !thread.is_finished()) {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Let a pause of the job end now.
    fn wake(&self) {
        if let Some(thread) = self.lock().as_ref() {
            thread.thread().unpark();
        }
    }

    fn join(&self) {
        if let Some(thread) = self.lock().take() {
            drop(thread.join());
        }
    }
}

fn of_trigger(name: &str) -> String {
    format!("trigger '{name}'")
}

/// Put a full log into segments; and the next one, which that may have frozen: perhaps nobody
/// writes any more.
fn seal(history: &History, name: &str) -> dochistory_core::Result<()> {
    history.seal(name)?;
    if history.is_seal_due(name) { history.seal(name) } else { Ok(()) }
}

impl Maintenance {
    /// Start maintenance of a trigger if it is due; wait a little only when it is overdue. Answers
    /// how the previous maintenance failed, if it did.
    pub(crate) fn start_for(&self, history: &Arc<History>, name: &str) -> Option<Failed> {
        let failed = self.collect();
        if history.is_seal_due(name) {
            self.start_releasing(history);
            let (history, name, renewing) = (history.clone(), name.to_owned(), self.renewing.clone());
            self.sealing.start(("dochistory-sealing", SEALING_NICER), of_trigger(&name), move || {
                seal(&history, &name)?;
                let renewal = ("dochistory-renewing", RENEWING_NICER);
                renewing.start(renewal, of_trigger(&name), move || history.renew_young(&name));
                Ok(())
            });
        }
        if history.is_maintenance_due(name) {
            self.start(history, name);
            self.maintaining.wait((OVERDUE_WAIT * history.maintenance_debt(name)).min(LONGEST_OVERDUE_WAIT));
        }
        self.sealing.wait_while(|waited| waited < history.seal_wait(name));
        failed
    }

    /// [`Maintenance::start_for`] for a space of values; `what` says which.
    pub(crate) fn start_for_values(&self, values: &ValueMap, what: &str) -> Option<Failed> {
        let failed = self.collect();
        if values.is_maintenance_due() {
            let values = values.clone();
            self.run(what.to_owned(), move |hear| values.maintain_while_due(hear));
        }
        failed
    }

    /// Watch for a time without writes. The thread keeps no history open.
    fn start_releasing(&self, history: &Arc<History>) {
        let (history, stop) = (Arc::downgrade(history), self.stop.clone());
        self.releasing.start(("dochistory-releasing", MAINTAINING_NICER), "logs that are over".into(), move || {
            loop {
                std::thread::park_timeout(IDLE);
                let Some(history) = history.upgrade().filter(|_| !stop.load(Ordering::Relaxed)) else { return Ok(()) };
                if !history.release_if_idle() {
                    return Ok(());
                }
            }
        });
    }

    fn start(&self, history: &Arc<History>, name: &str) {
        let (history, of) = (history.clone(), name.to_owned());
        self.run(of_trigger(name), move |hear| history.maintain_while_due(&of, hear));
    }

    fn run(&self, what: String, job: impl FnOnce(Progress<'_>) -> dochistory_core::Result<()> + Send + 'static) {
        let stop = self.stop.clone();
        self.maintaining.start(("dochistory-maintenance", MAINTAINING_NICER), what, move || {
            let done = job(&mut |_, _| {
                let is_over = stop.load(Ordering::Relaxed);
                if is_over { Err(Error::State("the history is being closed".into())) } else { Ok(()) }
            });
            if stop.load(Ordering::Relaxed) { Ok(()) } else { done }
        });
    }

    /// How the last maintenance failed, if it did.
    fn collect(&self) -> Option<Failed> {
        let failed = [&self.sealing, &*self.renewing, &self.maintaining, &self.releasing].map(Job::collect);
        failed.into_iter().flatten().next()
    }

    /// Let the threads end, or stop them. Putting a log into segments is short, and ends.
    pub(crate) fn close(&self) {
        self.maintaining.wait(CLOSING_WAIT);
        self.stop.store(true, Ordering::Relaxed);
        self.releasing.wake();
        self.sealing.join();
        self.renewing.join();
        self.maintaining.join();
        self.releasing.join();
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.releasing.wake();
    }
}
