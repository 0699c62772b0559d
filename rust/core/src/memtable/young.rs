//! One filter in memory over everything that no global filter covers yet: the log's entries, and
//! the segments that were written since. It makes a miss there one small cache line, however many
//! segments there are, before the memtable's index is asked.
//!
//! It is never trusted for a positive answer. It only grows; what is gone stays in it until it is
//! full and built again.

use std::collections::BTreeSet;

use memmap2::MmapMut;

use crate::Result;
use crate::filter;
use crate::key::Key;
use crate::segment::Wanted;
use crate::sys::memory::mapped;

/// Bits a key.
const BITS: u32 = 12;
/// Fewer keys than this are looked up at once: their index is as small as a filter.
const FEWEST: usize = if cfg!(feature = "small") { 8 } else { 1 << 10 };
/// Keys from which a filter grows by less at a time.
const MANY: usize = 1 << 18;

/// The filter, and the segments that it covers beside the log.
#[derive(Debug, Default)]
pub(crate) struct YoungFilter {
    /// None while there are few keys.
    blocks: Option<MmapMut>,
    capacity: usize,
    keys: usize,
    /// Including those that are gone since: their keys are still in it.
    segments: BTreeSet<u64>,
}

/// Memory of our own has no pages to verify.
pub(super) struct Verified;

impl filter::Pages for Verified {
    fn is_verified(&self, _page: u64) -> bool {
        true
    }

    fn are_verified(&self) -> bool {
        true
    }

    fn verify(&self, _page: u64) -> Result<()> {
        Ok(())
    }
}

impl YoungFilter {
    /// Maximum number of keys. Segments beyond it are asked one by one.
    pub(crate) const MOST: usize = 9 << 19;

    /// Whether it rules keys out. If not, it covers nothing.
    pub(crate) fn is_active(&self) -> bool {
        self.blocks.is_some()
    }

    /// Whether it covers this segment.
    pub(crate) fn covers(&self, segment: u64) -> bool {
        self.segments.contains(&segment)
    }

    /// It holds all keys of this segment.
    pub(crate) fn cover(&mut self, segment: u64) {
        if self.is_active() {
            self.segments.insert(segment);
        }
    }

    /// Whether it holds keys, and has room for `count` more. Somewhat overfull it still rules out
    /// nearly all others: maintenance has time to build it again.
    pub(crate) fn fits(&self, count: usize) -> bool {
        self.is_active() && self.keys + count <= self.capacity + self.capacity / 2
    }

    /// Whether it takes `count` more keys from a writer, which would wait for another one: it may
    /// be twice as full as it is to be.
    pub(crate) fn takes(&self, count: usize) -> bool {
        self.is_active() && self.keys + count <= 2 * self.capacity
    }

    /// Whether it is as good as it is to be with `count` more keys.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.keys + count <= self.capacity
    }

    /// Keys that were put in.
    pub(crate) fn len(&self) -> usize {
        self.keys
    }

    /// An empty filter for `keys` keys and three times as many again; where they are many, twice as
    /// many for look-ups of many rows, and else as many up to a limit. An inactive one for few
    /// keys.
    pub(crate) fn for_keys(keys: usize, is_for_many_rows: bool) -> Self {
        let capacity = match keys {
            ..MANY => 4 * keys,
            _ if is_for_many_rows => 3 * keys,
            _ => (2 * keys).min(Self::MOST.max(keys) + Self::MOST / 5),
        };
        if keys < FEWEST { Self::default() } else { Self::with_capacity(capacity) }
    }

    /// An empty filter for `capacity` keys; an inactive one if there is no memory for it.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.next_multiple_of(1 << 14);
        let bytes = filter::blocks_for(capacity as u64, BITS) as usize * filter::BLOCK_BYTES;
        let Some(blocks) = mapped(bytes) else { return Self::default() };
        Self { blocks: Some(blocks), capacity, ..Self::default() }
    }

    /// Keys for which there is room.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Become, while it is empty, what `other` is; answers false where their sizes differ.
    pub(crate) fn take_all_of(&mut self, other: &Self) -> bool {
        let (Some(to), Some(from)) = (&mut self.blocks, &other.blocks) else { return false };
        if self.keys > 0 || to.len() != from.len() {
            return false;
        }
        to.copy_from_slice(from);
        (self.keys, self.segments) = (other.keys, other.segments.clone());
        true
    }

    /// Put keys in.
    pub(crate) fn insert(&mut self, keys: impl ExactSizeIterator<Item = Key>) {
        if let Some(blocks) = &mut self.blocks {
            self.keys += keys.len();
            filter::insert_all(blocks, keys);
        }
    }

    /// The rows that it does not rule out.
    pub(crate) fn may_contain(&self, wanted: &Wanted, survivors: &mut Vec<u32>) -> Result<()> {
        match &self.blocks {
            Some(blocks) => filter::probe(blocks, wanted.keys, wanted.forms, 0, &Verified, survivors),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_for_look_ups_of_many_rows_has_more_room() {
        let capacity = |keys: usize| [false, true].map(|is_many| YoungFilter::for_keys(keys, is_many).capacity());
        assert_eq!(capacity(MANY), [2 * MANY, 3 * MANY]);
        assert_eq!(capacity(MANY / 2), [2 * MANY, 2 * MANY]);
        let most = YoungFilter::MOST;
        assert!(capacity(most)[0] <= most + most / 4 && capacity(most)[1] == 3 * most);
        assert_eq!(capacity(FEWEST - 1), [0, 0]);
    }
}
