//! The receiving side of streams.

use std::sync::{Arc, Mutex};

use dochistory_core::Transaction;
use dochistory_core::protocols::delivery::Receiving;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyMapping;

use super::arrivals::Arrivals;
use super::columns;
use super::poll::{DeliveryPoll, Stage};
use super::shared::Shared;
use super::status;
use crate::arguments;
use crate::call::plain_replays;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::history::names;
use crate::input::Input;
use crate::output;

/// The receiving side of guaranteed delivery: every operation applied in the right order, none
/// missed, none applied twice. `History.delivery` opens it, for one stream (a publisher-subscriber
/// pair) or for all.
///
/// A message has a header `(resend_count-prev-cur-seq)`: the epoch, the log offsets of the last
/// COMMIT in the previous message and in this one, and the number of the part of a transaction that
/// spans messages. One call of `receive` is one poll; row order is order of arrival. What a history
/// keeps of a stream is a row of watermarks, and no list of ids.
///
/// Not durable, by the rules: messages that are held or buffered, and the wait for what is missing.
/// After a crash they are requested again; a transaction that spans messages then starts again at
/// its first part.
#[pyclass(module = "dochistory", name = "GuaranteedDelivery", frozen)]
pub(crate) struct GuaranteedDelivery {
    pub(super) shared: Arc<Shared>,
}

#[pymethods]
impl GuaranteedDelivery {
    /// The one stream that this delivery receives; None if it receives all.
    #[getter]
    fn stream(&self) -> Option<&str> {
        self.shared.only()
    }

    /// Methods that were public once, with a warning.
    fn __getattr__<'py>(this: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        crate::shards::formerly_of_delivery(this.as_any(), this.get().shared.handle.clone(), name)
    }

    /// Decide one poll: which messages are applied, in which order, and what is held, dropped or
    /// asked for again.
    ///
    /// Unless the delivery was opened with `own_transaction`, a poll that applies something is
    /// recorded (`applying_upto`) before this returns; it ends with `commit`, or with `abort` if
    /// certainly nothing of it was applied. If neither happens, what it applies is in doubt when
    /// the delivery is opened again.
    ///
    /// Args:
    ///     messages: what arrived, in order of arrival; None if nothing did (which counts as a poll
    ///         too). Columns: `stream` (text; may be absent in the delivery of one stream), and
    ///         `header` (text) or `resend_count`, `prev`, `cur`, `seq` (integers). A null header is
    ///         a damaged message. Other columns come back in `DeliveryPoll.messages`.
    ///     now: the time of `time_received`, a datetime with a time zone; the clock's, if absent.
    ///     columns: name of a column as above -> its name in `messages`, where they differ.
    ///     threads: threads to use; a stream is never shared by two.
    ///     transaction: (application, number of the batch): a batch that comes again is known by
    ///         it.
    ///     on_replay: what becomes of streams that this very batch was about to apply when the
    ///         process ended: `in_doubt`, or `rerun` (handed out again, if it ends where it ended
    ///         before: for work that is idempotent for each batch).
    ///     on_other_rows: what is done with a known number that comes with other messages: `error`
    ///         (nothing is recorded), or `look_up` (each stream decides by its own row).
    ///
    /// Returns:
    ///     DeliveryPoll: the decisions, the messages to apply, and the right to commit.
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] a column is missing or has the wrong type, or messages that are
    ///         held have other columns.
    ///     ConfigError: [DH-CONFIG] an argument makes no sense.
    ///     StateError: [DH-STATE] an earlier poll is neither committed nor aborted; or the history
    ///         is closed.
    ///     FencedError: [DH-FENCED] another receiver has moved a stream since this delivery read
    ///         it.
    ///     TransactionError: [DH-TRANSACTION] the application's numbers went backwards, or a known
    ///         number came with other messages.
    ///     LockedError: [DH-LOCKED] another writer held the history's streams for longer than
    ///         `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading, and something is to be
    ///         recorded.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    #[pyo3(signature = (
        messages = None, *, now = None, columns = None, threads = 1, transaction = None, on_replay = "in_doubt",
        on_other_rows = "error"
    ))]
    #[expect(clippy::too_many_arguments, reason = "users give them by name")]
    fn receive(
        &self,
        py: Python<'_>,
        messages: Option<&Bound<'_, PyAny>>,
        now: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::columns)] columns: Option<Bound<'_, PyMapping>>,
        #[pyo3(from_py_with = arguments::threads)] threads: usize,
        #[pyo3(from_py_with = arguments::transaction)] transaction: Option<(String, i64)>,
        #[pyo3(from_py_with = arguments::on_replay)] on_replay: &str,
        #[pyo3(from_py_with = arguments::on_other_rows)] on_other_rows: &str,
    ) -> Outcome<DeliveryPoll> {
        let _call = crate::calls::InCall::enter(py);
        self.shared.handle.get()?;
        let replays = plain_replays(on_replay, on_other_rows)?;
        let now = clock::now_us(now)?;
        let transaction = transaction.map(|(application, batch)| Transaction { application, batch });
        let input = messages.map(Input::import).transpose()?;
        let renamed = names(columns.as_ref())?;
        let shared = &self.shared;
        let (arrivals, taken, decisions, released) = crate::calls::outside(py, || {
            let arrivals = match input {
                Some(input) => {
                    shared.kept().check(&input)?;
                    Arrivals::new(input, renamed.as_ref(), shared.only())?
                }
                None => Arrivals::none(),
            };
            let taken = arrivals.with(|columns| {
                let how = Receiving { columns, now, threads, transaction: transaction.as_ref(), replays };
                shared.inbox.receive(&how)
            })?;
            let decisions = columns::decisions(&taken.poll.rows)?;
            let released = shared.kept().released(&taken.poll);
            Ok::<_, Failure>((arrivals, taken, decisions, released))
        })?;
        Ok(DeliveryPoll {
            shared: shared.clone(),
            replay: taken.replay,
            state: Mutex::new((taken, Stage::Open)),
            arrivals,
            decision_columns: decisions,
            released_rows: released,
            decisions: PyOnceLock::new(),
            messages: PyOnceLock::new(),
        })
    }

    /// The streams and how they stand in this delivery.
    ///
    /// Returns:
    ///     A pyarrow RecordBatch with a row for each stream: `stream` (utf8), `log_received`,
    ///     `rereceive_count`, `confirm_received`, `receive_count` (uint64), `time_received`
    ///     (timestamp[us, UTC]; null is never), `applying_upto` (uint64).
    ///
    /// Raises:
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn status<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        self.shared.handle.get()?;
        let batch = crate::calls::outside(py, || status::received(&self.shared.inbox.states()))?;
        Ok(output::record_batch(py, batch)?)
    }

    /// Streams of which nobody knows how far they were applied before a crash. Everything up to
    /// `log_received` was applied, and nothing after `applying_upto`. Their messages are held until
    /// `settle`, or until the delivery is opened with `log_received`.
    ///
    /// Returns:
    ///     A pyarrow RecordBatch with a row for each stream: `stream` (utf8), `log_received`,
    ///     `applying_upto` (uint64: log offsets).
    ///
    /// Raises:
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn in_doubt<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        self.shared.handle.get()?;
        let batch = crate::calls::outside(py, || status::in_doubt(&self.shared.inbox.states()))?;
        Ok(output::record_batch(py, batch)?)
    }

    /// Say how far a stream in doubt was applied: up to `log_received`, the end of a transaction.
    /// Durable on return.
    ///
    /// Args:
    ///     stream: the stream.
    ///     log_received: a log offset: the end of a transaction.
    ///
    /// Raises:
    ///     RestoredError: [DH-RESTORED] it lies outside of what may have been applied.
    ///     StateError: [DH-STATE] there is no such stream, or a poll is neither committed nor
    ///         aborted.
    ///     FencedError: [DH-FENCED] another receiver has moved the stream.
    fn settle(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::stream_name)] stream: &str,
        #[pyo3(from_py_with = arguments::log_received)] log_received: u64,
    ) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        self.shared.handle.get()?;
        Ok(crate::calls::outside(py, || self.shared.inbox.settle(stream, log_received))?)
    }

    fn __repr__(&self) -> String {
        match self.shared.only() {
            Some(stream) => format!("<GuaranteedDelivery {stream:?}>"),
            None => "<GuaranteedDelivery of all streams>".to_owned(),
        }
    }
}
