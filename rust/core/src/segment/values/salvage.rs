//! Reading the intact part of a damaged file of values.

use std::path::Path;

use super::format::ValueHeader;
use super::run::{PENDING, ValueRun};
use super::segment::ValueSegment;
use crate::Result;
use crate::format::manifest::ValueFileEntry;
use crate::io::FileSystem;
use crate::key::Key;

/// An id whose key and text can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostId {
    pub(crate) key: Key,
    pub(crate) text: Vec<u8>,
}

/// The readable part of a damaged file.
#[derive(Debug)]
pub(crate) struct Salvaged {
    pub(crate) header: ValueHeader,
    /// The header page's checksum.
    pub(crate) sum: u32,
    /// Entries that lie completely on pages that match their checksums.
    pub(crate) run: ValueRun,
    /// Entries of which only the id is readable.
    pub(crate) lost: Vec<LostId>,
    /// Entries of which not even the id is readable.
    pub(crate) unknown: u64,
    /// Bytes of pages that cannot be read.
    pub(crate) bytes: u64,
}

impl ValueSegment {
    /// Reads the intact part of a damaged file. Its header has to be intact, without which nothing
    /// can be found.
    pub(crate) fn salvage(system: &dyn FileSystem, path: &Path, history: [u8; 16]) -> Result<Salvaged> {
        let file = Self::open_damaged(system, path, history)?;
        let (mut run, mut lost, mut unknown) = (ValueRun::default(), Vec::new(), 0);
        for place in 0..file.header().rows as u32 {
            let Some(id) = file.named(place) else {
                unknown += 1;
                continue;
            };
            if file.read_row(place, &id, &mut run).is_err() {
                lost.push(id);
            }
        }
        Ok(Salvaged { header: file.header().clone(), sum: file.sum(), run, lost, unknown, bytes: file.damaged() })
    }

    fn named(&self, place: u32) -> Option<LostId> {
        let mut scratch = Vec::new();
        let key = self.key(place, &mut scratch).ok()?;
        Some(LostId { key, text: self.text(place, &mut scratch).ok()?.to_vec() })
    }

    fn read_row(&self, place: u32, id: &LostId, run: &mut ValueRun) -> Result<()> {
        let mut scratch = Vec::new();
        let record = self.record(place, &mut scratch)?;
        let value = self.value(record, &mut scratch)?;
        run.push(id.key, &id.text, record.until, record.flags, value);
        Ok(())
    }

    /// The manifest's entry for this file, as far as the file itself tells; no entry counts as
    /// purged.
    pub(crate) fn describe(&self, is_later: bool) -> Result<ValueFileEntry> {
        let mut entry = ValueFileEntry {
            id: self.header().id,
            sum: self.sum(),
            is_later,
            rows: self.header().rows,
            bytes: self.file_bytes(),
            purged_upto: i64::MIN,
            pending_purged_upto: i64::MIN,
            ..ValueFileEntry::default()
        };
        let mut scratch = Vec::new();
        for place in 0..self.header().rows as u32 {
            let record = self.record(place, &mut scratch)?;
            let is_first = place == 0;
            entry.pending += u64::from(record.flags & PENDING != 0);
            entry.min_until = if is_first { record.until } else { entry.min_until.min(record.until) };
            entry.max_until = if is_first { record.until } else { entry.max_until.max(record.until) };
        }
        Ok(entry)
    }
}
