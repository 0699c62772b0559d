//! Looking after the mapper of a channel: what is pending, decisions, purging, figures.

use dochistory_core::protocols::mapper as engine;
use dochistory_core::protocols::mapper::rules::Policy;
use dochistory_core::{Purge, Purged};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::PyRecordBatchReader;

use super::MessageIdMapper;
use super::arrays::{column, error_columns, ids};
use super::entries::EntryReader;
use super::figures::value_statistics;
use super::policy::policy;
use crate::arguments;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::jobs::watched;
use crate::output;

#[pymethods]
impl MessageIdMapper {
    /// Decide single ids that are pending: their next arrival is treated so, once, whatever the
    /// channel's policy is. A mapping comes first: while an id is mapped too, its arrivals are M2.
    ///
    /// Args:
    ///     ids: the ids.
    ///     decision: `process` (it was not delivered: send it), `duplicate` (it was), or `error`
    ///         (undecided again).
    ///
    /// Returns:
    ///     `id` and `error` for each row: null where it is done, else NOT_PENDING, NO_ID or
    ///     TOO_LONG.
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] there is no such decision.
    ///     SchemaError: [DH-SCHEMA] the ids are no text and no UUIDs.
    ///     LockedError: [DH-LOCKED] another writer held it for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn resolve<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arguments::decision)] decision: &str,
    ) -> Outcome<Bound<'py, PyAny>> {
        let py = ids.py();
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        let policy: Policy = policy("decision", decision)?;
        let array = self::ids("ids", ids)?;
        let errors = crate::calls::outside(py, || {
            let column = column(&array)?;
            Ok::<_, Failure>(self.mapper.resolve(&self.mapper.values().ids(&column), policy)?)
        })?;
        Ok(output::record_batch(py, error_columns(array, &errors)?)?)
    }

    /// The ids whose sending was begun and never ended, in no order. One that is mapped too is
    /// among them, with `found`: while its mapping counts, its next arrival is M2.
    ///
    /// Returns:
    ///     A pyarrow RecordBatchReader: `channel` (dictionary<int8, utf8>), `id` (utf8), and the
    ///     columns of `lookup`.
    ///
    /// Raises:
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn pending<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        let now_us = clock::now_us(None)?;
        let found = crate::calls::outside(py, || self.mapper.pending(now_us))?;
        self.reader(py, found)
    }

    /// All entries, in no order.
    ///
    /// Args:
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     A pyarrow RecordBatchReader: `channel` (dictionary<int8, utf8>), `id` (utf8), and the
    ///     columns of `lookup`.
    ///
    /// Raises:
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    #[pyo3(signature = (*, now = None))]
    fn entries<'py>(&self, py: Python<'py>, now: Option<&Bound<'py, PyAny>>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        let now_us = clock::now_us(now)?;
        let found = crate::calls::outside(py, || self.mapper.entries(now_us))?;
        self.reader(py, found)
    }

    /// Remove expired mappings. They are gone at once; a file goes when all in it is gone. A
    /// mapping beside a pending entry stays as long as that: a purge never takes a doubt unasked.
    ///
    /// Args:
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///     include_pending: take pending entries too whose time has come: that silently turns "in
    ///         doubt" into "new".
    ///     dry_run: only say what would go.
    ///     force: purge even if `now` is more than a day ahead of this machine's clock and every
    ///         mapping that can expire goes.
    ///
    /// Returns:
    ///     `entries` (`log_entries` of them in the log), `bytes` and `files` that went.
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] `now` is doubtful (see `force`).
    ///     LockedError: [DH-LOCKED] another writer held it for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    #[pyo3(signature = (now = None, include_pending = false, dry_run = false, *, force = false))]
    fn purge<'py>(
        &self,
        py: Python<'py>,
        now: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arguments::include_pending)] include_pending: bool,
        #[pyo3(from_py_with = arguments::dry_run)] dry_run: bool,
        #[pyo3(from_py_with = arguments::force)] force: bool,
    ) -> Outcome<Bound<'py, PyDict>> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        let clock_us = (!force).then(dochistory_core::time::now_us);
        let purge = Purge { now_us: clock::now_us(now)?, dry_run, clock_us };
        let Purged { entries, log_entries, bytes, segments } =
            crate::calls::outside(py, || self.mapper.purge_by(purge, include_pending))?;
        let purged = PyDict::new(py);
        purged.set_item("entries", entries)?;
        purged.set_item("log_entries", log_entries)?;
        purged.set_item("bytes", bytes)?;
        purged.set_item("files", segments)?;
        Ok(purged)
    }

    /// Put files together. Writing does it by itself when it pays.
    ///
    /// Args:
    ///     all: go as far as it goes, rather than as far as it pays; wait for maintenance that runs
    ///         already. Without it, nothing is done where some is under way.
    ///
    /// Raises:
    ///     LockedError: [DH-LOCKED] another writer held it for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    #[pyo3(signature = (*, all = false))]
    fn maintain(&self, py: Python<'_>, #[pyo3(from_py_with = arguments::all)] all: bool) -> Outcome<()> {
        self.handle.get()?;
        watched(py, None, |hear| self.mapper.values().maintain(all, hear)).map(drop)
    }

    /// Check every byte of the mapper's files.
    ///
    /// Returns:
    ///     int: how many bytes there were.
    ///
    /// Raises:
    ///     CorruptError: [DH-CORRUPT] a byte is not what was written; the text names the file and
    ///         the place.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn verify(&self, py: Python<'_>) -> Outcome<u64> {
        self.handle.get()?;
        watched(py, None, |hear| self.mapper.values().verify(hear))
    }

    /// Figures of the mapper.
    ///
    /// Returns:
    ///     `file_entries`, `later_entries`, `pending_entries`, `log_entries` (numbers of entries),
    ///     `files` (their number), `file_bytes`, `log_bytes`, `manifest` (number of the newest),
    ///     `transactions` (application -> last batch, whether it ended).
    ///
    /// Raises:
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn stats<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyDict>> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        let found = crate::calls::outside(py, || self.mapper.values().statistics())?;
        Ok(value_statistics(py, found)?)
    }
}

impl MessageIdMapper {
    fn reader<'py>(&self, py: Python<'py>, found: engine::PendingEntries) -> Outcome<Bound<'py, PyAny>> {
        let reader = EntryReader::new(self.handle.clone(), self.mapper.name(), found)?;
        Ok(PyRecordBatchReader::new(Box::new(reader)).into_pyarrow(py)?)
    }
}
