//! A copy in memory of a global filter, into which newer keys go, too: a miss then costs one line
//! of cold memory instead of two.
//!
//! It outlives its global filter: the next one holds no key that is not in it. The filters that it
//! unites stay beside it. They say of the few keys that pass where to look for them.
//!
//! Where many newer keys are to come, each block is copied several times. The blocks of a filter
//! follow the order of the keys, so a key of block `b` is in one of the copies of `b`. It is found
//! there as before, and newer keys spread over all of them.

use std::collections::BTreeSet;

use memmap2::MmapMut;

use super::young::Verified;
use crate::Result;
use crate::filter;
use crate::key::Key;
use crate::segment::Wanted;
use crate::segment::global::GlobalFilter;
use crate::sys::memory::mapped;

/// Keys for each key of its capacity from which a union may be outgrown.
const OUTGROWN: f64 = 1.25;
/// What part of these another one has at most, if it is to take its place.
const WORTH: f64 = 0.9;
/// Keys for each key of its capacity from which a union is of little use.
const OVERFULL: f64 = 2.0;
/// Keys whose lines are fetched together before they are put in.
const GROUP: usize = 16;

/// The union of the keys of all segments that one line can tell of, and of the log.
#[derive(Debug)]
pub(crate) struct UnionFilter {
    blocks: MmapMut,
    /// The keys that were copied, how often each block was, and the keys that were put in.
    copied: u64,
    times: u64,
    newer: u64,
    /// Including those that are gone since: their keys are still in it.
    segments: BTreeSet<u64>,
}

impl UnionFilter {
    /// Maximum size in bytes of a global filter that is copied: that of some 16,777,216 keys.
    pub(crate) const MOST_BYTES: u64 = 24 << 20;

    /// The keys of a global filter over these segments, each block `times`. None if there is no
    /// memory for it.
    pub(crate) fn over(global_filter: &GlobalFilter, segments: BTreeSet<u64>, times: u64) -> Result<Option<Self>> {
        let mut scratch = Vec::new();
        let from = global_filter.blocks(&mut scratch)?;
        let Some(mut blocks) = mapped(from.len() * times as usize) else { return Ok(None) };
        let copies = blocks.chunks_exact_mut(filter::BLOCK_BYTES * times as usize);
        for (copies, block) in copies.zip(from.chunks_exact(filter::BLOCK_BYTES)) {
            copies.chunks_exact_mut(filter::BLOCK_BYTES).for_each(|copy| copy.copy_from_slice(block));
        }
        Ok(Some(Self { blocks, copied: global_filter.entries(), times, newer: 0, segments }))
    }

    /// The copies of each block of a filter of `bytes` over `entries` keys, where `newer` keys are
    /// put in at once, and the same number may follow.
    pub(crate) fn times(entries: u64, bytes: u64, newer: u64) -> u64 {
        let wanted = (4 * newer).div_ceil(entries.max(1)).max(1).next_power_of_two();
        let most = (Self::MOST_BYTES / bytes.max(1)).max(1);
        wanted.min(1 << most.ilog2())
    }

    /// Whether it holds all keys of this segment.
    pub(crate) fn holds(&self, segment: u64) -> bool {
        self.segments.contains(&segment)
    }

    /// It holds all keys of this segment.
    pub(crate) fn hold(&mut self, segment: u64) {
        self.segments.insert(segment);
    }

    /// Whether another one, over a global filter of `entries` keys, each block `times`, and with
    /// `newer` keys put in, would let clearly fewer other keys pass.
    pub(crate) fn is_outgrown_by(&self, entries: u64, times: u64, newer: u64) -> bool {
        let present = self.load();
        present > OUTGROWN && load(entries, times, newer) < WORTH * present
    }

    /// Whether it is of little use.
    pub(crate) fn is_overfull(&self) -> bool {
        self.load() > OVERFULL
    }

    /// Whether one over a global filter of `entries` keys would be of little use soon.
    pub(crate) fn would_be_overfull(entries: u64, times: u64, newer: u64) -> bool {
        load(entries, times, newer + newer / 4) > OVERFULL
    }

    /// How often each block was copied.
    #[cfg(test)]
    pub(crate) fn copies(&self) -> u64 {
        self.times
    }

    fn load(&self) -> f64 {
        load(self.copied, self.times, self.newer)
    }

    /// Put keys in.
    pub(crate) fn insert(&mut self, keys: impl ExactSizeIterator<Item = Key>) {
        self.newer += keys.len() as u64;
        let mut group = [Key::default(); GROUP];
        let mut keys = keys.peekable();
        while keys.peek().is_some() {
            let mut count = 0;
            for (place, key) in group.iter_mut().zip(&mut keys) {
                *place = key;
                count += 1;
                filter::fetch(&self.blocks, key);
            }
            filter::insert_all(&mut self.blocks, group[..count].iter().copied());
        }
    }

    /// The rows that it does not rule out.
    pub(crate) fn may_contain(&self, wanted: &Wanted, survivors: &mut Vec<u32>) -> Result<()> {
        filter::probe(&self.blocks, wanted.keys, wanted.forms, 0, &Verified, survivors)
    }
}

/// The keys in a block, in those of a filter that is as full as it was made to be: the copied ones,
/// which are in each copy of a block, and the newer ones.
fn load(copied: u64, times: u64, newer: u64) -> f64 {
    1.0 + newer as f64 / (copied * times).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_copied_as_newer_keys_need_and_memory_allows() {
        let times = |entries, newer| UnionFilter::times(entries, entries * 3 / 2, newer);
        assert_eq!([0, 250, 251, 1000, 1001].map(|newer| times(1000, newer)), [1, 1, 2, 4, 8]);
        // 6 MB are copied four times at most, 15 MB once.
        assert_eq!([times(4_000_000, 40_000_000), times(10_000_000, 10_000_000)], [4, 1]);
    }

    #[test]
    fn one_that_is_soon_of_little_use_is_not_built() {
        let useless = |times, newer| UnionFilter::would_be_overfull(1000, times, newer);
        assert_eq!([useless(1, 800), useless(1, 801), useless(4, 3200), useless(4, 3201)], [false, true, false, true]);
    }
}
