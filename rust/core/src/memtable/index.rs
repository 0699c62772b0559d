//! The newest entry of each key: an open-addressed table of 8-byte slots, whose lines can be
//! prefetched.
//!
//! A slot repeats the upper half of its key's `lo`, which keys spread evenly. This half alone
//! decides the place of a slot. So growing reads and writes the table in order without touching an
//! entry, and a lookup rules out nearly all other keys before it reads an entry.

use super::slots::Slots;
use crate::sys::prefetch;

const FEWEST_SLOTS: usize = 1 << 8;
/// What a log of ids takes that is full.
const FULL: usize = 1 << 19;

/// From keys to numbers of entries.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// None, or a power of two. A slot is zero while it is free; else above stands the upper half
    /// of `lo`, and below one more than the entry's number.
    slots: Slots,
    used: usize,
    /// How many keys will probably come in all.
    expected: usize,
}

const FREE: u64 = 0;

/// The upper half of a key's `lo`, or of its slot.
fn tag_of(lo: u64) -> u64 {
    lo >> 32
}

fn entry_in(slot: u64) -> Option<u32> {
    (slot as u32).checked_sub(1)
}

impl Index {
    /// Forget everything, and keep the memory.
    pub(super) fn clear(&mut self) {
        if self.used > 0 {
            self.slots.fill(FREE.to_ne_bytes());
            self.used = 0;
        }
    }

    /// Make room for this many keys at once, as soon as any room is made.
    pub(super) fn expect(&mut self, keys: usize) {
        self.expected = keys;
    }

    /// Prefetch the line of a key.
    #[inline]
    pub(super) fn fetch(&self, lo: u64) {
        prefetch::item(&self.slots, self.home(lo));
    }

    /// The entry that is likely to be a key's, for a prefetch.
    #[inline]
    pub(super) fn likely(&self, lo: u64) -> Option<u32> {
        let slot = u64::from_ne_bytes(*self.slots.get(self.home(lo))?);
        entry_in(slot).filter(|_| tag_of(slot) == tag_of(lo))
    }

    /// Where a key, or its slot, belongs: both have the same upper half.
    #[inline]
    fn home(&self, lo: u64) -> usize {
        ((tag_of(lo) * self.slots.len() as u64) >> 32) as usize
    }

    /// The entry of a key; `is_it` tells an entry of this key from others.
    #[inline]
    pub(super) fn find(&self, lo: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        entry_in(u64::from_ne_bytes(self.slots[self.place(lo, is_it)?]))
    }

    /// The slot of a key, or the free one where it would stand; none in an empty table.
    #[inline]
    fn place(&self, lo: u64, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        let slots = &self.slots[..];
        let mask = slots.len().checked_sub(1)?;
        let mut place = self.home(lo);
        loop {
            let slot = u64::from_ne_bytes(slots[place & mask]);
            let Some(entry) = entry_in(slot) else { return Some(place & mask) };
            if tag_of(slot) == tag_of(lo) && is_it(entry) {
                return Some(place & mask);
            }
            place += 1;
        }
    }

    /// Make entry `at` the newest of its key; answers the previous one.
    #[inline]
    pub(super) fn put(&mut self, lo: u64, at: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.reserve(1);
        let place = self.place(lo, is_it)?;
        let slot = (tag_of(lo) << 32) | (u64::from(at) + 1);
        let before = std::mem::replace(&mut self.slots[place], slot.to_ne_bytes());
        let before = entry_in(u64::from_ne_bytes(before));
        self.used += usize::from(before.is_none());
        before
    }

    /// Make room for `more` keys: at most four slots of five are used.
    pub(super) fn reserve(&mut self, more: usize) {
        let needed = (self.used + more).div_ceil(4) * 5;
        if needed <= self.slots.len() {
            return;
        }
        // Grow by large steps up to the table of a full log: each step costs a copy and fresh
        // memory.
        let grown = if self.slots.len() < FULL { (self.slots.len() * 8).min(FULL) } else { self.slots.len() * 2 };
        let expected = self.expected.div_ceil(4) * 5;
        let size = needed.max(expected).next_power_of_two().max(grown).max(FEWEST_SLOTS);
        let old = std::mem::replace(&mut self.slots, Slots::zeroed(size));
        let mask = size - 1;
        for slot in old.iter().map(|slot| u64::from_ne_bytes(*slot)).filter(|slot| *slot != FREE) {
            let mut place = self.home(slot);
            while self.slots[place & mask] != FREE.to_ne_bytes() {
                place += 1;
            }
            self.slots[place & mask] = slot.to_ne_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_to_its_newest_entry_however_many_share_a_slot() {
        // Keys that differ only below what a slot keeps share their tag; a fifth of them comes
        // twice.
        let lo = |number: u64| ((number / 7 % 300) << 57) | (number % 1000);
        let keys: Vec<u64> = (0..5000).map(lo).collect();
        let mut index = Index::default();
        let mut newest = std::collections::HashMap::new();
        for (at, key) in keys.iter().enumerate() {
            index.fetch(*key);
            let before = index.put(*key, at as u32, |other| keys[other as usize] == *key);
            assert_eq!(before, newest.insert(*key, at as u32));
        }
        for key in &keys {
            assert_eq!(index.find(*key, |other| keys[other as usize] == *key), newest.get(key).copied());
            assert_eq!(index.find(key ^ 1 << 20, |other| keys[other as usize] == key ^ 1 << 20), None);
        }
        // In large pages everything is found again, and forgotten at once.
        index.reserve(300_000);
        let found = |index: &Index, key: u64| index.find(key, |other| keys[other as usize] == key);
        assert!(keys.iter().all(|key| found(&index, *key) == newest.get(key).copied()));
        assert!(index.used == newest.len() && index.slots.len() >= index.used * 5 / 4);
        index.clear();
        assert!(keys.iter().all(|key| found(&index, *key).is_none()));
    }

    #[test]
    fn room_that_is_expected_is_made_with_the_first_key() {
        let mut index = Index::default();
        index.expect(300_000);
        assert_eq!(index.slots.len(), 0);
        index.reserve(1);
        assert_eq!(index.slots.len(), FULL);
        index.reserve(300_000);
        assert_eq!(index.slots.len(), FULL);
        // Without that it grows by large steps, of which the last is for a full log.
        let (mut index, mut sizes) = (Index::default(), Vec::new());
        for keys in [1, 300, 2_000, 20_000, 200_000, 262_144, 500_000] {
            index.reserve(keys);
            sizes.push(index.slots.len());
        }
        assert_eq!(sizes, [1 << 8, 1 << 11, 1 << 14, 1 << 17, FULL, FULL, 2 * FULL]);
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        let index = Index::default();
        index.fetch(7);
        assert_eq!(index.find(7, |_| true), None);
    }
}
