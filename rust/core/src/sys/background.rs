//! Threads of the background make way for those of callers. Where both want one core, Linux lets
//! the one that runs go on until its next tick, up to 4 ms, whatever their priorities.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long such a thread runs before it makes way.
const TURN: Duration = Duration::from_micros(250);

thread_local! {
    /// When a thread of the background made way last; none in threads that callers wait for.
    static MADE_WAY: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Where callers say that they wait for what this thread does.
    static AWAITED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Say that nobody waits for this thread: from now on it makes way for others four times a
/// millisecond.
pub fn enter() {
    MADE_WAY.set(Some(Instant::now()));
}

/// Whether this thread has said so.
pub(crate) fn is_entered() -> bool {
    MADE_WAY.get().is_some()
}

struct Restored(Option<Arc<AtomicBool>>);

impl Drop for Restored {
    fn drop(&mut self) {
        AWAITED.set(self.0.take());
    }
}

/// Do `work`. While callers wait for it, they set `awaited` repeatedly, and this thread makes
/// no way: others of the background would get the core as well.
pub(crate) fn awaited<T>(awaited: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    let _restored = Restored(AWAITED.replace(Some(awaited.clone())));
    work()
}

/// Whether callers have waited for this thread since this was asked last.
fn is_awaited() -> bool {
    AWAITED.with_borrow(|awaited| awaited.as_ref().is_some_and(|awaited| awaited.swap(false, Ordering::Relaxed)))
}

/// Let another thread have this core, if this one is of the background and has had its turn. Long
/// loops call it every few thousand steps.
#[inline]
pub(crate) fn make_way() {
    if MADE_WAY.get().is_some_and(|last| last.elapsed() >= TURN) {
        if !is_awaited() {
            std::thread::yield_now();
        }
        MADE_WAY.set(Some(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_background_make_way_after_their_turn() {
        let turn_after = |is_in_background: bool, wait: Duration| {
            std::thread::spawn(move || {
                if is_in_background {
                    enter();
                }
                let before = MADE_WAY.get();
                std::thread::sleep(wait);
                make_way();
                MADE_WAY.get() != before
            })
            .join()
            .unwrap()
        };
        assert!(turn_after(true, TURN));
        assert!(!turn_after(false, TURN));
    }

    #[test]
    fn thread_is_awaited_while_callers_say_so_and_the_work_lasts() {
        let flag = Arc::new(AtomicBool::new(true));
        assert!(!is_awaited());
        awaited(&flag, || {
            assert!(is_awaited());
            assert!(!is_awaited());
            flag.store(true, Ordering::Relaxed);
            assert!(is_awaited());
            flag.store(true, Ordering::Relaxed);
        });
        assert!(!is_awaited() && flag.load(Ordering::Relaxed));
    }
}
