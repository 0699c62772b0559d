//! Group commit: threads of a process that write at the same time. One of them takes the writer
//! lock, does the jobs of all that wait, and makes the log durable once for them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use super::Writer;
use super::wake_throttle::{WakeThrottle, woken_in};
use crate::Result;
use crate::sys::interrupt::{self, SLICE};

/// What a thread wants done by the holder of the lock.
pub(super) type Job<'j> = dyn FnMut(&mut Writer<'_>) + Send + 'j;

/// The threads that write, and who leads them.
#[derive(Debug, Default)]
pub(super) struct GroupCommit(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_led: bool,
    posted: VecDeque<Posted>,
    throttle: WakeThrottle<Arc<Owner>>,
}

/// The job of a thread that waits.
#[derive(Debug)]
struct Posted {
    job: *mut Job<'static>,
    owner: Arc<Owner>,
}

// SAFETY: the job is `Send`, and its owner does not touch it while it is posted or done.
#[expect(unsafe_code, reason = "a thread's job is done by another one")]
unsafe impl Send for Posted {}

#[derive(Debug)]
struct Owner {
    phase: AtomicU8,
    /// The round in which it is woken.
    round: AtomicU64,
    thread: Thread,
}

const POSTED: u8 = 0;
const LEADS: u8 = 1;
const DONE: u8 = 2;

impl Owner {
    fn of_this_thread() -> Self {
        Self { phase: AtomicU8::new(POSTED), round: AtomicU64::new(0), thread: std::thread::current() }
    }

    fn lead(&self) {
        self.phase.store(LEADS, Ordering::Release);
        self.thread.unpark();
    }

    fn wake(&self, round: u64) {
        self.round.store(round, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// The jobs of the others, for the thread that leads. When it is dropped, the next thread leads.
pub(super) struct Others<'t> {
    group: &'t GroupCommit,
    done: Vec<Arc<Owner>>,
}

impl GroupCommit {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Have `job` done, by another thread or by this one: then `lead` does it, and those of
    /// [`Others`]. A job that panics, or whose leader failed, is not done.
    pub(super) fn run(
        &self,
        job: &mut Job<'_>,
        lead: impl FnOnce(&mut Job<'_>, &mut Others<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.must_lead(job)? { lead(job, &mut Others { group: self, done: Vec::new() }) } else { Ok(()) }
    }

    /// Wait until the job is done, or this thread is to lead.
    fn must_lead(&self, job: &mut Job<'_>) -> Result<bool> {
        let owner = Arc::new(Owner::of_this_thread());
        if self.post(job, &owner) {
            return Ok(true);
        }
        loop {
            match owner.phase.load(Ordering::Acquire) {
                DONE => {
                    woken_in(owner.round.load(Ordering::Relaxed));
                    return Ok(false);
                }
                LEADS => return Ok(true),
                _ => std::thread::park_timeout(SLICE),
            }
            if owner.phase.load(Ordering::Acquire) == POSTED && self.withdraw(&owner) {
                interrupt::check()?;
                if self.post(job, &owner) {
                    return Ok(true);
                }
            }
        }
    }

    /// Post a job where somebody leads; else answers that this thread does.
    fn post(&self, job: &mut Job<'_>, owner: &Arc<Owner>) -> bool {
        let mut state = self.lock();
        let woken = state.throttle.arrived();
        let leads = !std::mem::replace(&mut state.is_led, true);
        if !leads {
            let job = std::ptr::from_mut(job);
            // SAFETY: only the lifetime changes. The owner waits in `must_lead` until the job was
            // withdrawn or done, or until this thread leads and does the job itself.
            #[expect(unsafe_code, clippy::transmute_ptr_to_ptr, reason = "a cast cannot make a lifetime longer")]
            let job = unsafe { std::mem::transmute::<*mut Job<'_>, *mut Job<'static>>(job) };
            state.posted.push_back(Posted { job, owner: owner.clone() });
        }
        // Release the mutex before waking, or the woken thread would block on it.
        drop(state);
        if let Some((owner, round)) = woken {
            owner.wake(round);
        }
        leads
    }

    /// How many jobs wait.
    #[cfg(test)]
    pub(super) fn posted(&self) -> usize {
        self.lock().posted.len()
    }

    /// Take a job back that nobody has begun.
    fn withdraw(&self, owner: &Arc<Owner>) -> bool {
        let mut state = self.lock();
        let place = state.posted.iter().position(|posted| Arc::ptr_eq(&posted.owner, owner));
        place.and_then(|place| state.posted.remove(place)).is_some()
    }
}

impl Others<'_> {
    /// Whether there is a next job.
    pub(super) fn are_waiting(&self) -> bool {
        !self.group.lock().posted.is_empty()
    }

    /// Do the next job. Answers false if there is none, or if this one panicked: the leader may no
    /// longer trust what it holds, and the next one prepares that again. The job's owner learns of
    /// it when the leader has finished.
    pub(super) fn do_next(&mut self, writer: &mut Writer<'_>) -> bool {
        let Some(posted) = self.group.lock().posted.pop_front() else { return false };
        self.done.push(posted.owner);
        // SAFETY: the owner waits until it is told that the job is done, and nobody else has it
        // now.
        #[expect(unsafe_code, reason = "the owner outlives its stay in the list")]
        let job = unsafe { &mut *posted.job };
        // The owner finds out that its job has no result.
        catch_unwind(AssertUnwindSafe(|| job(writer))).is_ok()
    }
}

impl Drop for Others<'_> {
    fn drop(&mut self) {
        let mut state = self.group.lock();
        let next = state.posted.pop_front();
        state.is_led = next.is_some();
        self.done.iter().for_each(|owner| owner.phase.store(DONE, Ordering::Release));
        let (woken, round) = state.throttle.served(&mut self.done, next.is_some());
        drop(state);
        if let Some(next) = next {
            next.owner.lead();
        }
        for owner in woken {
            owner.wake(round);
        }
    }
}
