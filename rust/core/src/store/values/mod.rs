//! Entries with values: how a key space looks them up, writes them, and maintains their files.

mod entries;
mod figures;
mod lookup;
mod purge;
mod write;

use crate::store::Writer;
pub use entries::ValueCursor;
pub use figures::ValueStatistics;
pub(crate) use write::ValueChange;
pub(super) use write::{Class, Expiry, MOST_BYTES, MOST_ROWS, Runs};

use std::sync::Arc;

use super::environment::Environment;
pub(crate) use super::writer_lock::Held;
use super::writer_lock::WriterLock;
use super::{KeySpace, SpaceSettings};
use crate::format::manifest::ValueFileEntry;
use crate::format::names::FileKind;
use crate::segment::values::run::{GONE, PENDING, ValueRun};
use crate::segment::values::segment::ValueSegment;
use crate::{Error, Result};

/// The width of the time partitions of `persist_until`.
pub(super) const PARTITION_US: i64 = 7 * 24 * 3600 * 1_000_000;

/// Rows that are read at once.
const ROWS: u32 = 4096;

/// An open file of values, with its entry in the manifest.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) segment: Arc<ValueSegment>,
    pub(crate) entry: ValueFileEntry,
}

impl Placed {
    /// Open the files that a manifest names, except those that are open already, in look-up order:
    /// first the later ones, newest first.
    pub(crate) fn open_all(
        env: &Environment,
        directory: &std::path::Path,
        entries: &[ValueFileEntry],
        known: &[Self],
    ) -> Result<Vec<Self>> {
        let open = |entry: &ValueFileEntry| {
            let same = |placed: &&Self| placed.segment.header().id == entry.id;
            let segment = match known.iter().find(same) {
                Some(placed) => placed.segment.clone(),
                None => ValueSegment::open(&*env.system, &FileKind::Values.path(directory, entry.id), env.history)?,
            };
            if segment.sum() != entry.sum || segment.header().id != entry.id {
                return Err(Error::corrupt(segment.path(), 0, "these are not the values that the manifest names"));
            }
            Ok(Self { segment, entry: *entry })
        };
        let mut placed = entries.iter().map(open).collect::<Result<Vec<_>>>()?;
        placed.sort_by_key(|placed| std::cmp::Reverse((placed.entry.is_later, placed.entry.id)));
        Ok(placed)
    }

    /// Whether an entry of this file is gone: removed, or purged.
    #[inline]
    pub(super) fn is_gone(&self, flags: u8, until: i64) -> bool {
        self.entry.is_gone(flags, until)
    }
}

impl ValueFileEntry {
    /// Whether an entry of this file is gone: removed, or purged.
    #[inline]
    pub(super) fn is_gone(&self, flags: u8, until: i64) -> bool {
        let upto = if flags & PENDING == 0 { self.purged_upto } else { self.pending_purged_upto };
        flags & GONE != 0 || until <= upto
    }
}

impl Placed {
    /// All entries, a chunk at a time; those that are gone are passed as removed ones.
    pub(super) fn each_row(&self, take: &mut dyn FnMut(&ValueRun) -> Result<()>) -> Result<()> {
        let rows = self.segment.header().rows as u32;
        for start in (0..rows).step_by(ROWS as usize) {
            let mut run = ValueRun::default();
            for place in start..start.saturating_add(ROWS).min(rows) {
                if !self.read(place, &mut run)? {
                    self.read_gone(place, &mut run)?;
                }
            }
            take(&run)?;
        }
        Ok(())
    }
}

impl KeySpace {
    /// A space of values has no time to live of its own; the width of its partitions is in its
    /// manifest.
    pub(crate) fn value_settings() -> SpaceSettings {
        SpaceSettings { time_to_live_us: i64::MAX / 2, kind: None }
    }

    /// Wait for the lock of this name, which is not the writer lock: its holder does not block
    /// writers, only others that want this lock. It is released when the answer is dropped, or its
    /// process dies.
    pub(crate) fn hold(&self, name: &str) -> Result<Held> {
        if self.env.read_only || self.is_pinned {
            return Err(Error::ReadOnly(self.env.place()));
        }
        self.writer_lock()?;
        WriterLock::named(&*self.env.system, &self.directory.join(name))?.hold(self.env.lock_timeout)
    }

    /// A random number that is never 0.
    pub(crate) fn random_number(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.env.system.randomness_for(&self.directory, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes) | 1)
    }
}

impl Writer<'_> {
    /// The number of the next operation.
    pub(crate) fn sequence(&self) -> u64 {
        self.space.present().as_ref().map_or(0, |view| view.memtable.next_sequence)
    }
}
