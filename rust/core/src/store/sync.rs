//! One sync of the log serves several threads of a process.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sys::interrupt::{self, SLICE};
use crate::wal::Log;
use crate::{Error, Result};

/// A thread that sleeps until a frame is written, and again until the disk has flushed it, is woken
/// twice. Therefore it stays awake while the disk writes: for a part of what the last sync took,
/// and for this time at most.
const AWAKE: Duration = Duration::from_micros(25);
const PART_AWAKE: u32 = 3;

/// How far the live log is durable, and who is syncing it.
#[derive(Debug, Default)]
pub(crate) struct GroupSync {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    log: u64,
    durable: u64,
    /// Highest end that a thread waits for.
    wanted: u64,
    at_work: bool,
    /// When the disk began to write what the next sync makes durable, and how long the last took.
    started: Option<Instant>,
    took: Duration,
    waiting: usize,
    /// Why no further write is possible.
    failed: Option<String>,
}

impl State {
    /// Until when to wait awake for what the disk has begun to write.
    fn awake_until(&mut self) -> Option<Instant> {
        let started = self.started.take()?;
        Some(started + AWAKE.min(self.took / PART_AWAKE))
    }
}

impl GroupSync {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Log `log` is durable up to `durable`; all earlier logs are retired.
    pub(crate) fn learn(&self, log: u64, durable: u64) {
        let mut state = self.lock();
        if log > state.log {
            (state.log, state.durable, state.wanted) = (log, 0, 0);
            self.changed.notify_all();
        }
        if log == state.log {
            state.durable = state.durable.max(durable);
        }
    }

    pub(crate) fn durable(&self, log: u64) -> u64 {
        let state = self.lock();
        if state.log > log { u64::MAX } else { state.durable }
    }

    /// The disk begins to write a frame now.
    pub(crate) fn started(&self) {
        self.lock().started = Some(Instant::now());
    }

    /// After a failed write or sync nothing more is written.
    pub(crate) fn fail(&self, error: &Error) {
        self.lock().failed.get_or_insert_with(|| error.to_string());
        self.changed.notify_all();
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.lock().failed.as_ref().map_or(Ok(()), |reason| Err(Error::Failed(reason.clone())))
    }

    /// Return once the log is durable up to `end`. One of the waiting threads calls `sync` for all:
    /// it makes the log durable at least as far as requested, and answers how far. It is also told
    /// whether it had to wait before.
    pub(crate) fn reach(&self, log: &Log, end: u64, sync: impl FnOnce(u64, bool) -> Result<u64>) -> Result<()> {
        let mut state = self.lock();
        let mut has_waited = false;
        if log.id > state.log {
            (state.log, state.durable, state.wanted) = (log.id, 0, 0);
        }
        if log.id == state.log {
            state.wanted = state.wanted.max(end);
        }
        loop {
            if state.log > log.id || (state.log == log.id && state.durable >= end) {
                return Ok(());
            }
            if let Some(reason) = &state.failed {
                return Err(Error::Failed(reason.clone()));
            }
            if !state.at_work {
                break;
            }
            has_waited = true;
            state.waiting += 1;
            (state, _) = self.changed.wait_timeout(state, SLICE).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
            if state.at_work {
                drop(state);
                interrupt::check()?;
                state = self.lock();
            }
        }
        state.at_work = true;
        // Not for a later log: then this one is retired, and the loop above has returned.
        let target = state.wanted;
        let awake_until = state.awake_until();
        drop(state);
        while awake_until.is_some_and(|end| Instant::now() < end) {
            std::hint::spin_loop();
        }
        let before = Instant::now();
        let synced = sync(target, has_waited);
        let mut state = self.lock();
        (state.at_work, state.took) = (false, before.elapsed());
        if state.waiting > 0 {
            self.changed.notify_all();
        }
        match synced {
            Ok(durable) if state.log == log.id => state.durable = state.durable.max(durable),
            Ok(_) => {}
            Err(error) => {
                state.failed.get_or_insert_with(|| error.to_string());
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_awake_for_a_part_of_the_last_sync_and_once() {
        let waits = |took| {
            let sync = GroupSync::default();
            sync.lock().took = took;
            assert_eq!(sync.lock().awake_until(), None);
            sync.started();
            let mut state = sync.lock();
            let (started, until) = (state.started.unwrap(), state.awake_until().unwrap());
            assert_eq!(state.awake_until(), None);
            until - started
        };
        assert_eq!(waits(Duration::ZERO), Duration::ZERO);
        assert_eq!(waits(Duration::from_micros(30)), Duration::from_micros(10));
        assert_eq!(waits(Duration::from_secs(9)), AWAKE);
    }
}
