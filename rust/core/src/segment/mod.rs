//! Immutable, sorted files of entries of one time partition.

mod buckets;
mod file;
mod find;
pub(crate) mod format;
pub(crate) mod global;
pub(crate) mod merge;
mod pieces;
pub(crate) mod run;
mod salvage;
pub(crate) mod settle;
pub(crate) mod sort;
pub(crate) mod target;
mod texts;
pub(crate) mod values;
pub(crate) mod writer;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use format::{KIND, Mark, Part, STAMP_BYTES, SegmentHeader, Stamp};

use crate::filter;
use crate::io::FileSystem;
use crate::io::pages::{PAGE, Pages};
use crate::key::{Form, Key};
use crate::{Error, Result};

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    header: SegmentHeader,
    /// The header page's checksum, by which the manifest identifies this file.
    sum: u32,
    pages: Pages,
    filter: Region,
}

/// The keys to look up, as columns.
pub(crate) struct Wanted<'a> {
    pub(crate) keys: &'a [Key],
    pub(crate) forms: &'a [Form],
    /// The text of a row whose form is text.
    pub(crate) text: &'a (dyn Fn(u32) -> &'a [u8] + Sync),
}

impl<'a> Wanted<'a> {
    /// The text of a row; none for a UUID.
    #[inline]
    pub(crate) fn text_of(&self, row: usize) -> Option<&'a [u8]> {
        (self.forms[row] != Form::Uuid).then(|| (self.text)(row as u32))
    }
}

/// A filter within its file.
#[derive(Debug)]
pub(crate) struct Region {
    offset: u64,
    length: u64,
    /// Whether all its pages are verified.
    verified: AtomicBool,
}

impl Region {
    /// `length` bytes from `offset`, which is the start of a page.
    pub(crate) fn new(offset: u64, length: u64) -> Self {
        Self { offset, length, verified: AtomicBool::new(false) }
    }
}

/// Pages of a filter within its file.
pub(crate) struct FilterPages<'a> {
    pub(crate) pages: &'a Pages,
    pub(crate) first: u64,
    pub(crate) all: bool,
}

impl filter::Pages for FilterPages<'_> {
    #[inline]
    fn is_verified(&self, page: u64) -> bool {
        self.pages.is_verified(self.first + page)
    }

    #[inline]
    fn are_verified(&self) -> bool {
        self.all
    }

    fn verify(&self, page: u64) -> Result<()> {
        self.pages.verify(self.first + page)
    }
}

/// Ask a filter about all rows; rows that it may contain are appended to `survivors`, counted from
/// `first_row`.
pub(crate) fn probe(
    pages: &Pages,
    filter: &Region,
    wanted: &Wanted,
    first_row: u32,
    survivors: &mut Vec<u32>,
) -> Result<()> {
    let (offset, length, first) = (filter.offset, filter.length, filter.offset / PAGE as u64);
    if let Some(content) = pages.mapped() {
        let data = &content[offset as usize..(offset + length) as usize];
        let access = FilterPages { pages, first, all: filter.verified.load(Ordering::Relaxed) };
        filter::probe(data, wanted.keys, wanted.forms, first_row, &access, survivors)?;
        // The search ends at the first page that is not verified yet.
        if !access.all && (first..first + length.div_ceil(PAGE as u64)).all(|page| pages.is_verified(page)) {
            filter.verified.store(true, Ordering::Relaxed);
        }
        return Ok(());
    }
    // Without a mapping: one small read a key.
    let mut scratch = Vec::new();
    let blocks = length / filter::BLOCK_BYTES as u64;
    let usable = wanted.keys.iter().enumerate().filter(|(row, _)| wanted.forms[*row].is_usable());
    for (row, key) in usable {
        let at = offset + filter::block_of(*key, blocks) * filter::BLOCK_BYTES as u64;
        let block = pages.bytes(at, filter::BLOCK_BYTES, &mut scratch)?;
        if block.first_chunk().is_some_and(|block| filter::contains_block(block, *key)) {
            survivors.push(first_row + row as u32);
        }
    }
    Ok(())
}

impl Segment {
    pub(crate) fn open(system: &dyn FileSystem, path: &Path, history: [u8; 16]) -> Result<Arc<Self>> {
        let (file, page, sum) = KIND.open(system, path, Some(history))?;
        let header = SegmentHeader::decode(&page, path)?;
        let pages = Pages::open(file, header.pages, header.sums_crc)?;
        let section = header.section(Part::Filter);
        let filter = Region::new(section.offset, section.length);
        Ok(Arc::new(Self { header, sum, pages, filter }))
    }

    pub(crate) fn header(&self) -> &SegmentHeader {
        &self.header
    }

    pub(crate) fn sum(&self) -> u32 {
        self.sum
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.pages.file_bytes()
    }

    pub(crate) fn path(&self) -> &Path {
        self.pages.path()
    }

    pub(crate) fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.pages.verify_all(progress)
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages.count()
    }

    /// The rows that this segment's filter does not rule out, counted from `first_row`.
    pub(crate) fn may_contain(&self, wanted: &Wanted, first_row: u32, survivors: &mut Vec<u32>) -> Result<()> {
        probe(&self.pages, &self.filter, wanted, first_row, survivors)
    }

    /// The places of a bucket's keys.
    fn bucket(&self, directory: Part, count: u64, bucket: usize, scratch: &mut Vec<u8>) -> Result<Range<u64>> {
        let pair = self.slice(directory, bucket as u64 * 4, 8, scratch)?;
        let start = u64::from(u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]));
        let end = u64::from(u32::from_le_bytes([pair[4], pair[5], pair[6], pair[7]]));
        if start > end || end > count {
            return Err(self.directory_points_past(directory));
        }
        Ok(start..end)
    }

    /// Where some buckets start, and where the last of them ends; answers the places of their keys.
    fn starts(
        &self,
        directory: Part,
        count: u64,
        buckets: Range<usize>,
        starts: &mut Vec<u32>,
        scratch: &mut Vec<u8>,
    ) -> Result<Range<u64>> {
        let bytes = self.slice(directory, buckets.start as u64 * 4, (buckets.len() + 1) * 4, scratch)?;
        starts.clear();
        starts.extend(bytes.chunks_exact(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])));
        let (first, end) = (u64::from(starts[0]), u64::from(starts[buckets.len()]));
        if end > count || !starts.is_sorted() {
            return Err(self.directory_points_past(directory));
        }
        Ok(first..end)
    }

    fn directory_points_past(&self, directory: Part) -> Error {
        let offset = self.header.section(directory).offset;
        Error::corrupt(self.path(), offset, "the directory points past the keys")
    }

    fn slice<'a>(&'a self, part: Part, offset: u64, length: usize, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let section = self.header.section(part);
        if offset + length as u64 > section.length {
            return Err(Error::corrupt(self.path(), section.offset, "an index points past its section"));
        }
        self.pages.bytes(section.offset + offset, length, scratch)
    }

    /// All stamps of this segment.
    pub(crate) fn stamps(&self) -> Result<Vec<Stamp>> {
        let mut scratch = Vec::new();
        (0..u64::from(self.header.stamps)).map(|number| self.stamp(number, &mut scratch)).collect()
    }

    /// The stamp of the entry at `place`.
    pub(crate) fn stamp_at(&self, part: Part, place: u64, scratch: &mut Vec<u8>) -> Result<Stamp> {
        self.stamp(self.stamp_number(part, place, scratch)?, scratch)
    }

    /// Which stamp the entry at `place` has.
    #[inline]
    fn stamp_number(&self, part: Part, place: u64, scratch: &mut Vec<u8>) -> Result<u64> {
        let bits = self.header.stamp_bits;
        if bits == 0 {
            return Ok(0);
        }
        let at = place * u64::from(bits);
        let bytes = self.slice(part, at >> 3, 8, scratch)?;
        let word = bytes.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
        Ok((word >> (at & 7)) & ((1u64 << bits) - 1))
    }

    /// Which stamps the entries at some places have, one after the other.
    fn stamp_numbers(
        &self,
        part: Part,
        places: Range<u64>,
        numbers: &mut Vec<u64>,
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        numbers.clear();
        let (bits, count) = (u64::from(self.header.stamp_bits), (places.end - places.start) as usize);
        if bits == 0 || count == 0 {
            numbers.resize(count, 0);
            return Ok(());
        }
        // Eight bytes are there for each of them.
        let first = (places.start * bits) >> 3;
        let length = (((places.end - 1) * bits) >> 3) + 8 - first;
        let bytes = self.slice(part, first, length as usize, scratch)?;
        let number = |place: u64| {
            let at = place * bits;
            let word = bytes[(at / 8 - first) as usize..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            (word >> (at & 7)) & ((1 << bits) - 1)
        };
        numbers.extend(places.map(number));
        Ok(())
    }

    fn stamp(&self, number: u64, scratch: &mut Vec<u8>) -> Result<Stamp> {
        let bytes = self.slice(Part::Stamps, number * STAMP_BYTES as u64, STAMP_BYTES, scratch)?;
        let field = |at: usize| bytes[at..].first_chunk::<8>().map_or(0, |field| u64::from_le_bytes(*field));
        let Some(mark) = Mark::from_u8(bytes[16]) else {
            return Err(Error::corrupt(
                self.path(),
                self.header.section(Part::Stamps).offset,
                "a stamp with an unknown mark",
            ));
        };
        Ok(Stamp { claim: field(0), started_at: field(8) as i64, mark })
    }

    /// The text of the text entry at `place`.
    pub(crate) fn text_at<'a>(&'a self, place: u64, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let pair = self.slice(Part::TextOffsets, place * 8, 16, scratch)?;
        let field = |at: usize| pair[at..].first_chunk::<8>().map_or(0, |field| u64::from_le_bytes(*field));
        let (start, end) = (field(0), field(8));
        if start > end || end - start > u64::from(u16::MAX) || end > self.header.section(Part::TextHeap).length {
            return Err(Error::corrupt(
                self.path(),
                self.header.section(Part::TextOffsets).offset,
                "a text reaches past its section",
            ));
        }
        self.slice(Part::TextHeap, start, (end - start) as usize, scratch)
    }
}
