//! A throttle on waking threads that were served together.
//!
//! All of them would want the lock of Python at once, and who meets another one there is put to
//! sleep and woken once more. Only [`MAX_AWAKE`] are awake at a time: one that arrives with its
//! next job wakes the next. A thread may have other things to do first, or never come back.
//! Therefore the thread that leads wakes all of them if those before were too slow.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of threads that are awake: one inside Python, while the next one wakes.
pub(super) const MAX_AWAKE: usize = 2;
/// Maximum number of groups that are served while a thread waits to be woken, at the pace of the
/// last.
pub(super) const MOST_GROUPS: usize = 16;
/// Number of groups after which those that have not come back no longer count.
const GROUPS_PER_ROUND: u32 = 64;

/// A round's number is given once, so that no thread counts where it was not woken.
static ROUNDS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The round in which this thread was woken; 0 if it is not counted.
    static WOKEN_IN: Cell<u64> = const { Cell::new(0) };
}

/// This thread was woken in `round`.
pub(super) fn woken_in(round: u64) {
    WOKEN_IN.set(round);
}

/// The threads that wait to be woken, and the count of those that are awake.
#[derive(Debug)]
pub(super) struct WakeThrottle<T> {
    waiting: VecDeque<T>,
    awake: usize,
    /// Threads that came back since the last group was served, and had another one woken.
    came: usize,
    groups: u32,
    round: u64,
}

impl<T> Default for WakeThrottle<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), awake: 0, came: 0, groups: GROUPS_PER_ROUND, round: 0 }
    }
}

impl<T> WakeThrottle<T> {
    /// This thread arrives with its next job. Answers which one to wake now, and in which round.
    pub(super) fn arrived(&mut self) -> Option<(T, u64)> {
        let round = WOKEN_IN.replace(0);
        if round != 0 && round == self.round {
            self.awake = self.awake.saturating_sub(1);
        }
        if self.awake >= MAX_AWAKE {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.awake += 1;
        self.came += 1;
        Some((next, self.round))
    }

    /// This thread has served `group`. Answers which ones to wake now, and in which round: all if
    /// nobody `is_serving` next, who would see to those that wait.
    pub(super) fn served(&mut self, group: &mut Vec<T>, is_serving: bool) -> (Vec<T>, u64) {
        let came = std::mem::take(&mut self.came);
        let are_slow = self.waiting.len() > MOST_GROUPS * came;
        self.waiting.extend(group.drain(..));
        self.groups += 1;
        let wakes_all = !is_serving || are_slow;
        if wakes_all || self.groups > GROUPS_PER_ROUND {
            self.round = 1 + ROUNDS.fetch_add(1, Ordering::Relaxed);
            (self.awake, self.groups) = (0, 0);
        }
        // This thread is awake, too.
        woken_in(self.round);
        self.awake += 1;
        let room = if wakes_all { usize::MAX } else { MAX_AWAKE.saturating_sub(self.awake) };
        let woken: Vec<T> = self.waiting.drain(..room.min(self.waiting.len())).collect();
        self.awake += woken.len();
        (woken, self.round)
    }
}
