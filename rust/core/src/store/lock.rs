//! A lock between processes. It dies with its holder, and is handed over in the order of requests.

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::waiter::Waiter;
use crate::io::{FileSystem, NamedFile};
use crate::sys::interrupt::{self, SLICE};
use crate::{Error, Result};

/// Spin time before blocking; operations are short, so the lock is usually free within it.
const TRIED: Duration = Duration::from_micros(100);

/// Minimum time that a thread blocks without other work.
const AT_A_TIME: Duration = Duration::from_micros(500);

/// A file whose lock excludes other processes, and a queue for the threads of this one.
#[derive(Debug)]
pub(super) struct Lock {
    file: NamedFile,
    queue: Queue,
    /// Waits in the system's queue; created for the first wait.
    waiter: OnceLock<Option<Waiter>>,
}

/// The threads of this process that want the lock; one at a time may try.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    is_taken: bool,
    waiting: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until no other thread has it.
    fn take(&self) -> Result<QueuePlace<'_>> {
        let mut state = self.lock();
        while state.is_taken {
            state.waiting += 1;
            (state, _) = self.changed.wait_timeout(state, SLICE).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            if state.is_taken {
                drop(state);
                interrupt::check()?;
                state = self.lock();
            }
        }
        state.is_taken = true;
        Ok(QueuePlace(self))
    }
}

/// The first place of the queue, until it is dropped.
#[derive(Debug)]
struct QueuePlace<'a>(&'a Queue);

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_taken = false;
        let is_wanted = state.waiting > 0;
        drop(state);
        if is_wanted {
            self.0.changed.notify_one();
        }
    }
}

/// The lock, until it is dropped.
#[derive(Debug)]
pub(crate) struct Guard<'a> {
    lock: &'a Lock,
    _place: QueuePlace<'a>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.lock.release();
    }
}

impl Lock {
    pub(super) fn open(system: &dyn FileSystem, path: &Path) -> Result<Self> {
        let opened = match system.open_at(path, true) {
            Err(error) if error.is_missing() => match system.create_at(path) {
                Err(error) if error.is_there() => system.open_at(path, true),
                made => made,
            },
            opened => opened,
        };
        Ok(Self { file: opened?, queue: Queue::default(), waiter: OnceLock::new() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    pub(super) fn file(&self) -> &NamedFile {
        &self.file
    }

    /// Take the lock, waiting for `limit` at most; none if another process held it all that time.
    /// Calls `meanwhile` repeatedly while it waits.
    pub(super) fn take(&self, limit: Duration, meanwhile: impl FnMut()) -> Result<Option<Guard<'_>>> {
        let place = self.queue.take()?;
        let is_taken = self.acquire(limit, meanwhile)?;
        Ok(is_taken.then_some(Guard { lock: self, _place: place }))
    }

    /// [`Lock::take`] for a caller that releases the lock by [`Lock::release`], and lets no other
    /// thread use it meanwhile.
    pub(super) fn acquire(&self, limit: Duration, meanwhile: impl FnMut()) -> Result<bool> {
        Ok(self.try_lock()? || self.wait(limit, meanwhile)?)
    }

    /// Release the lock.
    pub(super) fn release(&self) {
        // If this fails, the lock stays until the file is closed: others wait, and their error
        // names the holder.
        drop(self.file.file.unlock());
    }

    fn try_lock(&self) -> Result<bool> {
        // A waiter that was given up may still get the lock for this process, and would then
        // release it.
        if self.waiter.get().and_then(Option::as_ref).is_some_and(Waiter::is_waiting) {
            return Ok(false);
        }
        self.file.file.try_lock().map_err(Error::io("lock", &self.file.path))
    }

    fn wait(&self, limit: Duration, mut meanwhile: impl FnMut()) -> Result<bool> {
        let start = Instant::now();
        while start.elapsed() < TRIED.min(limit) {
            std::thread::yield_now();
            if self.try_lock()? {
                return Ok(true);
            }
        }
        let waiter = self.waiter.get_or_init(|| Waiter::start(self.file.file.clone())).as_ref();
        loop {
            let left = limit.saturating_sub(start.elapsed());
            let is_taken = match waiter {
                Some(waiter) => waiter.wait(left.min(AT_A_TIME)).map_err(Error::io("lock", &self.file.path))?,
                // No waiting thread can be started.
                None => self.try_lock()?,
            };
            if is_taken {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(waiter.is_some_and(Waiter::give_up));
            }
            if let Err(interrupted) = interrupt::check() {
                // The lock was taken at the last moment: it is released, as if it had never been
                // taken.
                if waiter.is_some_and(Waiter::give_up) {
                    self.release();
                }
                return Err(interrupted);
            }
            if waiter.is_none() {
                std::thread::sleep(TRIED);
            }
            meanwhile();
        }
    }
}
