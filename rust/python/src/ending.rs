//! Entries of a history: ending documents by their keys, and listing.

use dochistory_core::Finished;
use dochistory_core::columns::Documents;
use dochistory_core::history::History as Engine;
use dochistory_core::history::Selection;
use dochistory_core::protocols::trigger::rules;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::PyRecordBatchReader;

use crate::arguments;
use crate::clock;
use crate::entries::{self, EntryReader};
use crate::errors::Outcome;
use crate::given_keys;
use crate::history::History;
use crate::jobs::{self, TriggerOrName};
use crate::trigger::{self, Trigger};

/// The engine's function that ends keys.
type End = fn(&Engine, &rules::Trigger, &Documents<'_>, i64) -> dochistory_core::Result<Finished>;

#[pymethods]
impl History {
    /// The services of these documents ended, begun by this process or another.
    /// Durable on return.
    ///
    /// A key that nobody began is recorded as completed now.
    ///
    /// Args:
    ///     keys: an Arrow array, documents in the trigger's columns, or any iterable of text.
    ///     trigger: whose documents they are.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     How many keys `changed`, were `already` completed, and were `unknown`.
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] the keys are no text and no UUIDs.
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    #[pyo3(signature = (keys, trigger, *, now = None))]
    fn complete<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'py, Trigger>,
        now: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyDict>> {
        self.finish(keys, trigger.get(), now, Engine::complete_keys)
    }

    /// The work of these documents' services was undone for certain: take `processing` away, so
    /// that they are NEW when they come again. What is completed stays so. Durable on return.
    ///
    /// Args:
    ///     keys: an Arrow array, documents in the trigger's columns, or any iterable of text.
    ///     trigger: whose documents they are.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     How many keys `changed`, were `already` released, and were `unknown`.
    ///
    /// Raises:
    ///     As `complete`.
    #[pyo3(signature = (keys, trigger, *, now = None))]
    fn release<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'py, Trigger>,
        now: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyDict>> {
        self.finish(keys, trigger.get(), now, Engine::release_keys)
    }

    /// The entries of a trigger, as a pyarrow RecordBatchReader, in no order; of a key with several
    /// open claims, one for each.
    ///
    /// Args:
    ///     trigger: the trigger, or its name.
    ///     status: `processing` or `completed`; None lists both.
    ///     since: only entries whose service began then or later, a datetime with a time zone.
    ///     before: only entries whose service began earlier than that, a datetime with a time zone.
    ///     part: (number from 0, count): one of `count` equal parts of the keys, for several
    ///         readers of one snapshot.
    ///     keys: only entries of these keys, an Arrow array or any iterable of text: they are
    ///         looked up, and nothing else is read.
    ///
    /// Returns:
    ///     Columns `trigger`, `status` (dictionary<int8, utf8>), `key` (utf8), `started_at`
    ///     (timestamp[us, UTC]).
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] the status or the part is none, or the history has no trigger
    ///         of that name.
    ///     SchemaError: [DH-SCHEMA] the keys are none.
    #[pyo3(signature = (trigger, status = None, *, since = None, before = None, part = (0, 1), keys = None))]
    #[expect(clippy::too_many_arguments, reason = "users give them by name")]
    fn entries<'py>(
        &self,
        py: Python<'py>,
        trigger: TriggerOrName<'py>,
        #[pyo3(from_py_with = arguments::status)] status: Option<String>,
        since: Option<&Bound<'py, PyAny>>,
        before: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arguments::part)] part: (u32, u32),
        keys: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let since = since.map_or(Ok(i64::MIN), |since| clock::time_us("since", since))?;
        let before = before.map_or(Ok(i64::MAX), |before| clock::time_us("before", before))?;
        let wanted = Selection { status: entries::status(status.as_deref())?, started_at: since..before, part };
        jobs::check_known(py, &history, &trigger)?;
        let name = trigger.name();
        let keys = keys.map(given_keys::only_keys).transpose()?;
        let found = crate::calls::outside(py, || match &keys {
            Some(keys) => history.entries_of_keys(name, &keys.documents(), wanted),
            None => history.selected_entries(name, wanted),
        })?;
        let reader = EntryReader::new(self.handle.clone(), name, found);
        Ok(PyRecordBatchReader::new(Box::new(reader)).into_pyarrow(py)?)
    }
}

impl History {
    fn finish<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        trigger: &Trigger,
        now: Option<&Bound<'py, PyAny>>,
        end: End,
    ) -> Outcome<Bound<'py, PyDict>> {
        let py = keys.py();
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let columns = given_keys::keys(keys, trigger)?;
        let now_us = clock::now_us(now)?;
        let Finished { changed, already, unknown } =
            crate::calls::outside(py, || end(&history, &trigger.rules, &columns.documents(), now_us))?;
        let finished = PyDict::new(py);
        finished.set_item(intern!(py, "changed"), changed)?;
        finished.set_item(intern!(py, "already"), already)?;
        finished.set_item(intern!(py, "unknown"), unknown)?;
        Ok(finished)
    }
}
