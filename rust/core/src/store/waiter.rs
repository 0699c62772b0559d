//! Waiting for a file's lock with a time limit. A thread waits in the system's queue, so that the
//! lock is handed over in order and at once, without polling. The system knows no limit: a caller
//! that gives up leaves the thread waiting, and the thread releases the lock when it gets it.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::io::File;

#[derive(Debug)]
enum State {
    /// Nobody wants the lock.
    Idle,
    /// A caller waits for the lock, and so does the thread.
    Wanted,
    /// The caller gave up; the thread still waits.
    Unwanted,
    /// The lock was taken for the caller.
    Held,
    Failed(io::Error),
    /// The thread is to end.
    Closed,
}

#[derive(Debug)]
struct Shared {
    file: Arc<dyn File>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The thread, while there is a lock to wait for; one user at a time.
#[derive(Debug)]
pub(super) struct Waiter(Arc<Shared>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            match *state {
                State::Closed => return,
                State::Wanted | State::Unwanted => {}
                State::Idle | State::Held | State::Failed(_) => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
            }
            drop(state);
            let locked = self.file.lock();
            state = self.lock();
            match (&*state, locked) {
                (State::Wanted, Ok(())) => *state = State::Held,
                (State::Wanted, Err(error)) => *state = State::Failed(error),
                // No caller is left to report an error to.
                (_, locked) => {
                    drop(locked.and_then(|()| self.file.unlock()));
                    if matches!(*state, State::Unwanted) {
                        *state = State::Idle;
                    }
                }
            }
            self.changed.notify_all();
        }
    }
}

impl Waiter {
    /// None if no thread can be started.
    pub(super) fn start(file: Arc<dyn File>) -> Option<Self> {
        let shared = Arc::new(Shared { file, state: Mutex::new(State::Idle), changed: Condvar::new() });
        let thread = shared.clone();
        let started = std::thread::Builder::new().name("dochistory-lock".into()).spawn(move || thread.run());
        started.ok().map(|_| Self(shared))
    }

    /// Whether the thread waits, with or without a caller.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(*self.0.lock(), State::Wanted | State::Unwanted)
    }

    /// Wait for the lock, for `limit` at most; answers whether it was taken. If not, the thread
    /// keeps waiting until the caller gives up.
    pub(super) fn wait(&self, limit: Duration) -> io::Result<bool> {
        let mut state = self.0.lock();
        if !matches!(*state, State::Held | State::Failed(_)) {
            *state = State::Wanted;
            self.0.changed.notify_all();
        }
        let is_wanted = |state: &mut State| matches!(state, State::Wanted);
        (state, _) = self.0.changed.wait_timeout_while(state, limit, is_wanted).unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Wanted => Ok(false),
            _ => match std::mem::replace(&mut *state, State::Idle) {
                State::Failed(error) => Err(error),
                _ => Ok(true),
            },
        }
    }

    /// Stop waiting; answers whether the lock was taken at the last moment.
    pub(super) fn give_up(&self) -> bool {
        let mut state = self.0.lock();
        let last = std::mem::replace(&mut *state, State::Idle);
        if matches!(last, State::Wanted) {
            *state = State::Unwanted;
        }
        matches!(last, State::Held)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        *self.0.lock() = State::Closed;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Disk, FileSystem};

    #[test]
    fn whoever_gives_up_does_not_keep_the_lock_that_comes_later() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let holder = Disk.create(&path).unwrap();
        assert!(holder.try_lock().unwrap());
        let waiter = Waiter::start(Disk.open(&path, true).unwrap()).unwrap();
        assert!(!waiter.wait(Duration::from_millis(5)).unwrap() && !waiter.give_up());
        assert!(waiter.is_waiting());
        holder.unlock().unwrap();
        while waiter.is_waiting() {
            std::thread::yield_now();
        }
        // The thread got the lock and released it: it is free for others, and for this process
        // again.
        assert!(holder.try_lock().unwrap());
        holder.unlock().unwrap();
        assert!(waiter.wait(Duration::from_secs(60)).unwrap());
        assert!(!holder.try_lock().unwrap());
    }

    #[test]
    fn a_lock_is_handed_to_whoever_waits_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let (holder, other) = (Disk.create(&path).unwrap(), Disk.open(&path, true).unwrap());
        assert!(holder.try_lock().unwrap());
        let waiter = Waiter::start(other.clone()).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| waiter.wait(Duration::from_secs(60)).unwrap());
            while !waiter.is_waiting() {
                std::thread::yield_now();
            }
            holder.unlock().unwrap();
            assert!(waiting.join().unwrap());
        });
        assert!(!holder.try_lock().unwrap());
        other.unlock().unwrap();
        assert!(holder.try_lock().unwrap());
    }

    #[test]
    fn a_lock_that_comes_between_two_waits_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let (holder, other) = (Disk.create(&path).unwrap(), Disk.open(&path, true).unwrap());
        let waiter = Waiter::start(other.clone()).unwrap();
        for take in [|waiter: &Waiter| waiter.wait(Duration::ZERO).unwrap(), Waiter::give_up] {
            assert!(holder.try_lock().unwrap());
            assert!(!waiter.wait(Duration::from_millis(1)).unwrap());
            holder.unlock().unwrap();
            while waiter.is_waiting() {
                std::thread::yield_now();
            }
            assert!(take(&waiter) && !holder.try_lock().unwrap());
            other.unlock().unwrap();
        }
    }
}
