//! Calls in progress: work outside Python that an interrupt from the keyboard can end, and threads
//! that Python leaves behind when it ends.
//!
//! When the interpreter is finalised, it ends every daemon thread that tries to enter Python again,
//! by unwinding its stack; through Rust that is an abort. So each thread that is about to be inside
//! Python with Rust below is counted, and the hook at exit (`atexit`) waits until the count is
//! zero. Threads that come later are parked, outside Python, as long as the process lasts.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use dochistory_core::interrupt;
use pyo3::prelude::*;

/// Python is running.
const OPEN: u8 = 0;
/// Python is about to end: threads inside may finish, no other thread comes in.
const CLOSING: u8 = 1;
/// Python ends: no thread comes in.
const CLOSED: u8 = 2;

/// Maximum time that the end of the process waits for calls in progress.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Maximum time that it waits for work outside Python, which would be parked when it is done.
const LONGEST_WORK: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

static PHASE: AtomicU8 = AtomicU8::new(OPEN);
/// Threads that are inside Python with Rust below, or are about to be.
static INSIDE: AtomicI64 = AtomicI64::new(0);
/// Threads that are working outside Python.
static OUTSIDE: AtomicI64 = AtomicI64::new(0);
/// The process of these counts: a forked one has none of the threads.
static PROCESS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread runs the hook at exit. It is never parked.
    static ENDS: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread is counted among those inside.
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
    /// Depth of calls of Python by Rust on this thread: the hook at exit waits for them, so the
    /// thread must not be parked.
    static CALLBACKS: Cell<u32> = const { Cell::new(0) };
    /// Whether this thread works outside Python, so that others may enter it meanwhile.
    static IS_OUTSIDE: Cell<bool> = const { Cell::new(false) };
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// A call in progress, until it is dropped. Only the outermost counts.
pub(crate) struct InCall {
    counts: bool,
}

impl InCall {
    /// Must come first in a method whose Rust calls Python.
    pub(crate) fn enter(py: Python<'_>) -> Self {
        let process = std::process::id();
        if PROCESS.swap(process, Ordering::SeqCst) != process {
            INSIDE.store(0, Ordering::SeqCst);
            OUTSIDE.store(0, Ordering::SeqCst);
        }
        let counts = !IS_COUNTED.get();
        if counts && !come_in() {
            py.detach(park);
        }
        IS_COUNTED.set(true);
        Self { counts }
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        if self.counts {
            IS_COUNTED.set(false);
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Count this thread as one inside Python; answers whether it may enter. Must be called before
/// Python is entered, so that the hook at exit sees either the count or no thread.
fn come_in() -> bool {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let may = match PHASE.load(Ordering::SeqCst) {
        OPEN => true,
        CLOSING => ENDS.get() || CALLBACKS.get() > 0,
        _ => ENDS.get(),
    };
    if !may {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
    may
}

/// Stay outside Python until the process ends.
fn park() {
    loop {
        std::thread::park();
    }
}

fn come_in_or_park() {
    if !come_in() {
        park();
    }
}

/// Do `work` without holding Python. Its waits end when an interrupt from the keyboard raises an
/// exception.
pub(crate) fn outside<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let was_counted = IS_COUNTED.replace(false);
    let done = py.detach(|| {
        OUTSIDE.fetch_add(1, Ordering::SeqCst);
        if was_counted {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
        let was_outside = IS_OUTSIDE.replace(true);
        let done = interrupt::listening(heard, work);
        IS_OUTSIDE.set(was_outside);
        OUTSIDE.fetch_sub(1, Ordering::SeqCst);
        come_in_or_park();
        done
    });
    if was_counted {
        IS_COUNTED.set(true);
    } else {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
    done
}

/// Whether this thread is known to be outside Python: threads that it starts and waits for may
/// enter.
pub(crate) fn is_outside() -> bool {
    IS_OUTSIDE.get()
}

struct Inside {
    was_outside: bool,
}

impl Drop for Inside {
    fn drop(&mut self) {
        IS_OUTSIDE.set(self.was_outside);
        CALLBACKS.set(CALLBACKS.get() - 1);
        IS_COUNTED.set(false);
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Call Python from work outside it.
pub(crate) fn inside<T>(work: impl for<'py> FnOnce(Python<'py>) -> T) -> T {
    come_in_or_park();
    CALLBACKS.set(CALLBACKS.get() + 1);
    IS_COUNTED.set(true);
    let _inside = Inside { was_outside: IS_OUTSIDE.replace(false) };
    Python::attach(work)
}

/// Whether a signal's handler raised an exception, which is kept for the end of the call.
fn heard() -> bool {
    inside(|py| match py.check_signals() {
        Ok(()) => false,
        Err(error) => {
            keep(error);
            true
        }
    })
}

/// Keep an exception for the end of this thread's call.
pub(crate) fn keep(error: PyErr) {
    RAISED.set(Some(error));
}

/// The exception that ended this thread's last call.
pub(crate) fn raised() -> Option<PyErr> {
    RAISED.take()
}

/// Before the interpreter ends: let the calls under way come out of Python, and nobody in again.
#[pyfunction]
pub(crate) fn _close(py: Python<'_>) {
    ENDS.set(true);
    PHASE.store(CLOSING, Ordering::SeqCst);
    if PROCESS.load(Ordering::SeqCst) == std::process::id() {
        let own = i64::from(IS_COUNTED.get());
        py.detach(|| {
            let start = Instant::now();
            let is_waiting = || {
                let waited = start.elapsed();
                INSIDE.load(Ordering::SeqCst) > own && waited < LONGEST_WAIT
                    || OUTSIDE.load(Ordering::SeqCst) > 0 && waited < LONGEST_WORK
            };
            while is_waiting() {
                std::thread::sleep(BETWEEN_LOOKS);
            }
        });
    }
    PHASE.store(CLOSED, Ordering::SeqCst);
}
