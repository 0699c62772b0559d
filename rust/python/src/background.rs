//! Maintenance in the background: a thread of its own, at most one for each handle, which `begin`
//! starts when maintenance is due. Closing the history stops it, which does no harm: finished steps
//! stay, and the rest comes next time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dochistory_core::history::History;
use dochistory_core::history::values::ValueMap;
use dochistory_core::{Error, Maintained, Progress};

/// Maximum time that `begin` waits when maintenance is overdue, so that it can catch up.
const OVERDUE_WAIT: Duration = Duration::from_millis(150);
/// Maximum time that closing waits for it.
const CLOSING_WAIT: Duration = Duration::from_millis(150);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// A trigger's name, and why its maintenance failed.
pub(crate) type Failed = (String, String);

#[derive(Default)]
pub(crate) struct Maintenance {
    running: Mutex<Option<JoinHandle<Option<Failed>>>>,
    stop: Arc<AtomicBool>,
}

impl Maintenance {
    fn lock(&self) -> MutexGuard<'_, Option<JoinHandle<Option<Failed>>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Start maintenance of a trigger if it is due; wait a little only when it is overdue. Answers
    /// how the previous maintenance failed, if it did.
    pub(crate) fn start_for(&self, history: &Arc<History>, name: &str) -> Option<Failed> {
        let failed = self.collect();
        if history.is_maintenance_due(name) {
            self.start(history, name);
            if history.is_maintenance_overdue(name) {
                self.wait(OVERDUE_WAIT);
            }
        }
        failed
    }

    /// [`Maintenance::start_for`] for a space of values.
    pub(crate) fn start_for_values(&self, values: &ValueMap, name: &str) -> Option<Failed> {
        let failed = self.collect();
        if values.is_maintenance_due() {
            let values = values.clone();
            self.run(name, move |hear| values.maintain(false, hear));
        }
        failed
    }

    fn start(&self, history: &Arc<History>, name: &str) {
        let (history, of) = (history.clone(), name.to_owned());
        self.run(name, move |hear| history.maintain(&of, false, hear));
    }

    fn run(&self, name: &str, job: impl FnOnce(Progress<'_>) -> dochistory_core::Result<Maintained> + Send + 'static) {
        let mut running = self.lock();
        if running.is_some() {
            return;
        }
        let (name, stop) = (name.to_owned(), self.stop.clone());
        let work = move || {
            let done = job(&mut |_, _| {
                let is_over = stop.load(Ordering::Relaxed);
                if is_over { Err(Error::State("the history is being closed".into())) } else { Ok(()) }
            });
            let error = done.err().filter(|_| !stop.load(Ordering::Relaxed))?;
            Some((name, error.to_string()))
        };
        // If no thread can be started, maintenance comes later.
        *running = std::thread::Builder::new().name("dochistory-maintenance".into()).spawn(work).ok();
    }

    /// The result of the last maintenance, if it is over.
    fn collect(&self) -> Option<Failed> {
        let mut running = self.lock();
        running.take_if(|thread| thread.is_finished())?.join().ok().flatten()
    }

    fn wait(&self, limit: Duration) {
        let start = Instant::now();
        while self.lock().as_ref().is_some_and(|thread| !thread.is_finished()) && start.elapsed() < limit {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Let the thread end, or stop it.
    pub(crate) fn close(&self) {
        self.wait(CLOSING_WAIT);
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.lock().take() {
            drop(thread.join());
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
