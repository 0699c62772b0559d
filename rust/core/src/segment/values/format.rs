//! The layout of a file of values (docs/format.md, "Values"): a header page, sections, page
//! checksums.

use std::path::Path;

use crate::io::bytes::{Decoder, Encoder};
use crate::io::pages::{PAGE, header_page, header_sum};
use crate::segment::format::Section;
use crate::{Error, Result};

pub(crate) const MAGIC: [u8; 8] = *b"DHVALUES";
pub(crate) const VERSION: u32 = 1;
/// Bits of a file's filter an entry.
pub(crate) const FILTER_BITS: u32 = 10;
/// Entries a directory bucket holds on average: their keys fill two lines.
const BUCKET: u64 = 8;
/// Bytes of a record: until (8), start of the value (4), its length (3), flags (1).
pub(crate) const RECORD: usize = 16;

/// The sections, in file order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Part {
    Keys,
    Directory,
    /// Where the text of each entry starts; empty where no entry has one.
    TextOffsets,
    Texts,
    Records,
    Values,
    Filter,
}

const PARTS: usize = 7;

/// The header page.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueHeader {
    pub(crate) id: u64,
    pub(crate) history: [u8; 16],
    pub(crate) rows: u64,
    /// Bytes of all texts.
    pub(crate) texts: u64,
    /// Bytes of all values.
    pub(crate) values: u64,
    pub(crate) directory_bits: u8,
    /// Whether its ids stood in older files when it was written; none in files of builds that did
    /// not say so.
    pub(crate) is_later: Option<bool>,
    pub(crate) filter_blocks: u64,
    pub(crate) sections: [Section; PARTS],
    pub(crate) pages: u64,
    pub(crate) sums_crc: u32,
}

impl ValueHeader {
    pub(crate) fn section(&self, part: Part) -> Section {
        self.sections[part as usize]
    }

    /// Put the sections where the counts say.
    pub(crate) fn lay_out(&mut self) {
        let rows = self.rows;
        let lengths = [
            rows.saturating_mul(16),
            ((1u64 << self.directory_bits) + 1) * 4,
            if self.texts == 0 { 0 } else { rows.saturating_add(1).saturating_mul(4) },
            self.texts,
            rows.saturating_mul(RECORD as u64),
            self.values,
            self.filter_blocks.saturating_mul(32),
        ];
        let mut at = PAGE as u64;
        for (index, (section, length)) in self.sections.iter_mut().zip(lengths).enumerate() {
            // The filter starts on a page, so that a block's page follows from its number.
            let alignment = if index == Part::Filter as usize { PAGE as u64 } else { 64 };
            *section = Section { offset: at.next_multiple_of(alignment), length };
            at = section.offset.saturating_add(length).min(1 << 60);
        }
        self.pages = at.div_ceil(PAGE as u64);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.raw(&MAGIC).u32(VERSION).u32(PAGE as u32).u64(self.id).raw(&self.history);
        out.u64(self.rows).u64(self.texts).u64(self.values).u64(self.filter_blocks).u64(self.pages);
        let class = self.is_later.map_or(0, |is_later| 1 + u8::from(is_later));
        out.u32(self.sums_crc).u8(self.directory_bits).u8(class).u16(0);
        header_page(out.finish())
    }

    pub(crate) fn decode(page: &[u8], path: &Path) -> Result<Self> {
        let mut from = Decoder::new(page, path);
        from.preamble(MAGIC, VERSION)?;
        if page.len() != PAGE || crc32c::crc32c(&page[..PAGE - 4]) != header_sum(page) {
            return Err(Error::corrupt(path, 0, "the header does not match its checksum"));
        }
        from.u32()?;
        let mut header = Self { id: from.u64()?, history: from.bytes16()?, ..Self::default() };
        (header.rows, header.texts, header.values) = (from.u64()?, from.u64()?, from.u64()?);
        let (blocks, pages, sums_crc, bits) = (from.u64()?, from.u64()?, from.u32()?, from.u8()?);
        header.is_later = [None, Some(false), Some(true)].get(usize::from(from.u8()?)).copied().flatten();
        (header.filter_blocks, header.sums_crc, header.directory_bits) = (blocks, sums_crc, bits);
        if bits > 32 || blocks == 0 || header.rows > u64::from(u32::MAX) {
            return Err(Error::corrupt(path, 0, "the header contradicts itself"));
        }
        header.lay_out();
        if header.pages != pages {
            return Err(Error::corrupt(path, 0, "the sections do not fill the file"));
        }
        Ok(header)
    }
}

/// Bits of the directory for `count` entries.
pub(crate) fn directory_bits(count: u64) -> u8 {
    (count / BUCKET).checked_ilog2().unwrap_or(0) as u8
}
