//! Building a global filter by sequential passes over sorted keys, a window at a time: the memory
//! needed does not depend on its size.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::{BITS, ENTRY_BYTES, FilterHeader, tag_of};
use crate::Result;
use crate::filter;
use crate::io::{FileSystem, Spool};
use crate::key::Key;
use crate::segment::Segment;
use crate::segment::buckets::{BUCKET, bucket_of};
use crate::segment::file::Output;
use crate::segment::merge::KeyCursor;
use crate::sys::buffer::{Buffer, buffer};
use crate::sys::memory::Zeroed;

/// Blocks of the filter that are built at a time: whole pages, few enough to stay in a cache.
const WINDOW_BLOCKS: u64 = (1 << 20) / filter::BLOCK_BYTES as u64;
/// Buckets of the index whose entries are collected at a time.
const WINDOW_BUCKETS: usize = 1 << 13;

/// Write the filter over `segments` as file `id`. Its bytes are durable on return, its name is not.
/// Answers the checksum of its header.
pub(crate) fn build(
    system: &dyn FileSystem,
    path: &Path,
    id: u64,
    history: [u8; 16],
    segments: &[Arc<Segment>],
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<u32> {
    let entries = segments.iter().map(|segment| segment.header().entries()).sum();
    let blocks = filter::blocks_for(entries, BITS);
    let slots = segments.len() as u32;
    let directory_bits = directory_bits(entries);
    let mut header = FilterHeader { id, history, entries, slots, blocks, directory_bits, pages: 0, sums_crc: 0 };
    header.pages = header.expected_pages();
    let mut out = Output::create(system, path)?;
    let mut ends = Ends::of(&header, system, path);
    write_filter(&mut out, &header, segments, &mut ends, progress)?;
    if let Some(ends) = &ends.all {
        write_index(&mut out, &header, segments, ends)?;
    }
    let finished = out.finish(|sums_crc| {
        header.sums_crc = sums_crc;
        header.encode()
    });
    finished.map(|(sum, _)| sum)
}

/// Bits of the directory for `entries` entries: buckets of 23 to 45, nearest to what they are meant
/// to have. Each entry of a bucket is compared, and those of a larger one are on a line more.
fn directory_bits(entries: u64) -> u8 {
    (entries.saturating_mul(181) / 128 / BUCKET).checked_ilog2().unwrap_or(0) as u8
}

fn cursors(segments: &[Arc<Segment>]) -> Vec<(u32, KeyCursor<'_>)> {
    let number = |(slot, segment)| KeyCursor::both(segment).map(|cursor| (slot as u32, cursor));
    segments.iter().enumerate().flat_map(number).collect()
}

/// Where the buckets of the index end. They are put aside as soon as no key of them is left: in a
/// large filter they are many.
struct Ends<'a> {
    bits: u8,
    /// None where there is no index.
    all: Option<Spool<'a>>,
    /// The keys of all buckets that are put aside, and the number of the next one.
    sum: u32,
    first: usize,
    /// How many keys the buckets from there on have so far.
    counts: VecDeque<u32>,
}

impl<'a> Ends<'a> {
    fn of(header: &FilterHeader, system: &'a dyn FileSystem, path: &'a Path) -> Self {
        let all = header.has_index().then(|| Spool::new(system, path));
        Self { bits: header.directory_bits, all, sum: 0, first: 0, counts: VecDeque::new() }
    }

    /// Count keys, if there is an index.
    fn add(&mut self, keys: &[Key]) {
        if self.all.is_none() {
            return;
        }
        for key in keys {
            // Only a damaged segment has keys that come too late: its own checks tell.
            let at = bucket_of(key.hi, self.bits).saturating_sub(self.first);
            if at >= self.counts.len() {
                self.counts.resize(at + 1, 0);
            }
            self.counts[at] += 1;
        }
    }

    /// All keys that are left come at or after `hi`; none are left without it.
    fn pass(&mut self, hi: Option<u64>) -> Result<()> {
        let Some(all) = &mut self.all else { return Ok(()) };
        let next = hi.map_or(1 << self.bits, |hi| bucket_of(hi, self.bits));
        for _ in self.first..next {
            self.sum += self.counts.pop_front().unwrap_or(0);
            all.push(&self.sum.to_le_bytes())?;
        }
        self.first = next;
        Ok(())
    }
}

/// The first upper half of a key of this block, out of `blocks`.
fn first_of_block(block: u64, blocks: u64) -> Option<u64> {
    u64::try_from((u128::from(block) << 64).div_ceil(u128::from(blocks))).ok()
}

/// Write the filter; find out meanwhile where the buckets of the index end.
fn write_filter(
    out: &mut Output,
    header: &FilterHeader,
    segments: &[Arc<Segment>],
    ends: &mut Ends,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut cursors = cursors(segments);
    let mut all = Zeroed::of(WINDOW_BLOCKS.min(header.blocks) as usize * filter::BLOCK_BYTES);
    let mut first = 0;
    while first < header.blocks {
        let last = (first + WINDOW_BLOCKS).min(header.blocks);
        let window = &mut all[..(last - first) as usize * filter::BLOCK_BYTES];
        window.fill(0);
        let within = |key: &Key| filter::block_of(*key, header.blocks) < last;
        let mut done = 0;
        for (_, cursor) in &mut cursors {
            done += cursor.take_many(within, |keys| {
                filter::insert_part(window, first, header.blocks, keys.iter().copied());
                ends.add(keys);
            })?;
        }
        ends.pass(first_of_block(last, header.blocks))?;
        out.push(window)?;
        progress(done)?;
        first = last;
    }
    out.end_page()
}

/// Entries of some buckets of the index.
struct Window {
    /// The first bucket, and where the next entry of each goes.
    first: usize,
    next: Vec<u32>,
    entries: Buffer<[u8; ENTRY_BYTES as usize]>,
}

impl Window {
    /// Room for the buckets from `first` on, whose entries end here, counted from the first one.
    fn new(first: usize, ends: impl Iterator<Item = u32>) -> Self {
        let mut next: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let count = next.pop().unwrap_or(0);
        let mut entries = buffer(count as usize);
        entries.resize(count as usize, [0; ENTRY_BYTES as usize]);
        Self { first, next, entries }
    }

    /// Answers false where there is no room: the keys come in another order than before.
    #[inline]
    fn put(&mut self, bucket: usize, entry: u16) -> bool {
        let Some(place) = self.next.get_mut(bucket.wrapping_sub(self.first)) else { return false };
        let Some(slot) = self.entries.get_mut(*place as usize) else { return false };
        *slot = entry.to_le_bytes();
        *place += 1;
        true
    }
}

/// The directory, which says where each bucket starts, and then the entries, window by window.
fn write_index(out: &mut Output, header: &FilterHeader, segments: &[Arc<Segment>], ends: &Spool) -> Result<()> {
    out.push(&u32::to_le_bytes(0))?;
    ends.each(|ends| out.push(ends))?;
    out.end_page()?;
    let (mut cursors, mut ends) = (cursors(segments), ends.reader());
    let (buckets, mut first, mut start) = (1usize << header.directory_bits, 0, 0);
    let (bucket, slot_bits) = (|key: &Key| bucket_of(key.hi, header.directory_bits), header.slot_bits());
    while first < buckets {
        let last = (first + WINDOW_BUCKETS).min(buckets);
        let mut read = vec![0; (last - first) * size_of::<u32>()];
        ends.fill(&mut read)?;
        let of_buckets = read.as_chunks().0.iter().map(|end| u32::from_le_bytes(*end) - start);
        let mut window = Window::new(first, of_buckets);
        for (slot, cursor) in &mut cursors {
            let mut is_whole = true;
            let mut put = |key: &Key| window.put(bucket(key), (tag_of(*key, slot_bits) << slot_bits) | *slot as u16);
            cursor.take_many(|key| bucket(key) < last, |keys| is_whole &= keys.iter().all(&mut put))?;
            if !is_whole {
                return Err(cursor.disordered());
            }
        }
        out.push(window.entries.as_flattened())?;
        (first, start) = (last, start + window.entries.len() as u32);
    }
    out.end_page()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_refuses_keys_that_come_in_no_order() {
        let mut window = Window::new(7, [1, 1, 3].into_iter());
        let put = |window: &mut Window, buckets: &[usize]| buckets.iter().all(|bucket| window.put(*bucket, 0xabcd));
        assert!(put(&mut window, &[7, 9, 9]));
        assert_eq!(window.entries, [[0xcd, 0xab]; 3]);
        // Before and behind its buckets, and more than there is room for.
        for bucket in [6, 10, 9] {
            assert!(!put(&mut window, &[bucket]), "bucket {bucket}");
        }
    }

    #[test]
    fn block_begins_with_the_first_key_that_is_in_it() {
        for blocks in [1, 2, 3, 7, 4096, 1_000_003] {
            for block in [0, 1, blocks / 2, blocks - 1] {
                let hi = first_of_block(block, blocks);
                assert_eq!(hi.is_none(), block >= blocks);
                let Some(hi) = hi else { continue };
                assert_eq!(filter::block_of(Key { hi, lo: 0 }, blocks), block);
                let before = hi.checked_sub(1).map(|hi| filter::block_of(Key { hi, lo: u64::MAX }, blocks));
                assert!(before.is_none_or(|before| before < block), "block {block} of {blocks}");
            }
        }
        assert_eq!(first_of_block(7, 7), None);
    }
}
