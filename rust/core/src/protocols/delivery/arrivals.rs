//! Held messages of one stream during a poll: the runs of earlier polls and the messages that this
//! poll adds.
//!
//! The poll's own messages are sorted once, when the first of them must be held. After that each
//! place in the stream (prev, seq) is a slot number. Checking whether a place is taken is one array
//! access, and a cursor that only moves forward finds the next message to release: no tree, no
//! hash, nothing quadratic however the messages are shuffled.

use super::group::Arrival;
use super::held::{Message, Runs};
use super::row_sort::RowSort;

/// Where a kept message came from: a row of this poll, or [`EARLIER`].
pub(super) type Source = u32;
/// The message came in an earlier poll.
pub(super) const EARLIER: Source = u32::MAX;
const NOBODY: u32 = u32::MAX;

/// The message at the front of the held ones.
#[derive(Clone, Copy, Debug)]
pub(super) enum Front {
    /// The message that is expected next.
    Expected(Message, Source),
    /// A message before it, which will never be expected again.
    Passed(Message, Source),
}

/// See the module. One shelf serves all streams of a poll, one after the other, and keeps its
/// buffers.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    pub(super) runs: Runs,
    /// The first arrival that has a slot; none were held before it.
    first_place: usize,
    /// `prev << 32 | seq` of each slot, ascending.
    keys: Vec<u128>,
    /// Buffer for sorting.
    sorter: RowSort,
    /// Slot of each arrival from `first_place` on.
    slot_of: Vec<u32>,
    /// Whether an arrival from `first_place` on is the only one of its slot, so that this poll
    /// holds nothing there when it comes. This is true for nearly all arrivals, and saves each of
    /// them a random memory access.
    is_alone: Vec<bool>,
    /// The message held in each slot, with everything that its release needs, so that the arrivals
    /// need not be searched.
    holder: Vec<Holder>,
    /// Slots that were filled since the shelf was last emptied.
    filled: Vec<u32>,
    /// Slots before this one are empty for good.
    cursor: usize,
    /// Number of filled slots.
    live: usize,
}

/// An arrival that is held.
#[derive(Clone, Copy, Debug)]
struct Holder {
    cur: u64,
    row: Source,
}

impl Holder {
    const NOBODY: Self = Self { cur: 0, row: NOBODY };

    fn is_there(self) -> bool {
        self.row != NOBODY
    }
}

fn message(slot: u128, held: Holder) -> Message {
    Message { prev: (slot >> 32) as u64, cur: held.cur, seq: slot as u32 }
}

fn key(prev: u64, seq: u32) -> u128 {
    (u128::from(prev) << 32) | u128::from(seq)
}

impl Shelf {
    /// Starts with another stream.
    pub(super) fn reset(&mut self, runs: Runs) {
        self.runs = runs;
        self.keys.clear();
        self.slot_of.clear();
        self.is_alone.clear();
        self.holder.clear();
        self.filled.clear();
        (self.first_place, self.cursor, self.live) = (0, 0, 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0 && self.runs.is_empty()
    }

    /// The end of what is held in the place of arrival `place`.
    #[inline]
    pub(super) fn find(&self, place: usize, arrivals: &[Arrival]) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let at = place.wrapping_sub(self.first_place);
        if !self.is_alone.get(at).copied().unwrap_or_default() {
            let slot = self.slot_of.get(at).copied().unwrap_or(NOBODY);
            if let Some(holder) = self.holder.get(slot as usize).filter(|holder| holder.is_there()) {
                return Some(holder.cur);
            }
        }
        if self.runs.is_empty() { None } else { self.runs.find(arrivals[place].prev, arrivals[place].seq) }
    }

    /// Holds arrival `place`, whose slot is free.
    #[inline]
    pub(super) fn hold(&mut self, place: usize, arrivals: &[Arrival], log_received: u64) {
        if self.slot_of.is_empty() {
            self.lay_out(place, arrivals, log_received);
        }
        let slot = self.slot_of[place - self.first_place];
        self.holder[slot as usize] = Holder { cur: arrivals[place].cur, row: arrivals[place].row };
        self.filled.push(slot);
        self.live += 1;
    }

    /// Gives a slot to every arrival from `place` on that could still be held: offsets only grow,
    /// so none before `log_received` can.
    fn lay_out(&mut self, place: usize, arrivals: &[Arrival], log_received: u64) {
        self.first_place = place;
        self.sort_keys(place, arrivals, log_received);
        self.slot_of.resize(arrivals.len() - place, NOBODY);
        self.is_alone.resize(arrivals.len() - place, false);
        let mut slots = 0;
        for at in 0..self.keys.len() {
            let (slot_key, arrival) = (self.keys[at] >> 32, self.keys[at] as u32 as usize);
            let is_first = slots == 0 || self.keys[slots - 1] != slot_key;
            let is_last = self.keys.get(at + 1).is_none_or(|next| next >> 32 != slot_key);
            if is_first {
                self.keys[slots] = slot_key;
                slots += 1;
            }
            self.slot_of[arrival - place] = slots as u32 - 1;
            self.is_alone[arrival - place] = is_first && is_last;
        }
        self.keys.truncate(slots);
        self.holder.resize(slots, Holder::NOBODY);
    }

    /// Fills `keys` with the places of all arrivals from `place` on, in order, the arrival's number
    /// in the lowest 32 bits.
    fn sort_keys(&mut self, place: usize, arrivals: &[Arrival], log_received: u64) {
        let wanted = || (place..arrivals.len()).filter(|&at| arrivals[at].prev >= log_received);
        let (mut highest, mut parts) = (log_received, 0);
        for at in wanted() {
            highest = highest.max(arrivals[at].prev);
            parts = parts.max(arrivals[at].seq);
        }
        let bits = |number: u64| 64 - number.leading_zeros();
        let (seq_bits, row_bits) = (bits(u64::from(parts)), bits(arrivals.len() as u64));
        if bits(highest - log_received) + seq_bits + row_bits > 64 {
            let whole = |at: usize| (key(arrivals[at].prev, arrivals[at].seq) << 32) | at as u128;
            self.keys.extend(wanted().map(whole));
            self.keys.sort_unstable();
            return;
        }
        // The three nearly always fit in half the width, which sorts in half the time.
        let sorter = |at: usize| {
            let place = ((arrivals[at].prev - log_received) << seq_bits) | u64::from(arrivals[at].seq);
            (place << row_bits) | at as u64
        };
        self.sorter.sort(wanted().map(sorter), row_bits, bits(highest - log_received) + seq_bits + row_bits);
        self.keys.extend(self.sorter.iter().map(|sorter| {
            let (at, seq) = (sorter & ((1 << row_bits) - 1), (sorter >> row_bits) & ((1 << seq_bits) - 1));
            let prev = log_received + ((sorter >> row_bits) >> seq_bits);
            (key(prev, seq as u32) << 32) | u128::from(at)
        }));
    }

    /// Takes out the front message, if it is expected at (`log_received`, `next`) or lies before
    /// that.
    #[inline]
    pub(super) fn take(&mut self, log_received: u64, next: u64) -> Option<Front> {
        if self.is_empty() {
            return None;
        }
        let expected = key(log_received, u32::try_from(next).ok()?);
        while self.live > 0 && self.keys.get(self.cursor).is_some_and(|&slot| slot <= expected) {
            let held = std::mem::replace(&mut self.holder[self.cursor], Holder::NOBODY);
            if held.is_there() {
                self.live -= 1;
                return Some(front(message(self.keys[self.cursor], held), held.row, expected));
            }
            if self.keys[self.cursor] == expected {
                break;
            }
            self.cursor += 1;
        }
        let first = self.runs.first().filter(|first| key(first.prev, first.seq) <= expected)?;
        self.runs.pop_first();
        Some(front(first, EARLIER, expected))
    }

    /// Empties the shelf, and calls `dropped` for every message that was on it. The next expected
    /// message may lie before the ones seen so far, but not before `log_received`.
    pub(super) fn clear(&mut self, log_received: u64, mut dropped: impl FnMut(Message, Source)) {
        for slot in self.filled.drain(..) {
            let held = std::mem::replace(&mut self.holder[slot as usize], Holder::NOBODY);
            if held.is_there() {
                dropped(message(self.keys[slot as usize], held), held.row);
            }
        }
        self.runs.iter().for_each(|message| dropped(*message, EARLIER));
        self.runs = Runs::default();
        self.live = 0;
        self.cursor = self.keys.partition_point(|&slot| slot < key(log_received, 0));
    }

    /// Hands over the messages held at the end of the poll, at most `limit`. Drops the highest ones
    /// above the limit, and calls `dropped` for each.
    pub(super) fn finish(&mut self, limit: usize, mut dropped: impl FnMut(Message, Source)) -> Runs {
        let mut runs = std::mem::take(&mut self.runs);
        let mut earlier = runs.len();
        let from = if self.live == 0 { self.keys.len() } else { self.cursor };
        let mut slots = from..self.holder.len();
        while self.live + earlier > limit {
            let highest = slots.clone().rev().find(|&slot| self.holder[slot].is_there());
            slots.end = highest.map_or(slots.start, |slot| slot + 1);
            let fresh = highest.map(|slot| (message(self.keys[slot], self.holder[slot]), self.holder[slot].row));
            match (runs.last(), fresh) {
                (run, Some((message, row))) if run.is_none_or(|run| run.key() < message.key()) => {
                    dropped(message, row);
                    (slots.end, self.live) = (slots.end - 1, self.live - 1);
                }
                (Some(run), _) => {
                    dropped(run, EARLIER);
                    runs.pop_last();
                    earlier -= 1;
                }
                (None, _) => break,
            }
        }
        let mut fresh = Vec::with_capacity(self.live);
        let left = slots.filter(|&slot| self.holder[slot].is_there());
        fresh.extend(left.map(|slot| message(self.keys[slot], self.holder[slot])));
        runs.add(fresh);
        runs
    }
}

fn front(message: Message, source: Source, expected: u128) -> Front {
    if key(message.prev, message.seq) == expected {
        Front::Expected(message, source)
    } else {
        Front::Passed(message, source)
    }
}
