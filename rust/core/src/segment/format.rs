//! The layout of a segment file (docs/format.md, "Segment"): a header page, sections, page
//! checksums.

use std::path::Path;

pub(crate) use super::buckets::key_bytes;
use super::file::Section;
use super::file::{Kind, lay_out};
use crate::io::pages::{PAGE, header_page};
use crate::{Error, Result};

pub(super) const KIND: Kind = Kind { magic: *b"DHSEGMNT", version: 1, belongs: "this segment belongs" };

/// Bits of a segment's own filter an id: it is asked until a filter over many segments covers them.
/// Large segments, which hold most of the bytes, do with fewer.
pub(crate) fn filter_bits(entries: u64) -> u32 {
    if entries < 1 << 18 { 8 } else { 6 }
}

/// Maximum entries of one segment, so that writing one needs bounded memory.
pub(crate) const MOST_ENTRIES: usize = if cfg!(feature = "small") { 1 << 10 } else { 4 << 20 };

/// The state of an entry by its stamp, as far as this file knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Mark {
    /// Follows the outcome of its claim.
    Open = 0,
    /// The claim was released for this key.
    Released = 1,
    /// Completed.
    Completed = 2,
}

impl Mark {
    pub(crate) fn from_u8(value: u8) -> Option<Self> {
        [Self::Open, Self::Released, Self::Completed].into_iter().find(|mark| *mark as u8 == value)
    }
}

/// The claim that began an entry, when, and how it ended. Many entries have the same stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stamp {
    /// Sequence number of the claim; 0 for entries whose claim no longer matters.
    pub(crate) claim: u64,
    /// Microseconds since 1970, UTC.
    pub(crate) started_at: i64,
    pub(crate) mark: Mark,
}

/// Bytes of a stamp on disk.
pub(crate) const STAMP_BYTES: usize = 24;

/// The sections, in file order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Part {
    UuidKeys,
    UuidDirectory,
    UuidStamps,
    TextKeys,
    TextDirectory,
    TextStamps,
    TextOffsets,
    TextHeap,
    Stamps,
    Filter,
}

pub(crate) const PARTS: usize = 10;
/// Segments that a header names as those it was compacted from; of more it names none.
pub(crate) const MOST_SOURCES: usize = 256;

/// The header page.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentHeader {
    pub(crate) id: u64,
    pub(crate) history: [u8; 16],
    pub(crate) min_started_at: i64,
    pub(crate) max_started_at: i64,
    pub(crate) uuids: u64,
    pub(crate) texts: u64,
    pub(crate) stamps: u32,
    /// Entries that are open in this file.
    pub(crate) open: u64,
    pub(crate) stamp_bits: u8,
    pub(crate) uuid_directory_bits: u8,
    pub(crate) text_directory_bits: u8,
    pub(crate) filter_blocks: u64,
    pub(crate) sections: [Section; PARTS],
    pub(crate) pages: u64,
    pub(crate) sums_crc: u32,
    /// The segments whose compaction wrote this one: it has no entry that none of them had. Empty
    /// where that is not known.
    pub(crate) sources: Vec<u64>,
}

impl SegmentHeader {
    pub(crate) fn section(&self, part: Part) -> Section {
        self.sections[part as usize]
    }

    pub(crate) fn entries(&self) -> u64 {
        self.uuids + self.texts
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = KIND.encoder(self.id, &self.history);
        out.i64(self.min_started_at).i64(self.max_started_at).u64(self.uuids).u64(self.texts).u64(self.open);
        out.u32(self.stamps).u8(self.stamp_bits).u8(self.uuid_directory_bits).u8(self.text_directory_bits).u8(0);
        out.u64(self.filter_blocks).u64(self.pages).u32(self.sums_crc).u32(0);
        for section in &self.sections {
            out.u64(section.offset).u64(section.length);
        }
        out.u32(self.sources.len() as u32).u32(0);
        for source in &self.sources {
            out.u64(*source);
        }
        header_page(out.finish())
    }

    pub(crate) fn decode(page: &[u8], path: &Path) -> Result<Self> {
        let (mut from, id, history) = KIND.decoder(page, path)?;
        let mut header = Self { id, history, ..Self::default() };
        (header.min_started_at, header.max_started_at) = (from.i64()?, from.i64()?);
        (header.uuids, header.texts, header.open) = (from.u64()?, from.u64()?, from.u64()?);
        (header.stamps, header.stamp_bits) = (from.u32()?, from.u8()?);
        (header.uuid_directory_bits, header.text_directory_bits) = (from.u8()?, from.u8()?);
        from.u8()?;
        (header.filter_blocks, header.pages, header.sums_crc) = (from.u64()?, from.u64()?, from.u32()?);
        from.u32()?;
        for section in &mut header.sections {
            *section = Section { offset: from.u64()?, length: from.u64()? };
        }
        let sources = (from.u32()? as usize, from.u32()?).0;
        if sources > MOST_SOURCES {
            return Err(Error::corrupt(path, 0, "the header contradicts itself: too many sources"));
        }
        header.sources = (0..sources).map(|_| from.u64()).collect::<Result<_>>()?;
        header.check(path)?;
        Ok(header)
    }

    /// The sizes must fit each other and the file, so that look-ups need not check them again.
    fn check(&self, path: &Path) -> Result<()> {
        let bad = |what: &str| Err(Error::corrupt(path, 0, format!("the header contradicts itself: {what}")));
        let most = self.pages.saturating_mul(PAGE as u64);
        let fits = |section: &Section| section.offset.checked_add(section.length).is_some_and(|end| end <= most);
        if !self.sections.iter().all(fits) {
            return bad("a section reaches past the end");
        }
        if self.stamp_bits > 32 || self.uuid_directory_bits > 32 || self.text_directory_bits > 32 {
            return bad("a width of more than 32 bits");
        }
        if self.filter_blocks == 0 {
            return bad("a filter without blocks");
        }
        if self.sections != Layout::of(self).sections {
            return bad("the sections do not stand where their sizes put them");
        }
        Ok(())
    }
}

/// The place of each section, computed from the counts.
pub(crate) struct Layout {
    pub(crate) sections: [Section; PARTS],
    pub(crate) pages: u64,
}

impl Layout {
    pub(crate) fn of(header: &SegmentHeader) -> Self {
        let directory = |bits: u8| ((1u64 << bits) + 1) * 4;
        let packed = |count: u64| (count * u64::from(header.stamp_bits)).div_ceil(8) + 8;
        let heap = header.sections[Part::TextHeap as usize].length;
        let lengths = [
            header.uuids.saturating_mul(key_bytes(header.uuid_directory_bits) as u64),
            directory(header.uuid_directory_bits),
            packed(header.uuids.min(1 << 48)),
            header.texts.saturating_mul(key_bytes(header.text_directory_bits) as u64),
            directory(header.text_directory_bits),
            packed(header.texts.min(1 << 48)),
            header.texts.saturating_add(1).saturating_mul(8),
            heap,
            u64::from(header.stamps) * STAMP_BYTES as u64,
            header.filter_blocks.saturating_mul(32),
        ];
        let (sections, pages) = lay_out(lengths);
        Self { sections, pages }
    }
}
