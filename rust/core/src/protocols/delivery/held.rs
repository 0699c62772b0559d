//! Held messages of one stream, in the order of (prev, seq).
//!
//! The messages are in sorted runs that never change, each with a window that only shrinks. The
//! lowest message leaves when it can be applied, the highest when there are too many; nothing
//! leaves from the middle. So a poll works on a copy that costs a few reference counts, and
//! discarding the copy changes nothing. Runs are merged like the digits of a binary counter: n
//! messages that arrive one by one cost O(n log n) in all.

use std::sync::Arc;

/// A message without its epoch, which is the stream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) prev: u64,
    pub(super) cur: u64,
    pub(super) seq: u32,
}

impl Message {
    pub(super) fn key(&self) -> (u64, u32) {
        (self.prev, self.seq)
    }
}

#[derive(Clone, Debug)]
struct HeldRange {
    messages: Arc<Vec<Message>>,
    start: usize,
    end: usize,
}

impl HeldRange {
    fn window(&self) -> &[Message] {
        &self.messages[self.start..self.end]
    }
}

/// All held messages of a stream; no run is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    runs: Vec<HeldRange>,
}

impl Runs {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// The end of the message that is held at (prev, seq).
    pub(super) fn find(&self, prev: u64, seq: u32) -> Option<u64> {
        self.runs.iter().find_map(|run| {
            let window = run.window();
            window.binary_search_by_key(&(prev, seq), Message::key).ok().map(|at| window[at].cur)
        })
    }

    /// The lowest message.
    pub(super) fn first(&self) -> Option<Message> {
        self.runs.iter().map(|run| run.messages[run.start]).min_by_key(Message::key)
    }

    /// The highest message.
    pub(super) fn last(&self) -> Option<Message> {
        self.runs.iter().map(|run| run.messages[run.end - 1]).max_by_key(Message::key)
    }

    /// Takes the lowest message out.
    pub(super) fn pop_first(&mut self) -> Option<Message> {
        let lowest = self.runs.iter_mut().min_by_key(|run| run.messages[run.start].key())?;
        let message = lowest.messages[lowest.start];
        lowest.start += 1;
        self.runs.retain(|run| run.start < run.end);
        Some(message)
    }

    /// Takes the highest message out.
    pub(super) fn pop_last(&mut self) -> Option<Message> {
        let highest = self.runs.iter_mut().max_by_key(|run| run.messages[run.end - 1].key())?;
        highest.end -= 1;
        let message = highest.messages[highest.end];
        self.runs.retain(|run| run.start < run.end);
        Some(message)
    }

    /// Adds sorted messages, none of which is held yet.
    pub(super) fn add(&mut self, mut messages: Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        while let Some(last) = self.runs.last() {
            if last.end - last.start > 2 * messages.len() {
                break;
            }
            messages = merge(last.window(), &messages);
            self.runs.pop();
        }
        self.runs.push(HeldRange { start: 0, end: messages.len(), messages: Arc::new(messages) });
    }

    /// All messages, run by run.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.runs.iter().flat_map(HeldRange::window)
    }
}

fn merge(left: &[Message], right: &[Message]) -> Vec<Message> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut l, mut r) = (0, 0);
    while l < left.len() && r < right.len() {
        if left[l].key() < right[r].key() {
            merged.push(left[l]);
            l += 1;
        } else {
            merged.push(right[r]);
            r += 1;
        }
    }
    merged.extend_from_slice(&left[l..]);
    merged.extend_from_slice(&right[r..]);
    merged
}
