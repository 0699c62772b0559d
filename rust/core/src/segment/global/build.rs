//! Building a global filter by sequential passes over sorted keys, a window at a time: the memory
//! needed does not depend on its size.

use std::path::Path;
use std::sync::Arc;

use super::{BITS, ENTRY_BYTES, FilterHeader, tag_of};
use crate::Result;
use crate::filter;
use crate::io::FileSystem;
use crate::key::Key;
use crate::segment::Segment;
use crate::segment::file::Output;
use crate::segment::format::{BUCKET, bucket_of};
use crate::segment::merge::KeyCursor;
use crate::sys::memory::Zeroed;

/// Blocks of the filter that are built at a time: whole pages, few enough to stay in a cache.
const WINDOW_BLOCKS: u64 = (1 << 20) / filter::BLOCK_BYTES as u64;
/// Entries of the index that are collected at a time, about.
const WINDOW_ENTRIES: u64 = 1 << 18;

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
    let mut counts = Counts::of(if header.has_index() { 1 << directory_bits } else { 0 });
    write_filter(&mut out, &header, segments, &mut counts, progress)?;
    if header.has_index() {
        write_index(&mut out, &header, segments, counts)?;
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

/// How many keys are in each bucket of the index, and then in all up to it. They are many where a
/// filter is large, and need not stay with the thread's allocator.
struct Counts(Zeroed);

impl Counts {
    fn of(buckets: usize) -> Self {
        Self(Zeroed::of(buckets * size_of::<u32>()))
    }

    fn slots(&mut self) -> &mut [[u8; 4]] {
        self.0.as_chunks_mut().0
    }

    /// Count a key, if there is an index.
    fn add(&mut self, bucket: usize) {
        if let Some(slot) = self.slots().get_mut(bucket) {
            *slot = (u32::from_ne_bytes(*slot) + 1).to_ne_bytes();
        }
    }

    fn sum_up(&mut self) {
        let mut sum = 0;
        for slot in self.slots() {
            sum += u32::from_ne_bytes(*slot);
            *slot = sum.to_ne_bytes();
        }
    }

    /// The keys in buckets before this one, once summed up.
    fn before(&self, bucket: usize) -> u32 {
        let slot = bucket.checked_sub(1).map(|bucket| self.0.as_chunks::<4>().0[bucket]);
        slot.map_or(0, u32::from_ne_bytes)
    }
}

/// Write the filter; count meanwhile how many keys each bucket of the index has.
fn write_filter(
    out: &mut Output,
    header: &FilterHeader,
    segments: &[Arc<Segment>],
    counts: &mut Counts,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut cursors = cursors(segments);
    let mut window = Vec::new();
    let mut first = 0;
    while first < header.blocks {
        let last = (first + WINDOW_BLOCKS).min(header.blocks);
        window.clear();
        window.resize((last - first) as usize * filter::BLOCK_BYTES, 0);
        let within = |key: &Key| filter::block_of(*key, header.blocks) < last;
        let mut done = 0;
        for (_, cursor) in &mut cursors {
            done += cursor.take_many(within, |keys| {
                filter::insert_part(&mut window, first, header.blocks, keys.iter().copied());
                for key in keys {
                    counts.add(bucket_of(key.hi, header.directory_bits));
                }
            })?;
        }
        out.push(&window)?;
        progress(done)?;
        first = last;
    }
    out.end_page()
}

/// The directory is small; the entries follow it, window by window. `counts` are those of
/// [`write_filter`].
fn write_index(out: &mut Output, header: &FilterHeader, segments: &[Arc<Segment>], mut counts: Counts) -> Result<()> {
    let buckets = 1usize << header.directory_bits;
    counts.sum_up();
    for bucket in 0..=buckets {
        out.push(&counts.before(bucket).to_le_bytes())?;
    }
    out.end_page()?;
    let mut cursors = cursors(segments);
    let mut first = 0;
    while first < buckets {
        let full = |last: &usize| u64::from(counts.before(*last) - counts.before(first)) >= WINDOW_ENTRIES;
        let last = (first + 1..buckets).find(full).unwrap_or(buckets);
        let mut window = vec![0; (counts.before(last) - counts.before(first)) as usize * ENTRY_BYTES as usize];
        let mut next: Vec<u32> = (first..last).map(|bucket| counts.before(bucket) - counts.before(first)).collect();
        for (slot, cursor) in &mut cursors {
            cursor.take_while(|key| {
                let bucket = bucket_of(key.hi, header.directory_bits);
                if bucket < last {
                    let place = &mut next[bucket - first];
                    let entry = (tag_of(key, header.slot_bits()) << header.slot_bits()) | *slot as u16;
                    let at = *place as usize * ENTRY_BYTES as usize;
                    window[at..at + ENTRY_BYTES as usize].copy_from_slice(&entry.to_le_bytes());
                    *place += 1;
                }
                bucket < last
            })?;
        }
        out.push(&window)?;
        first = last;
    }
    out.end_page()
}
