//! A copy in memory of a global filter, into which newer keys go, too: a miss then costs one line
//! of cold memory instead of two.
//!
//! It outlives its global filter: the next one holds no key that is not in it. The filters that it
//! unites stay beside it. They say of the few keys that pass where to look for them.

use std::collections::BTreeSet;

use memmap2::MmapMut;

use super::young::{Verified, memory};
use crate::Result;
use crate::filter;
use crate::key::Key;
use crate::segment::Wanted;
use crate::segment::global::GlobalFilter;

/// Keys for each key of its capacity from which a union may be outgrown.
const OUTGROWN: f64 = 1.25;
/// What part of these another one has at most, if it is to take its place.
const WORTH: f64 = 0.9;
/// Keys whose lines are fetched together before they are put in.
const GROUP: usize = 16;

/// The union of the keys of all segments that one line can tell of, and of the log.
#[derive(Debug)]
pub(crate) struct UnionFilter {
    blocks: MmapMut,
    /// The keys that it was made for, and those that were put in.
    capacity: u64,
    keys: u64,
    /// Including those that are gone since: their keys are still in it.
    segments: BTreeSet<u64>,
}

impl UnionFilter {
    /// Maximum size in bytes of a global filter that is copied: that of some 16,777,216 keys.
    pub(crate) const MOST_BYTES: u64 = 24 << 20;

    /// The keys of a global filter over these segments. None if there is no memory for it.
    pub(crate) fn over(global_filter: &GlobalFilter, segments: BTreeSet<u64>) -> Result<Option<Self>> {
        let mut scratch = Vec::new();
        let from = global_filter.blocks(&mut scratch)?;
        let Some(mut blocks) = memory(from.len()) else { return Ok(None) };
        blocks.copy_from_slice(from);
        let keys = global_filter.entries();
        Ok(Some(Self { blocks, capacity: keys, keys, segments }))
    }

    /// Whether it holds all keys of this segment.
    pub(crate) fn holds(&self, segment: u64) -> bool {
        self.segments.contains(&segment)
    }

    /// It holds all keys of this segment.
    pub(crate) fn hold(&mut self, segment: u64) {
        self.segments.insert(segment);
    }

    /// Whether another one, over a global filter of `entries` keys and with `young` keys put in,
    /// would let clearly fewer other keys pass.
    pub(crate) fn is_outgrown_by(&self, entries: u64, young: u64) -> bool {
        let load = |keys: u64, capacity: u64| keys as f64 / capacity.max(1) as f64;
        let present = load(self.keys, self.capacity);
        present > OUTGROWN && load(entries + young, entries) < WORTH * present
    }

    /// Whether it is of little use.
    pub(crate) fn is_overfull(&self) -> bool {
        self.keys > 2 * self.capacity
    }

    /// Put keys in.
    pub(crate) fn insert(&mut self, keys: impl ExactSizeIterator<Item = Key>) {
        self.keys += keys.len() as u64;
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
