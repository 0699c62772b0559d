//! The readable part of a damaged manifest, as far as it can be verified.

use std::path::Path;

use super::Case;
use crate::format::manifest::{ValueFileEntry, read_values};
use crate::format::names::FileKind;
use crate::io::bytes::Decoder;
use crate::segment::values::format::ValueHeader;
use crate::store::files::newest;
use crate::store::publish::is_partition_width;
use crate::{Error, Result};

/// Offset of the name's length.
const NAME_AT: usize = 40;

#[derive(Default)]
pub(super) struct Remnants {
    bytes: Vec<u8>,
    pub(super) name: Option<String>,
    pub(super) partition_us: Option<i64>,
}

impl Remnants {
    pub(super) fn of_newest(case: Case) -> Self {
        let Ok(bytes) = read(case) else { return Self::default() };
        let starts = bytes.get(NAME_AT + 4..).unwrap_or_default();
        // The directory's name tells whether it is right.
        let is_own = |length: &usize| std::str::from_utf8(&starts[..*length]).is_ok_and(|name| case.is_own(name));
        let Some(length) = (0..=starts.len().min(4096)).find(is_own) else {
            return Self { bytes, ..Self::default() };
        };
        let partition = starts[length..].first_chunk().map(|field| i64::from_le_bytes(*field));
        let name = String::from_utf8(starts[..length].to_vec()).ok();
        Self { name, partition_us: partition.filter(|width| is_partition_width(*width)), bytes }
    }

    /// Whether it names a file: the file's number stands before the checksum of its header. By
    /// chance that happens in one of 2^96 places.
    pub(super) fn names(&self, id: u64, sum: u32) -> bool {
        self.place_of(id, sum).is_some()
    }

    fn place_of(&self, id: u64, sum: u32) -> Option<usize> {
        let wanted = [&id.to_le_bytes()[..], &sum.to_le_bytes()].concat();
        self.bytes.windows(wanted.len()).position(|window| window == wanted)
    }

    /// Its entry for a file of values, if that agrees with the file's header.
    pub(super) fn values(&self, header: &ValueHeader, sum: u32) -> Option<ValueFileEntry> {
        let place = self.place_of(header.id, sum)?;
        let entry = read_values(&mut Decoder::new(&self.bytes[place..], Path::new("manifest"))).ok()?;
        let is_likely = entry.rows == header.rows
            && header.is_later.is_none_or(|is_later| is_later == entry.is_later)
            && entry.min_until <= entry.max_until
            && entry.pending <= entry.rows;
        is_likely.then_some(entry)
    }
}

fn read(case: Case) -> Result<Vec<u8>> {
    let number = newest(case.env, case.directory)?.ok_or_else(|| Error::State("there is no manifest".into()))?;
    let path = FileKind::Manifest.path(case.directory, number);
    case.env.system.content(&path, 1 << 30)
}
