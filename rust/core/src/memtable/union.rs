//! A copy in memory of a global filter, into which the young filter's keys go, too: a miss then
//! costs one line of cold memory instead of two.
//!
//! Both filters stay beside it. They say of the few keys that pass where to look for them.

use memmap2::MmapMut;

use super::young::{Verified, memory};
use crate::Result;
use crate::filter;
use crate::key::Key;
use crate::segment::Wanted;
use crate::segment::global::GlobalFilter;

/// The union of the keys of two filters.
#[derive(Debug)]
pub(crate) struct UnionFilter {
    /// The checksum of the global filter.
    global_filter: u32,
    blocks: MmapMut,
}

impl UnionFilter {
    /// Maximum size in bytes of a global filter that is copied: that of some 16,777,216 keys.
    pub(crate) const MOST_BYTES: u64 = 24 << 20;

    /// The keys of a global filter. None if there is no memory for it.
    pub(crate) fn over(global_filter: &GlobalFilter) -> Result<Option<Self>> {
        let mut scratch = Vec::new();
        let from = global_filter.blocks(&mut scratch)?;
        let Some(mut blocks) = memory(from.len()) else { return Ok(None) };
        blocks.copy_from_slice(from);
        Ok(Some(Self { global_filter: global_filter.sum(), blocks }))
    }

    pub(crate) fn global_filter(&self) -> u32 {
        self.global_filter
    }

    /// Put keys in.
    pub(crate) fn insert(&mut self, keys: impl Iterator<Item = Key>) {
        filter::insert_all(&mut self.blocks, keys);
    }

    /// The rows that it does not rule out.
    pub(crate) fn may_contain(&self, wanted: &Wanted, survivors: &mut Vec<u32>) -> Result<()> {
        filter::probe(&self.blocks, wanted.keys, wanted.forms, 0, &Verified, survivors)
    }
}
