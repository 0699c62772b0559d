//! The layout of a segment file (docs/format.md, "Segment"): a header page, sections, page
//! checksums.

use std::path::Path;

pub(crate) use super::file::Section;
use super::file::{Kind, lay_out};
use crate::io::pages::{PAGE, header_page};
use crate::key::Key;
use crate::{Error, Result};

pub(super) const KIND: Kind = Kind { magic: *b"DHSEGMNT", version: 1, belongs: "this segment belongs" };

/// Bits of a segment's own filter an id: it is asked until a filter over many segments covers them.
/// Large segments, which hold most of the bytes, do with fewer.
pub(crate) fn filter_bits(entries: u64) -> u32 {
    if entries < 1 << 18 { 8 } else { 6 }
}

/// Entries a directory bucket holds on average.
pub(crate) const BUCKET: u64 = 32;
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

/// Bits of the directory for `count` entries.
pub(crate) fn directory_bits(count: u64) -> u8 {
    (count / BUCKET).checked_ilog2().unwrap_or(0) as u8
}

/// Bits of the directory for `count` keys of which the section keeps [`key_bytes`]. More and
/// smaller buckets take less room where they spare each key a byte.
pub(crate) fn key_directory_bits(count: u64) -> u8 {
    let bits = directory_bits(count);
    let wider = bits.next_multiple_of(8);
    let bytes = |bits: u8| (4 << bits) + count * key_bytes(bits) as u64;
    if bytes(wider) < bytes(bits) { wider } else { bits }
}

/// Bytes of a key in its section: whole bytes that the directory's bucket implies are left out.
pub(crate) fn key_bytes(bits: u8) -> usize {
    16 - usize::from(bits / 8)
}

/// A key as 16 bytes in key order (big-endian), of which a section keeps the last ones.
#[inline]
pub(crate) fn ordered_bytes(key: Key) -> [u8; 16] {
    ((u128::from(key.hi) << 64) | u128::from(key.lo)).to_be_bytes()
}

/// The bucket of a key whose upper half is `hi`.
#[inline]
pub(crate) fn bucket_of(hi: u64, bits: u8) -> usize {
    if bits == 0 { 0 } else { (hi >> (64 - bits)) as usize }
}

/// The whole key, from the last bytes that a section keeps: the missing upper bytes are those of
/// the number of its bucket.
#[inline]
pub(crate) fn whole_key(stored: &[u8], bucket: usize, bits: u8) -> Key {
    let width = stored.len().min(16);
    key_of(&stored[..width], upper_bytes(bucket, bits, width))
}

/// What a bucket's keys, of which the section keeps `width` bytes, have in their upper half
/// besides.
#[inline]
pub(crate) fn upper_bytes(bucket: usize, bits: u8, width: usize) -> u64 {
    let upper = (bucket as u64).checked_shl(64 - u32::from(bits.min(64))).unwrap_or(0);
    upper & (!0u64).checked_shl(width.saturating_sub(8) as u32 * 8).unwrap_or(0)
}

/// The key of which a section keeps these bytes, at most 16. Two loads of eight bytes that overlap
/// are several times as fast as a copy whose length is not known.
#[inline]
pub(crate) fn key_of(stored: &[u8], upper: u64) -> Key {
    let (Some(first), Some(last)) = (stored.first_chunk(), stored.last_chunk()) else {
        // No section keeps fewer than eight; a damaged header may say so.
        return Key { hi: upper, lo: stored.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)) };
    };
    let missing = 8 * (16 - stored.len()) as u32;
    let hi = u64::from_be_bytes(*first).checked_shr(missing).unwrap_or(0);
    Key { hi: hi | upper, lo: u64::from_be_bytes(*last) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_comes_back_from_the_bytes_that_its_bucket_leaves_out() {
        let key = Key { hi: 0xf1e2_d3c4_b5a6_9788, lo: 0x796a_5b4c_3d2e_1f01 };
        for bits in 0..=64 {
            let bucket = bucket_of(key.hi, bits);
            let stored = &ordered_bytes(key)[16 - key_bytes(bits)..];
            assert_eq!(whole_key(stored, bucket, bits), key, "{bits} bits");
        }
        // No section keeps fewer than eight bytes; a damaged header may say so.
        assert_eq!(whole_key(&[7, 9], 0, 0), Key { hi: 0, lo: 0x0709 });
    }

    #[test]
    fn keys_take_less_room_with_a_wider_directory_or_keep_theirs() {
        let bytes = |count: u64, bits: u8| (4 << bits) + count * key_bytes(bits) as u64;
        let mut saved = 0;
        for count in [0, 1, 31, 1_000, 8_191, 8_192, 100_000, 300_000, 786_432, 2_097_152, 4 << 20] {
            let (narrow, bits) = (directory_bits(count), key_directory_bits(count));
            assert!(bits == narrow || bytes(count, bits) < bytes(count, narrow), "{count} keys");
            saved = saved.max(bytes(count, narrow) - bytes(count, bits));
        }
        assert_eq!(key_directory_bits(786_432), 16);
        assert!(saved > 500_000, "a segment of a full log keeps a byte less of each key: {saved}");
    }
}
