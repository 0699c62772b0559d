//! What damage is, what it means, and what is left of a map.

use std::path::Path;

use crate::io::FileSystem;
use crate::io::bytes::checked;
use crate::memtable::values::ValueMemtable;
use crate::segment::values::run::ValueRun;
use crate::{Error, Result};

pub(super) const DROPPED: &str =
    "an id that only this file held is new when it comes again, and a document whose end it told is in doubt";
pub(super) const NOTHING: &str = "nothing is lost";

/// Numbers to skip for those that a lost log may have used.
pub(super) const MANY: u64 = 1 << 32;

/// The error, if it is damage. A file of a newer version is not damaged: the checksum over its
/// first `head` bytes, or all, is right.
pub(crate) fn damage(system: &dyn FileSystem, error: Error, path: &Path, head: Option<usize>) -> Result<Error> {
    match error {
        Error::Corrupt { .. } => Ok(error),
        missing if missing.is_missing() => Ok(Error::corrupt(path, 0, "the file is missing")),
        Error::Open { ref reason, .. } => {
            let reason = reason.clone();
            let bytes = system.content(path, head.map_or(u64::MAX, |head| head as u64))?;
            if checked(&bytes, path).is_ok() { Err(error) } else { Ok(Error::corrupt(path, 8, reason)) }
        }
        other => Err(other),
    }
}

/// The lost part of a map's log.
#[derive(Debug)]
pub(super) struct LogDamage {
    /// Its finding.
    pub(super) finding: usize,
    /// Maximum number of entries there; none if unknown.
    pub(super) most: Option<u64>,
    /// The entries written before the loss.
    pub(super) before: ValueMemtable,
}

/// The rewritten entries of a map.
#[derive(Debug, Default)]
pub(super) struct Mended {
    /// Entries of plain files, as plain ones again.
    pub(super) plain: ValueRun,
    /// Newer than all files that stay.
    pub(super) later: ValueMemtable,
}

/// Files may be counted that should not be: this finding reports the consequences.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsure {
    pub(super) finding: usize,
}
