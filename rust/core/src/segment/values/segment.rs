//! Immutable, sorted files of entries with their values.

use std::path::Path;
use std::sync::Arc;

use super::format::{KIND, Part, RECORD, ValueHeader};
use crate::io::pages::Pages;
use crate::io::{FileSystem, NamedFile};
use crate::key::Key;
use crate::segment::buckets::bucket_of;
use crate::segment::{Region, Wanted, probe};
use crate::sys::prefetch;
use crate::{Error, Result};

/// Rows whose lines are fetched in one group.
const GROUP: usize = 64;

/// An open file of values.
#[derive(Debug)]
pub(crate) struct ValueSegment {
    header: ValueHeader,
    /// The header page's checksum, by which the manifest identifies this file.
    sum: u32,
    pages: Pages,
    filter: Region,
}

/// The fields of an entry beside its key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    pub(crate) until: i64,
    pub(crate) start: u32,
    pub(crate) length: u32,
    pub(crate) flags: u8,
}

impl Record {
    pub(crate) fn to_bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..8].copy_from_slice(&self.until.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.start.to_le_bytes());
        bytes[12..].copy_from_slice(&(self.length | u32::from(self.flags) << 24).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let u32_at = |at: usize| bytes[at..].first_chunk().map_or(0, |field| u32::from_le_bytes(*field));
        let until = bytes.first_chunk().map_or(0, |field| i64::from_le_bytes(*field));
        Self { until, start: u32_at(8), length: u32_at(12) & 0xff_ffff, flags: (u32_at(12) >> 24) as u8 }
    }
}

/// Where the filter stands.
fn filter_of(header: &ValueHeader) -> Region {
    let section = header.section(Part::Filter);
    Region::new(section.offset, section.length)
}

impl ValueSegment {
    pub(crate) fn open(system: &dyn FileSystem, path: &Path, history: [u8; 16]) -> Result<Arc<Self>> {
        let (file, header, sum) = Self::head(system, path, history)?;
        let pages = Pages::open(file, header.pages, header.sums_crc)?;
        Ok(Arc::new(Self { filter: filter_of(&header), header, sum, pages }))
    }

    /// The header page alone, and its checksum.
    pub(crate) fn head(
        system: &dyn FileSystem,
        path: &Path,
        history: [u8; 16],
    ) -> Result<(NamedFile, ValueHeader, u32)> {
        let (file, page, sum) = KIND.open(system, path, Some(history))?;
        let header = ValueHeader::decode(&page, path)?;
        Ok((file, header, sum))
    }

    /// A file whose pages may be damaged: each is checked when it is read.
    pub(crate) fn open_damaged(system: &dyn FileSystem, path: &Path, history: [u8; 16]) -> Result<Self> {
        let (file, header, sum) = Self::head(system, path, history)?;
        let pages = Pages::open_damaged(file, header.pages)?;
        Ok(Self { filter: filter_of(&header), header, sum, pages })
    }

    /// Bytes of pages that do not match their checksums.
    pub(crate) fn damaged(&self) -> u64 {
        self.pages.damaged()
    }

    pub(crate) fn header(&self) -> &ValueHeader {
        &self.header
    }

    pub(crate) fn sum(&self) -> u32 {
        self.sum
    }

    pub(crate) fn path(&self) -> &Path {
        self.pages.path()
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages.count()
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.pages.file_bytes()
    }

    pub(crate) fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        self.pages.verify_all(progress)
    }

    /// The rows that the filter does not rule out, counted from `first_row`.
    pub(crate) fn may_contain(&self, wanted: &Wanted, first_row: u32, survivors: &mut Vec<u32>) -> Result<()> {
        probe(&self.pages, &self.filter, wanted, first_row, survivors)
    }

    /// Look `rows` up exactly; `hit` gets the place of each entry found. The lines of a group are
    /// fetched before the first is read.
    pub(crate) fn find(&self, wanted: &Wanted, rows: &[u32], hit: &mut dyn FnMut(u32, u32)) -> Result<()> {
        let mut scratch = Vec::new();
        for group in rows.chunks(GROUP) {
            self.fetch(group.iter().map(|row| wanted.keys[*row as usize]));
            for row in group {
                let text = crate::segment::values::columns::text_of(wanted, *row);
                if let Some(place) = self.place(wanted.keys[*row as usize], text, &mut scratch)? {
                    hit(*row, place);
                }
            }
        }
        Ok(())
    }

    /// Prefetch the lines of the directory, then those of the keys.
    fn fetch(&self, keys: impl Iterator<Item = Key> + Clone) {
        let Some(content) = self.pages.mapped() else { return };
        let place = |part: Part, at: usize| self.header.section(part).offset as usize + at;
        let entry = |key: Key| place(Part::Directory, bucket_of(key.hi, self.header.directory_bits) * 4);
        for key in keys.clone() {
            prefetch::line(content, entry(key));
        }
        for key in keys {
            // Only a hint: these bytes are checked when they are used.
            let Some(start) = content.get(entry(key)..).and_then(<[u8]>::first_chunk::<4>) else { continue };
            let at = place(Part::Keys, (u32::from_le_bytes(*start) as usize).saturating_mul(16));
            prefetch::line(content, at);
            prefetch::line(content, at + 64);
        }
    }

    fn place(&self, key: Key, text: &[u8], scratch: &mut Vec<u8>) -> Result<Option<u32>> {
        let (start, end) = self.bucket(bucket_of(key.hi, self.header.directory_bits), scratch)?;
        let bytes = self.slice(Part::Keys, u64::from(start) * 16, (end - start) as usize * 16, scratch)?;
        let keys = bytes.as_chunks::<16>().0;
        let wanted = key.to_bytes();
        let Some(first) = keys.iter().position(|key| *key == wanted) else { return Ok(None) };
        let equal = keys[first..].iter().take_while(|key| **key == wanted).count() as u32;
        for place in start + first as u32..start + first as u32 + equal {
            if self.text(place, scratch)? == text {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// The places of a bucket's keys.
    fn bucket(&self, bucket: usize, scratch: &mut Vec<u8>) -> Result<(u32, u32)> {
        let (start, end) = self.pair(Part::Directory, bucket as u64, scratch)?;
        if start > end || u64::from(end) > self.header.rows {
            return Err(self.corrupt(Part::Directory, "the directory points past the keys"));
        }
        Ok((start, end))
    }

    /// Two neighbouring numbers of a section of `u32`.
    fn pair(&self, part: Part, at: u64, scratch: &mut Vec<u8>) -> Result<(u32, u32)> {
        let bytes = self.slice(part, at * 4, 8, scratch)?;
        let field = |at: usize| bytes[at..].first_chunk().map_or(0, |field| u32::from_le_bytes(*field));
        Ok((field(0), field(4)))
    }

    fn corrupt(&self, part: Part, reason: &str) -> Error {
        Error::corrupt(self.path(), self.header.section(part).offset, reason)
    }

    fn slice<'a>(&'a self, part: Part, offset: u64, length: usize, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let section = self.header.section(part);
        if length == 0 {
            return Ok(&[]);
        }
        if offset.saturating_add(length as u64) > section.length {
            return Err(self.corrupt(part, "an index points past its section"));
        }
        self.pages.bytes(section.offset + offset, length, scratch)
    }

    /// The text of the id at `place`; empty for a UUID.
    pub(crate) fn text<'a>(&'a self, place: u32, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        if self.header.texts == 0 {
            return Ok(&[]);
        }
        let (start, end) = self.pair(Part::TextOffsets, u64::from(place), scratch)?;
        if start > end || end - start > u32::from(u16::MAX) {
            return Err(self.corrupt(Part::TextOffsets, "invalid text: its length is out of range"));
        }
        self.slice(Part::Texts, u64::from(start), (end - start) as usize, scratch)
    }

    pub(crate) fn key(&self, place: u32, scratch: &mut Vec<u8>) -> Result<Key> {
        let bytes = self.slice(Part::Keys, u64::from(place) * 16, 16, scratch)?;
        Ok(bytes.first_chunk().map_or(Key::default(), |key| Key::from_bytes(*key)))
    }

    pub(crate) fn record(&self, place: u32, scratch: &mut Vec<u8>) -> Result<Record> {
        Ok(Record::from_bytes(self.slice(Part::Records, u64::from(place) * RECORD as u64, RECORD, scratch)?))
    }

    pub(crate) fn value<'a>(&'a self, record: Record, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        self.slice(Part::Values, u64::from(record.start), record.length as usize, scratch)
    }

    /// Prefetch the line of a record.
    pub(crate) fn fetch_record(&self, place: u32) {
        self.fetch_at(Part::Records, place as usize * RECORD);
    }

    /// Prefetch the first line of a value.
    pub(crate) fn fetch_value(&self, record: Record) {
        self.fetch_at(Part::Values, record.start as usize);
    }

    fn fetch_at(&self, part: Part, at: usize) {
        if let Some(content) = self.pages.mapped() {
            prefetch::line(content, self.header.section(part).offset as usize + at);
        }
    }

    /// Where the keys from `bucket` of `buckets` equal parts of the key range begin.
    pub(crate) fn start_of(&self, bucket: u64, buckets: u64) -> Result<u32> {
        if bucket >= buckets {
            return Ok(self.header.rows as u32);
        }
        let wanted = ((u128::from(bucket) << 64) / u128::from(buckets)) as u64;
        let (mut low, mut high) = (0, self.header.rows as u32);
        let mut scratch = Vec::new();
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle, &mut scratch)?.hi < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}
