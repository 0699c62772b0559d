//! A rolled-up filter: one split-block Bloom filter over many segments, so that a miss costs one cache line however many
//! time partitions there are. It is derivable from the segments and never trusted for a positive.

use std::path::Path;
use std::sync::Arc;

use crate::bytes::{Reader, Writer};
use crate::filter;
use crate::io::FileSystem;
use crate::key::Key;
use crate::pages::{PAGE, Pages, header_page, header_sum};
use crate::segment::{Segment, Wanted, probe};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"DHROLLUP";
const VERSION: u32 = 1;
/// Bits an id.
const BITS: u32 = 12;
/// Blocks that are built in memory at a time.
const WINDOW: u64 = (8 << 20) / filter::BLOCK_BYTES as u64;

/// An open rolled-up filter.
#[derive(Debug)]
pub(crate) struct Rollup {
    sum: u32,
    blocks: u64,
    pages: Pages,
}

impl Rollup {
    pub(crate) fn open(system: &dyn FileSystem, path: &Path, history: [u8; 16]) -> Result<Arc<Self>> {
        let file = system.open(path, false).map_err(Error::io("open", path))?;
        let length = file.len().map_err(Error::io("look at", path))?;
        if length < PAGE as u64 {
            return Err(Error::corrupt(path, length, "shorter than a header"));
        }
        let mut page = vec![0; PAGE];
        file.read_at(&mut page, 0).map_err(Error::io("read", path))?;
        let mut from = Reader::new(&page, path);
        from.preamble(MAGIC, VERSION)?;
        if crc32c::crc32c(&page[..PAGE - 4]) != header_sum(&page) {
            return Err(Error::corrupt(path, 0, "the header does not match its checksum"));
        }
        from.u32()?;
        let (_id, owner, blocks, pages, sums) = (from.u64()?, from.bytes16()?, from.u64()?, from.u64()?, from.u32()?);
        if owner != history {
            return Err(Error::corrupt(path, 24, "this filter belongs to another history"));
        }
        if pages.saturating_sub(1) != bytes_of(blocks).div_ceil(PAGE as u64) {
            return Err(Error::corrupt(path, 0, "the header contradicts itself: blocks and pages"));
        }
        Ok(Arc::new(Self { sum: header_sum(&page), blocks, pages: Pages::open(path, file, pages, sums)? }))
    }

    pub(crate) fn sum(&self) -> u32 {
        self.sum
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

    pub(crate) fn may_contain(&self, wanted: &Wanted, survivors: &mut Vec<u32>) -> Result<()> {
        probe(&self.pages, PAGE as u64, bytes_of(self.blocks), wanted, None, survivors)
    }
}

fn bytes_of(blocks: u64) -> u64 {
    blocks.saturating_mul(filter::BLOCK_BYTES as u64)
}

/// Write the filter over `segments` as file `id`, window by window: sorted keys fill it from front to back, so the
/// memory needed does not depend on its size. Its bytes are durable on return, its name is not.
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
    let pages = 1 + bytes_of(blocks).div_ceil(PAGE as u64);
    let file = system.create(path).map_err(Error::io("create", path))?;
    let mut sums = vec![0; 4];
    let mut cursors: Vec<_> = segments.iter().flat_map(crate::segment::merge::KeyCursor::both).collect();
    let mut window = Vec::new();
    let mut first = 0;
    while first < blocks {
        let last = (first + WINDOW).min(blocks);
        window.clear();
        window.resize((bytes_of(last - first) as usize).next_multiple_of(PAGE), 0);
        let mut done = 0;
        for cursor in &mut cursors {
            done += cursor.take_while(|key| insert_within(&mut window, key, first, last, blocks))?;
        }
        sums.extend(page_sums_of(&window));
        let at = PAGE as u64 + bytes_of(first);
        file.write_at(&window, at).map_err(Error::io("write", path))?;
        progress(done)?;
        first = last;
    }
    let sums_crc = crc32c::crc32c(&sums);
    file.write_at(&sums, pages * PAGE as u64).map_err(Error::io("write", path))?;
    let mut out = Writer::new();
    out.raw(&MAGIC).u32(VERSION).u32(PAGE as u32).u64(id).raw(&history).u64(blocks).u64(pages).u32(sums_crc);
    let header = header_page(out.finish());
    file.write_at(&header, 0).map_err(Error::io("write", path))?;
    file.sync().map_err(Error::io("sync", path))?;
    Ok(header_sum(&header))
}

/// Insert a key whose block lies in the window; false once a key lies behind it.
fn insert_within(window: &mut [u8], key: Key, first: u64, last: u64, blocks: u64) -> bool {
    let block = filter::block_of(key, blocks);
    if block >= last {
        return false;
    }
    let at = bytes_of(block - first) as usize;
    filter::insert(&mut window[at..at + filter::BLOCK_BYTES], key);
    true
}

fn page_sums_of(content: &[u8]) -> Vec<u8> {
    content.chunks(PAGE).map(crc32c::crc32c).flat_map(u32::to_le_bytes).collect()
}
