//! The layout of a file of values (docs/format.md, "Values"): a header page, sections, page
//! checksums.

use std::path::Path;

use crate::io::pages::header_page;
use crate::segment::file::{Kind, Section, lay_out};
use crate::{Error, Result};

pub(super) const KIND: Kind = Kind { magic: *b"DHVALUES", version: 1, belongs: "these values belong" };
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
        (self.sections, self.pages) = lay_out(lengths);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = KIND.encoder(self.id, &self.history);
        out.u64(self.rows).u64(self.texts).u64(self.values).u64(self.filter_blocks).u64(self.pages);
        let class = self.is_later.map_or(0, |is_later| 1 + u8::from(is_later));
        out.u32(self.sums_crc).u8(self.directory_bits).u8(class).u16(0);
        header_page(out.finish())
    }

    pub(crate) fn decode(page: &[u8], path: &Path) -> Result<Self> {
        let (mut from, id, history) = KIND.decoder(page, path)?;
        let mut header = Self { id, history, ..Self::default() };
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
