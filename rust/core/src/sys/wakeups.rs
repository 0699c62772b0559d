//! Waking threads one after the other. Threads that are woken together then wait for each other:
//! for the interpreter's lock, and for cores. So each one wakes the next, and a caller that has to
//! take a lock of its own before it goes on may put that off until it has it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;

/// Threads that wait for nothing but being woken. Each finds out by itself, later, if it is not.
#[derive(Debug)]
pub(crate) struct Sleepers(Mutex<VecDeque<Thread>>);

impl Sleepers {
    pub(crate) fn new(threads: impl Iterator<Item = Thread>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(threads.collect())))
    }

    /// Wake the next one.
    pub(crate) fn wake_next(&self) {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(thread) = next {
            thread.unpark();
        }
    }
}

thread_local! {
    static IS_PUT_OFF: Cell<bool> = const { Cell::new(false) };
    static PUT_OFF: RefCell<Vec<Arc<Sleepers>>> = const { RefCell::new(Vec::new()) };
}

/// Of a thread that was woken: wake the next one, now or when [`PutOff`] ends.
pub(crate) fn pass_on(sleepers: Arc<Sleepers>) {
    if IS_PUT_OFF.get() {
        PUT_OFF.with_borrow_mut(|put_off| put_off.push(sleepers));
    } else {
        sleepers.wake_next();
    }
}

/// Wake now what was put off: this thread is about to wait for something else.
pub fn before_waiting() {
    PUT_OFF.take().iter().for_each(|sleepers| sleepers.wake_next());
}

/// While it lasts, this thread wakes no next one. That comes when it is dropped: once the caller
/// holds what those that it wakes will wait for.
#[derive(Debug)]
pub struct PutOff {
    was_put_off: bool,
}

impl PutOff {
    /// Begin.
    #[must_use]
    pub fn begin() -> Self {
        Self { was_put_off: IS_PUT_OFF.replace(true) }
    }
}

impl Drop for PutOff {
    fn drop(&mut self) {
        IS_PUT_OFF.set(self.was_put_off);
        if !self.was_put_off {
            before_waiting();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn each_sleeper_wakes_the_next_one_after_what_was_put_off() {
        const THREADS: usize = 4;
        let (woken, all) = (AtomicUsize::new(0), OnceLock::<Arc<Sleepers>>::new());
        std::thread::scope(|scope| {
            let sleep = || {
                std::thread::park();
                let put_off = PutOff::begin();
                let nested = PutOff::begin();
                pass_on(all.wait().clone());
                drop(nested);
                // Nobody else is awake before this one lets the next one go.
                let before = woken.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(5));
                assert_eq!(woken.load(Ordering::SeqCst), before + 1);
                drop(put_off);
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(sleep)).collect();
            all.get_or_init(|| Sleepers::new(threads.iter().map(|thread| thread.thread().clone()))).wake_next();
        });
        assert_eq!(woken.into_inner(), THREADS);
    }
}
