//! A global filter: one split-block Bloom filter over many segments, so that a miss costs one cache
//! line however many time partitions there are. An index behind it tells which segment to ask about
//! a key that passes. Both are derivable from the segments and never trusted for a positive.

mod build;
mod scan;

use std::path::Path;
use std::sync::Arc;

pub(crate) use build::build;
use scan::{WINDOW, with_tag};

use super::buckets::bucket_of;
use super::file::Kind;
use super::{Region, Wanted, probe};
use crate::filter;
use crate::io::FileSystem;
use crate::io::pages::{PAGE, Pages, header_page};
use crate::key::Key;
use crate::sys::prefetch;
use crate::{Error, Result};

const KIND: Kind = Kind { magic: *b"DHROLLUP", version: 1, belongs: "this filter belongs" };
/// Bits of the filter an id.
const BITS: u32 = 12;
/// Entries of the index are 16 bits: the number of the segment, and above it a tag of the key.
const ENTRY_BYTES: u64 = 2;
/// With more segments than this too few bits are left for a tag: then there is no index, and every
/// segment is asked.
const MOST_SLOTS: usize = 1 << 12;
/// Bytes of a cache line.
const LINE: u64 = 64;
/// Keys that passed the filter, whose lines are fetched in one group.
const GROUP: usize = 64;

/// The header: the layout of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FilterHeader {
    id: u64,
    history: [u8; 16],
    /// Entries covered.
    entries: u64,
    /// Segments covered.
    slots: u32,
    blocks: u64,
    directory_bits: u8,
    pages: u64,
    sums_crc: u32,
}

/// A key that may be in a segment, by the segment's number among those covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) slot: u32,
    /// Its place among the keys that passed.
    pub(crate) row: u32,
}

/// An open global filter.
#[derive(Debug)]
pub(crate) struct GlobalFilter {
    sum: u32,
    header: FilterHeader,
    pages: Pages,
    filter: Region,
}

impl FilterHeader {
    fn slot_bits(&self) -> u32 {
        self.slots.max(1).next_power_of_two().ilog2()
    }

    fn has_index(&self) -> bool {
        self.slots as usize <= MOST_SLOTS
    }

    fn filter_bytes(&self) -> u64 {
        self.blocks.saturating_mul(filter::BLOCK_BYTES as u64)
    }

    fn directory_at(&self) -> u64 {
        (PAGE as u64).saturating_add(self.filter_bytes()).min(1 << 60).next_multiple_of(PAGE as u64)
    }

    fn directory_bytes(&self) -> u64 {
        if self.has_index() { ((1u64 << self.directory_bits) + 1) * 4 } else { 0 }
    }

    fn entries_at(&self) -> u64 {
        (self.directory_at() + self.directory_bytes()).next_multiple_of(PAGE as u64)
    }

    fn expected_pages(&self) -> u64 {
        let entries = if self.has_index() { self.entries.min(1 << 50) * ENTRY_BYTES } else { 0 };
        (self.entries_at() + entries).div_ceil(PAGE as u64)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = KIND.encoder(self.id, &self.history);
        out.u64(self.entries).u32(self.slots).u32(u32::from(self.directory_bits));
        out.u64(self.blocks).u64(self.pages).u32(self.sums_crc);
        header_page(out.finish())
    }

    fn decode(page: &[u8], path: &Path) -> Result<Self> {
        let (mut from, id, history) = KIND.decoder(page, path)?;
        let (entries, slots) = (from.u64()?, from.u32()?);
        let bits = from.u32()?;
        let (blocks, pages, sums_crc) = (from.u64()?, from.u64()?, from.u32()?);
        let header = Self { id, history, entries, slots, blocks, directory_bits: bits.min(32) as u8, pages, sums_crc };
        if bits > 32 || header.expected_pages() != pages {
            return Err(Error::corrupt(path, 0, "the header contradicts itself: sizes and pages"));
        }
        Ok(header)
    }
}

/// The index's tag of a key: bits that neither the order nor the filter uses.
#[inline]
fn tag_of(key: Key, slot_bits: u32) -> u16 {
    (key.lo >> 48) as u16 >> slot_bits
}

impl GlobalFilter {
    pub(crate) fn open(system: &dyn FileSystem, path: &Path, history: [u8; 16]) -> Result<Arc<Self>> {
        let (file, page, sum) = KIND.open(system, path, Some(history))?;
        let header = FilterHeader::decode(&page, path)?;
        let pages = Pages::open(file, header.pages, header.sums_crc)?;
        let filter = Region::new(PAGE as u64, header.filter_bytes());
        Ok(Arc::new(Self { sum, header, pages, filter }))
    }

    /// Open a filter that is about to get the name `path`, and read it whole: those who use it then
    /// need not verify its pages.
    pub(crate) fn open_verified(
        system: &dyn FileSystem,
        from: &Path,
        path: &Path,
        history: [u8; 16],
    ) -> Result<Arc<Self>> {
        let mut filter = Self::open(system, from, history)?;
        filter.verify(&mut |_| {})?;
        if let Some(filter) = Arc::get_mut(&mut filter) {
            filter.pages.rename(path);
        }
        Ok(filter)
    }

    pub(crate) fn sum(&self) -> u32 {
        self.sum
    }

    /// Number of segments it was built over.
    pub(crate) fn slots(&self) -> usize {
        self.header.slots as usize
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.pages.file_bytes()
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages.count()
    }

    pub(crate) fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.pages.verify_all(progress)
    }

    /// Number of keys in it.
    pub(crate) fn entries(&self) -> u64 {
        self.header.entries
    }

    /// Bytes of its blocks.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.header.filter_bytes()
    }

    /// Its blocks, verified: borrowed from the mapping, or read into `scratch`.
    pub(crate) fn blocks<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        self.pages.bytes(PAGE as u64, self.header.filter_bytes() as usize, scratch)
    }

    /// The rows that the filter does not rule out, counted from `first_row`.
    pub(crate) fn may_contain(&self, wanted: &Wanted, first_row: u32, survivors: &mut Vec<u32>) -> Result<()> {
        probe(&self.pages, &self.filter, wanted, first_row, survivors)
    }

    /// The segments to ask about the keys that passed the filter, sorted by segment.
    pub(crate) fn candidates(&self, survivors: &Wanted) -> Result<Vec<Candidate>> {
        let mut found = Vec::with_capacity(survivors.keys.len() + 16);
        if !self.header.has_index() {
            for slot in 0..self.header.slots {
                found.extend((0..survivors.keys.len() as u32).map(|row| Candidate { slot, row }));
            }
            return Ok(found);
        }
        let mut scratch = Vec::new();
        for (first, keys) in (0..).step_by(GROUP).zip(survivors.keys.chunks(GROUP)) {
            let mut ranges = [(0u64, 0usize); GROUP];
            self.fetch_directory(keys);
            for (range, key) in ranges.iter_mut().zip(keys) {
                *range = self.bucket(*key, &mut scratch)?;
                let at = self.header.entries_at() + range.0 * ENTRY_BYTES;
                // A bucket spans one or two lines, rarely three.
                let length = range.1 as u64 * ENTRY_BYTES;
                for within in [0, length.min(LINE), length] {
                    self.fetch(at + within);
                }
            }
            for (row, ((start, count), key)) in (first..).zip(ranges.iter().zip(keys)) {
                self.scan(*start, *count, *key, row, &mut scratch, &mut found)?;
            }
        }
        Ok(by_slot(&found, self.slots()))
    }

    fn fetch(&self, offset: u64) {
        if let Some(content) = self.pages.mapped() {
            prefetch::line(content, offset as usize);
        }
    }

    fn fetch_directory(&self, keys: &[Key]) {
        for key in keys {
            let bucket = bucket_of(key.hi, self.header.directory_bits);
            self.fetch(self.header.directory_at() + bucket as u64 * 4);
        }
    }

    /// First entry and number of entries of a key's bucket.
    fn bucket(&self, key: Key, scratch: &mut Vec<u8>) -> Result<(u64, usize)> {
        let bucket = bucket_of(key.hi, self.header.directory_bits);
        let pair = self.pages.bytes(self.header.directory_at() + bucket as u64 * 4, 8, scratch)?;
        let start = u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]);
        let end = u32::from_le_bytes([pair[4], pair[5], pair[6], pair[7]]);
        if start > end || u64::from(end) > self.header.entries {
            let at = self.header.directory_at();
            return Err(Error::corrupt(self.pages.path(), at, "the directory points past the entries"));
        }
        Ok((u64::from(start), (end - start) as usize))
    }

    /// The entries of a bucket whose tag is the key's.
    fn scan(
        &self,
        start: u64,
        count: usize,
        key: Key,
        row: u32,
        scratch: &mut Vec<u8>,
        found: &mut Vec<Candidate>,
    ) -> Result<()> {
        let slot_bits = self.header.slot_bits();
        let tag = tag_of(key, slot_bits);
        let from = found.len();
        for first in (0..count).step_by(WINDOW / ENTRY_BYTES as usize) {
            let at = self.header.entries_at() + (start + first as u64) * ENTRY_BYTES;
            let left = (self.pages.count() * PAGE as u64).saturating_sub(at);
            let bytes = self.pages.bytes(at, left.min(WINDOW as u64) as usize, scratch)?;
            let mut padded = [0; WINDOW];
            let window = bytes.first_chunk().unwrap_or_else(|| {
                padded[..bytes.len()].copy_from_slice(bytes);
                &padded
            });
            // What follows the bucket is another's.
            let places = with_tag(window, slot_bits, tag).filter(|place| first + place < count);
            for at in places.map(|place| place * ENTRY_BYTES as usize) {
                let slot = u32::from(u16::from_le_bytes([window[at], window[at + 1]])) & ((1 << slot_bits) - 1);
                let candidate = Candidate { slot, row };
                // One look-up in a segment finds all of a key's entries there.
                if slot < self.header.slots && !found[from..].contains(&candidate) {
                    found.push(candidate);
                }
            }
        }
        Ok(())
    }
}

/// Sorted by segment, so that each segment is asked once about all its rows.
fn by_slot(found: &[Candidate], slots: usize) -> Vec<Candidate> {
    let mut starts = vec![0u32; slots + 1];
    for candidate in found {
        starts[candidate.slot as usize + 1] += 1;
    }
    for slot in 0..slots {
        starts[slot + 1] += starts[slot];
    }
    let mut sorted = vec![Candidate::default(); found.len()];
    for candidate in found {
        let place = &mut starts[candidate.slot as usize];
        sorted[*place as usize] = *candidate;
        *place += 1;
    }
    sorted
}
