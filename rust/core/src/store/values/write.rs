//! Writing values: as a frame of the log, and from the log into files.

use std::collections::{BTreeMap, BTreeSet};

use super::PARTITION_US;
use crate::format::manifest::{Manifest, ValueFileEntry};
use crate::format::names::FileKind;
use crate::key::{Form, Key};
use crate::memtable::values::ValueMemtable;
use crate::segment::Wanted;
use crate::segment::values::run::FOREVER;
use crate::segment::values::run::{GONE, PENDING, Row, ValueRun};
use crate::segment::values::writer::{self, FileIdentity};
use crate::store::KeySpace;
use crate::store::Writer;
use crate::store::view::View;
use crate::store::writer::LARGE_BATCH;
use crate::types::FrameKeys;
use crate::types::transaction::NumberedBatch;
use crate::types::{Ending, TransactionEntry};
use crate::wal::frame::{Frame, FrameKind};
use crate::{Error, Result};

use super::lookup::Hit;

/// Maximum entries, and maximum bytes of ids and values, of one file. They bound the memory for
/// writing one.
pub(in crate::store) const MOST_ROWS: usize = if cfg!(feature = "small") { 1 << 10 } else { 4 << 20 };
pub(in crate::store) const MOST_BYTES: usize = if cfg!(feature = "small") { 1 << 14 } else { 512 << 20 };
/// Maximum bytes of one change: of the frame's payload, and of its part in memory.
const MOST_CHANGE_BYTES: usize = 1 << 30;
/// Size from which a change goes into files at once, in bytes: as a frame it would be written
/// twice.
const LARGE_BYTES: usize = if cfg!(feature = "small") { 1 << 12 } else { 64 << 20 };
/// Maximum number of entries in the log. Above it the writer puts them into files while its caller
/// waits. With 4 times as many it writes a quarter less in all, but the caller waits 3 times as
/// long.
const MOST_IN_LOG: usize = if cfg!(feature = "small") { 150 } else { 192 << 10 };
/// Size of the log from which it is put into files, in bytes: so entries that change often do not
/// accumulate.
const MOST_LOG_BYTES: u64 = if cfg!(feature = "small") { 1 << 14 } else { 32 << 20 };
/// Maximum number of partitions of one run.
const MOST_PARTITIONS: usize = 16;

/// One atomic change.
#[derive(Debug)]
pub(crate) struct ValueChange {
    pub(crate) run: ValueRun,
    /// Begins a claim under this transaction.
    pub(crate) transaction: Option<NumberedBatch>,
    /// The open claim of the same transaction that it replaces.
    pub(crate) replaces: Option<u64>,
    /// Ends a claim.
    pub(crate) ending: Option<(u64, Ending)>,
}

/// The class of an entry, which decides its file. A file has entries of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) enum Class {
    /// Of an id that was in a file before.
    Later,
    Pending,
    /// Of one time partition, of the smallest width that can hold it.
    Until(u8, i64),
    Forever,
}

impl Class {
    fn of(row: &Row, width: u8) -> Self {
        match row.until {
            _ if row.flags & PENDING != 0 => Self::Pending,
            FOREVER => Self::Forever,
            until => Self::Until(width, partition(until, width)),
        }
    }

    /// The class of a whole file.
    pub(in crate::store) fn of_file(entry: &ValueFileEntry) -> Self {
        let (first, last) = (entry.min_until, entry.max_until);
        let is_one = |width: &u8| partition(first, *width) == partition(last, *width);
        match entry {
            entry if entry.is_later => Self::Later,
            entry if entry.pending > 0 => Self::Pending,
            _ if first == FOREVER => Self::Forever,
            _ => {
                let width = (0..WIDEST).find(is_one).unwrap_or(WIDEST);
                Self::Until(width, partition(first, width))
            }
        }
    }
}

/// Partitions of this width or a wider one are not divided.
const WIDEST: u8 = 12;

/// The partition of a time among those of [`PARTITION_US`] times 4 to the power of `width`.
fn partition(until: i64, width: u8) -> i64 {
    if width >= WIDEST { 0 } else { until.div_euclid(PARTITION_US << (2 * width)) }
}

/// The log entries that a purge drops while they are put into files.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Expiry {
    pub(super) upto: i64,
    pub(super) pending_upto: i64,
}

impl Expiry {
    pub(in crate::store) const NONE: Self = Self { upto: i64::MIN, pending_upto: i64::MIN };

    pub(super) fn takes(self, row: &Row) -> bool {
        row.until <= if row.flags & PENDING == 0 { self.upto } else { self.pending_upto }
    }
}

impl KeySpace {
    /// Whether the values in the log exceed its limit.
    pub(in crate::store) fn is_log_full_of_values(view: &View) -> bool {
        !view.memtable.values.run.is_empty()
            && (view.memtable.values.run.len() > MOST_IN_LOG || view.memtable.position > MOST_LOG_BYTES)
    }

    /// Write runs as files with the numbers from `next_file` on; their bytes are durable, their
    /// names are not.
    pub(in crate::store) fn write_runs(
        &self,
        runs: Runs,
        next_file: &mut u64,
        kind: FileKind,
    ) -> Result<Vec<ValueFileEntry>> {
        let mut entries = Vec::new();
        for (class, mut run) in runs.by_class {
            run.sort();
            for run in split(run) {
                let id = *next_file;
                *next_file += 1;
                let path = kind.path(&self.directory, id);
                self.env.system.remove_if_there(&path)?;
                let named = FileIdentity { id, history: self.env.history, is_later: class == Class::Later };
                let (sum, bytes) = writer::write(&*self.env.system, &path, named, &run)?;
                entries.push(entry_of(class, id, sum, bytes, &run));
            }
        }
        Ok(entries)
    }
}

impl Writer<'_> {
    /// Write a change as one frame, or as files if it is large.
    pub(crate) fn write_values(&mut self, change: ValueChange) -> Result<()> {
        let bytes = change.run.heap_bytes();
        if bytes > MOST_CHANGE_BYTES || change.run.len() > MOST_CHANGE_BYTES / 64 {
            let rows = change.run.len();
            return Err(Error::Schema(format!("a change of {rows} entries and {bytes} bytes; split it")));
        }
        if change.run.len() >= LARGE_BATCH || bytes >= LARGE_BYTES {
            return self.write_values_at_once(change);
        }
        let ValueChange { run, transaction, replaces, ending } = change;
        let kind = match ending {
            None => FrameKind::Values,
            Some((_, Ending::Completed)) => FrameKind::ValuesAndComplete,
            Some((_, Ending::Released)) => FrameKind::ValuesAndRelease,
        };
        let frame = |sequence| Frame {
            kind,
            sequence,
            claim: ending.map_or(sequence, |(claim, _)| claim),
            started_at: 0,
            replaces: replaces.map(|claim| (claim, 0)),
            durable: 0,
            transaction,
            keys: FrameKeys::default(),
            values: run,
        };
        self.append(frame).map(drop)
    }

    /// Put the log's entries and a large change into files; one manifest adds both to the space.
    fn write_values_at_once(&mut self, change: ValueChange) -> Result<()> {
        let (mut recent, claim) = {
            let view = self.space.present();
            let Some(view) = view.as_ref() else { return Err(Error::State("the key space is not there".into())) };
            (view.memtable.values.clone(), view.memtable.next_sequence)
        };
        let ValueChange { run, transaction, replaces, ending } = change;
        recent.apply(&run);
        drop(run);
        let outcomes = ending.into_iter().chain(replaces.map(|claim| (claim, Ending::Released)));
        let result = self.seal_all(i64::MIN, Some((&recent, Expiry::NONE)), |manifest| {
            manifest.next_sequence = claim + 1;
            for (claim, outcome) in outcomes {
                let of_claim = |entry: &&mut TransactionEntry| entry.claim == claim;
                for entry in manifest.transactions.iter_mut().filter(of_claim) {
                    entry.outcome = entry.outcome.max(Some(outcome));
                }
            }
            if let Some(batch) = transaction {
                manifest.set_transaction(TransactionEntry::begun(batch, claim, 0));
            }
        });
        if self.space.mirror.is_some() {
            // The chain tells what became of it.
            return result;
        }
        // It is unknown whether the manifest is on disk.
        result.inspect_err(|error| self.space.sync.fail(error))
    }

    /// Put entries, newer than all in the files of `view`, into files that `manifest` will name.
    pub(in crate::store) fn seal_values(
        &mut self,
        view: &View,
        manifest: &mut Manifest,
        recent: &ValueMemtable,
        expiry: Expiry,
    ) -> Result<()> {
        if recent.run.is_empty() {
            return Ok(());
        }
        let is_known = view.known_in_files(&recent.run)?;
        let mut runs = Runs::of(&recent.run.rows);
        for (row, is_known) in recent.run.rows.iter().zip(is_known) {
            let is_gone = row.flags & GONE != 0 || expiry.takes(row);
            match (is_known, is_gone) {
                (false, true) => {}
                (false, false) => runs.plain(&recent.run, row),
                (true, false) => runs.later().push_from(&recent.run, row),
                (true, true) => runs.later().push(row.key, recent.run.text(row), i64::MIN, GONE, &[]),
            }
        }
        let mut next_file = manifest.next_file;
        for entry in self.space.write_runs(runs, &mut next_file, FileKind::Values)? {
            manifest.values.push(entry);
        }
        manifest.next_file = next_file;
        Ok(())
    }
}

fn entry_of(class: Class, id: u64, sum: u32, bytes: u64, run: &ValueRun) -> ValueFileEntry {
    ValueFileEntry {
        id,
        sum,
        is_later: class == Class::Later,
        rows: run.len() as u64,
        pending: run.rows.iter().filter(|row| row.flags & PENDING != 0).count() as u64,
        bytes,
        min_until: run.rows.iter().map(|row| row.until).min().unwrap_or(i64::MIN),
        max_until: run.rows.iter().map(|row| row.until).max().unwrap_or(i64::MIN),
        purged_upto: i64::MIN,
        pending_purged_upto: i64::MIN,
    }
}

/// Entries to be written to files, by class.
pub(in crate::store) struct Runs {
    width: u8,
    pub(super) by_class: BTreeMap<Class, ValueRun>,
}

impl Runs {
    /// Runs for these rows; partitions are widened until they are few.
    pub(in crate::store) fn of(rows: &[Row]) -> Self {
        let plain = || rows.iter().filter(|row| row.flags & (GONE | PENDING) == 0 && row.until != FOREVER);
        let is_few = |width: &u8| {
            let mut partitions = BTreeSet::new();
            plain().all(|row| {
                partitions.insert(partition(row.until, *width));
                partitions.len() <= MOST_PARTITIONS
            })
        };
        Self { width: (0..WIDEST).find(is_few).unwrap_or(WIDEST), by_class: BTreeMap::new() }
    }

    pub(in crate::store) fn plain(&mut self, run: &ValueRun, row: &Row) {
        self.by_class.entry(Class::of(row, self.width)).or_default().push_from(run, row);
    }

    pub(in crate::store) fn later(&mut self) -> &mut ValueRun {
        self.by_class.entry(Class::Later).or_default()
    }
}

/// The parts of a sorted run, each within the limits of a file.
fn split(run: ValueRun) -> Vec<ValueRun> {
    if run.len() <= MOST_ROWS && run.heap_bytes() <= MOST_BYTES {
        return vec![run];
    }
    let mut parts = vec![ValueRun::default()];
    for row in &run.rows {
        let is_full = |part: &ValueRun| part.len() >= MOST_ROWS || part.heap_bytes() >= MOST_BYTES;
        if parts.last().is_some_and(is_full) {
            parts.push(ValueRun::default());
        }
        if let Some(part) = parts.last_mut() {
            part.push_from(&run, row);
        }
    }
    parts
}

/// The keys and forms of a run, for a look-up.
fn keys_and_forms(run: &ValueRun) -> (Vec<Key>, Vec<Form>) {
    let form = |row: &Row| if run.text(row).is_empty() { Form::Uuid } else { Form::Text };
    (run.rows.iter().map(|row| row.key).collect(), run.rows.iter().map(form).collect())
}

impl View {
    /// Whether each id of a run is in a file, even if removed or purged.
    fn known_in_files(&self, run: &ValueRun) -> Result<Vec<bool>> {
        if self.values.is_empty() {
            return Ok(vec![false; run.len()]);
        }
        let hits = self.places_of(run, false)?;
        Ok(hits.into_iter().map(|hit| hit != Hit::NOWHERE).collect())
    }

    /// The place of the newest entry of each id of a run.
    pub(super) fn places_of(&self, run: &ValueRun, with_log: bool) -> Result<Vec<Hit>> {
        let (keys, forms) = keys_and_forms(run);
        let text = |row: u32| run.text(&run.rows[row as usize]);
        self.find_values(&Wanted { keys: &keys, forms: &forms, text: &text }, with_log)
    }
}
