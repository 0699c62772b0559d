//! Messages that go out, for Python.

use std::sync::Arc;

use crate::arguments;
use crate::arrow::array::{ArrayRef, RecordBatch};
use dochistory_core::protocols::mapper::rules::Action;
use dochistory_core::protocols::mapper::{Mapper, Send};
use pyo3::prelude::*;

use super::arrays::{column, ids, texts};
use super::messages::Messages;
use super::settings::Kept;
use super::verdicts::{audit_columns, verdict_columns};
use crate::claim::replay_word;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::output;
use crate::rows::row_numbers;

/// A batch of messages that go out, judged, and pending where they are to be sent.
/// `MessageIdMapper.begin_send` makes it.
///
/// Send what is `new`; say `complete` of what was sent, `abort` of what was not. What neither is
/// said of stays pending, and is in doubt when it comes again.
#[pyclass(module = "dochistory", name = "MapperSend", frozen)]
pub(crate) struct MapperSend {
    pub(super) handle: Arc<Handle>,
    pub(super) mapper: Mapper,
    pub(super) persist_us: Option<i64>,
    pub(super) messages: Messages,
    pub(super) send: Send,
}

#[pymethods]
impl MapperSend {
    /// The verdict of every message, in order: `status` (NEW, DUPLICATE, IN_DOUBT, FAILED; null
    /// while it waits), `action` (PROCESS, SKIP, RAISE, HOLD), `rule` ("M1" to "M8"), `reason` and
    /// `audit` (ERROR, WARNING, INFO or null), all dictionary<int8, utf8>; `found` and `retryable`
    /// (boolean), `mapped_id` (utf8), `pending_since` (timestamp[us, UTC]). The rules are those of
    /// `docs/mapper.md`. Rows that fail change those behind them, so it is computed for each call.
    /// A pyarrow RecordBatch where one came in, else a Table.
    #[getter]
    fn verdicts<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        let batch = crate::calls::outside(py, || verdict_columns(&self.send.rules(), self.send.known()))?;
        output::like(py, self.messages.input.is_batch, batch)
    }

    /// The messages to send of which nothing was said yet, in the columns they came in.
    #[getter]
    #[pyo3(name = "new")]
    fn open<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        let batch = crate::calls::outside(py, || self.messages.input.take(&self.send.open_rows()))?;
        output::like(py, self.messages.input.is_batch, batch)
    }

    /// The row numbers of `new`.
    #[getter]
    fn rows(&self) -> Vec<u32> {
        self.send.open_rows()
    }

    /// The records for the audit log: `time` (timestamp[us, UTC]), `channel`, `id`, `arrived_as`,
    /// `text` (utf8), `level`, `rule` (dictionary<int8, utf8>), `row` (uint32). A pyarrow
    /// RecordBatch.
    #[getter]
    fn audit<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        let (send, name) = (&self.send, self.mapper.name());
        let made = || audit_columns(name, &self.messages.ids, &send.rules(), send.known(), send.started_at());
        let batch = crate::calls::outside(py, made)?;
        Ok(output::record_batch(py, batch)?)
    }

    /// Number of the claim of its transaction; None without one.
    #[getter]
    fn id(&self) -> Option<u64> {
        self.send.claim()
    }

    /// Of a transaction: `first`, `unfinished` (it was begun before and did not end) or `finished`;
    /// else None.
    #[getter]
    fn replay(&self) -> Option<&'static str> {
        self.send.replay().map(replay_word)
    }

    /// These messages were sent: map them, and remove what is pending, in one step. Durable on
    /// return; again changes nothing.
    ///
    /// Args:
    ///     external_ids: the other side's ids, one for each of `rows` (or of `new`); None maps to
    ///         nothing, which is a mapping.
    ///     rows: row numbers of the batch; all of `new`, if absent.
    ///     persist_until: a datetime, a duration from now on, "forever", or a column of times; the
    ///         mapper's, if absent.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] a row was not to be sent, or was said to have failed.
    ///     SchemaError: [DH-SCHEMA] the columns have other lengths than the rows.
    ///     LockedError: [DH-LOCKED] another writer held the mapper for longer than `lock_timeout`.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    #[pyo3(signature = (external_ids = None, *, rows = None, persist_until = None, now = None))]
    fn complete(
        &self,
        py: Python<'_>,
        external_ids: Option<&Bound<'_, PyAny>>,
        rows: Option<&Bound<'_, PyAny>>,
        persist_until: Option<&Bound<'_, PyAny>>,
        now: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.check_process()?;
        let now_us = clock::now_us(now)?;
        let external_ids = external_ids.map(|given| ids("external_ids", given)).transpose()?;
        let kept = Kept::read(persist_until, self.persist_us, now_us)?;
        let rows = self.chosen(rows)?;
        crate::calls::outside(py, || {
            let texts = texts(external_ids.as_ref(), rows.len())?;
            let column = column(&self.messages.ids)?;
            let ids = self.mapper.values().ids(&column);
            Ok(self.send.complete(&ids, &rows, &texts, kept.untils(), now_us)?)
        })
    }

    /// These messages failed. Later messages of their queues are held. Durable on return.
    ///
    /// Args:
    ///     rows: row numbers of the batch; all of `new`, if absent.
    ///     definite: whether they were certainly not delivered: then they are pending no more, and
    ///         a retry is NEW. Else nobody knows, and they stay pending.
    ///
    /// Raises:
    ///     As `complete`.
    #[pyo3(signature = (rows = None, *, definite = false))]
    fn abort(
        &self,
        py: Python<'_>,
        rows: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::definite)] definite: bool,
    ) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.check_process()?;
        let rows = self.chosen(rows)?;
        crate::calls::outside(py, || {
            let column = column(&self.messages.ids)?;
            let ids = self.mapper.values().ids(&column);
            Ok(self.send.abort(&ids, &rows, definite)?)
        })
    }

    /// Raise `PendingMessageError`, with the rows, if the action of any is RAISE: such messages
    /// stay unacknowledged.
    ///
    /// Raises:
    ///     PendingMessageError: [DH-PENDING] the action of some is RAISE; `rows` holds them.
    fn raise_pending(&self, py: Python<'_>) -> Outcome<()> {
        self.check_pending(py)
    }

    fn __repr__(&self) -> String {
        let rules = self.send.rules();
        let new = rules.iter().filter(|rule| rule.outcome().action == Action::Process).count();
        format!("<MapperSend {:?}: {new} of {} messages to send>", self.mapper.name(), rules.len())
    }
}

impl MapperSend {
    fn chosen(&self, rows: Option<&Bound<'_, PyAny>>) -> Outcome<Vec<u32>> {
        let Some(rows) = rows else { return Ok(self.send.open_rows()) };
        let numbers = row_numbers(rows)?.into_iter();
        let row = |row: i64| u32::try_from(row).map_err(|_| Failure::state(format!("row {row} is beyond the batch")));
        numbers.map(row).collect()
    }

    pub(super) fn check_pending(&self, py: Python<'_>) -> Outcome<()> {
        let rules = self.send.rules();
        let raised: Vec<u32> =
            (0..rules.len() as u32).filter(|row| rules[*row as usize].outcome().action == Action::Raise).collect();
        let Some(first) = raised.first() else { return Ok(()) };
        let reason = rules[*first as usize].text();
        let batch = crate::calls::outside(py, || self.with_verdicts(&raised))?;
        let text = format!(
            "[DH-PENDING] {} of {} messages of channel {:?} cannot be sent and stay unacknowledged; row {first}: {reason}",
            raised.len(),
            rules.len(),
            self.mapper.name()
        );
        let error = py.import("dochistory.errors")?.getattr("PendingMessageError")?;
        let raised = error.call1((text, output::record_batch(py, batch)?))?;
        Err(Failure::Python(PyErr::from_value(raised)))
    }

    /// Rows of the batch, with their verdicts as further columns.
    fn with_verdicts(&self, rows: &[u32]) -> Outcome<RecordBatch> {
        let messages = self.messages.input.take(rows)?;
        let verdicts = verdict_columns(&self.send.rules(), self.send.known())?;
        let places = crate::arrow::array::UInt32Array::from(rows.to_vec());
        let verdicts = crate::arrow::compute::take_record_batch(&verdicts, &places)?;
        let mut fields: Vec<_> = messages.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        let mut arrays: Vec<ArrayRef> = messages.columns().to_vec();
        let schema = verdicts.schema();
        for (field, array) in schema.fields().iter().zip(verdicts.columns()) {
            if messages.schema().column_with_name(field.name()).is_none() {
                fields.push(field.as_ref().clone());
                arrays.push(array.clone());
            }
        }
        super::arrays::batch(fields.into_iter().zip(arrays).collect())
    }
}
