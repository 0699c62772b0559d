//! Threads that were served together, on their way back.
//!
//! All of them would want the lock of Python at once, and who meets another one there is put to
//! sleep and woken once more. Only two are on their way at a time: one that comes with its next job
//! lets the next one go. A thread may have other things to do first, or never come back. Therefore
//! the thread that leads lets all of them go if those before went too slowly.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of threads that are on their way: one inside Python, while the next one wakes.
pub(super) const AT_ONCE: usize = 2;
/// Maximum number of groups that are served while a thread waits to go, at the pace of the last.
pub(super) const MOST_GROUPS: usize = 16;
/// Number of groups after which those that have not come back no longer count.
const GROUPS_A_TURN: u32 = 64;

/// A turn's number is given once, so that no thread counts where it was not let go.
static TURNS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The turn in which this thread was let go; 0 if it is not counted.
    static LET_GO_IN: Cell<u64> = const { Cell::new(0) };
}

/// This thread is let go in `turn`.
pub(super) fn leave_in(turn: u64) {
    LET_GO_IN.set(turn);
}

/// Those who wait to go, and the count of those who are on their way.
#[derive(Debug)]
pub(super) struct Returns<T> {
    waiting: VecDeque<T>,
    on_their_way: usize,
    /// Threads that came back since the last group was served, and let another one go.
    came: usize,
    groups: u32,
    turn: u64,
}

impl<T> Default for Returns<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), on_their_way: 0, came: 0, groups: GROUPS_A_TURN, turn: 0 }
    }
}

impl<T> Returns<T> {
    /// This thread comes with its next job. Answers who may go now, and in which turn.
    pub(super) fn come(&mut self) -> Option<(T, u64)> {
        let turn = LET_GO_IN.replace(0);
        if turn != 0 && turn == self.turn {
            self.on_their_way = self.on_their_way.saturating_sub(1);
        }
        if self.on_their_way >= AT_ONCE {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.on_their_way += 1;
        self.came += 1;
        Some((next, self.turn))
    }

    /// This thread has served `group`. Answers who may go now, and in which turn: all if nobody
    /// `is_serving` next, who would see to those that wait.
    pub(super) fn served(&mut self, group: &mut Vec<T>, is_serving: bool) -> (Vec<T>, u64) {
        let came = std::mem::take(&mut self.came);
        let are_slow = self.waiting.len() > MOST_GROUPS * came;
        self.waiting.extend(group.drain(..));
        self.groups += 1;
        let all_go = !is_serving || are_slow;
        if all_go || self.groups > GROUPS_A_TURN {
            self.turn = 1 + TURNS.fetch_add(1, Ordering::Relaxed);
            (self.on_their_way, self.groups) = (0, 0);
        }
        // This thread goes, too.
        leave_in(self.turn);
        self.on_their_way += 1;
        let room = if all_go { usize::MAX } else { AT_ONCE.saturating_sub(self.on_their_way) };
        let go: Vec<T> = self.waiting.drain(..room.min(self.waiting.len())).collect();
        self.on_their_way += go.len();
        (go, self.turn)
    }
}
