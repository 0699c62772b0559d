//! One decided poll, which is to be committed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::arrow::array::RecordBatch;
use dochistory_core::protocols::delivery::{NOT_APPLIED, Poll, Taken};
use dochistory_core::protocols::trigger::Replay;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::arrivals::Arrivals;
use super::columns;
use super::held_rows::{KeptRow, messages};
use super::offsets;
use super::shared::Shared;
use crate::claim::replay_word;
use crate::errors::{Failure, Outcome};
use crate::output;

/// What `GuaranteedDelivery.receive` decided about one poll.
///
/// Apply `messages` in order, each transaction whole; then `commit()`; only then send
/// `confirmations` and `resend_requests`. Nothing of a poll counts before it is committed.
#[pyclass(module = "dochistory", name = "DeliveryPoll", frozen)]
pub(crate) struct DeliveryPoll {
    pub(super) shared: Arc<Shared>,
    pub(super) replay: Option<Replay>,
    pub(super) state: Mutex<(Taken, Stage)>,
    pub(super) arrivals: Arrivals,
    pub(super) decision_columns: RecordBatch,
    pub(super) released_rows: Vec<Option<KeptRow>>,
    pub(super) decisions: PyOnceLock<Py<PyAny>>,
    pub(super) messages: PyOnceLock<Py<PyAny>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Open,
    Committed,
    Aborted,
}

#[pymethods]
impl DeliveryPoll {
    /// Of a poll with `transaction`: `first`, `unfinished` (it was handed out before and not
    /// committed) or `finished`; else None.
    #[getter]
    fn replay(&self) -> Option<&'static str> {
        self.replay.map(replay_word)
    }

    /// `open`, `committed` or `aborted`.
    #[getter]
    fn state(&self, py: Python<'_>) -> &'static str {
        match self.locked(py, |(_, stage)| *stage) {
            Stage::Open => "open",
            Stage::Committed => "committed",
            Stage::Aborted => "aborted",
        }
    }

    /// A row for each message, in order: `decision` (CORRUPT, STALE, FUTURE, DUPLICATE, OVERLAP,
    /// CONFLICT, HOLD, PART, APPLY, UNKNOWN), `status` (NEW, DUPLICATE, IN_DOUBT, HELD), both
    /// dictionary<int8, utf8>; `transaction` (uint64: `prev`, which groups the parts; null if
    /// CORRUPT), `apply_rank` (uint32: place in the order of application within the stream; null if
    /// not applied), `reason` (dictionary<int8, utf8>: the rules that matched, in words). A pyarrow
    /// RecordBatch where one came in, else a Table.
    #[getter]
    fn decisions(&self, py: Python<'_>) -> Outcome<Py<PyAny>> {
        let make = || Ok(output::like(py, self.arrivals.is_batch(), self.decision_columns.clone())?.unbind());
        self.decisions.get_or_try_init(py, make).map(|made| made.clone_ref(py))
    }

    /// A row for each stream that had messages or waits for some: `stream` (utf8), `log_received`,
    /// `rereceive_count`, `confirm`, `resend_epoch`, `resend_from` (uint64), `patience` (uint32:
    /// polls left before a resend is requested; null if nothing is missing), `held`,
    /// `buffered_parts` (uint64: messages). `confirm`, `resend_epoch` and `resend_from` are null
    /// until the poll is committed. A pyarrow RecordBatch.
    #[getter]
    fn streams<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        self.columns(py, columns::streams)
    }

    /// Messages of earlier polls that are applied now: `stream` (utf8), `prev`, `cur` (uint64: log
    /// offsets), `seq`, `apply_rank` (uint32). A pyarrow RecordBatch.
    #[getter]
    fn released<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        self.columns(py, |poll, _| columns::released(poll))
    }

    /// The messages to apply, in the order of application, stream by stream: their columns as they
    /// came in, those held until now included, and `dh_stream`; `dh_transaction` (uint64: the same
    /// for all parts of a transaction); `dh_commit` (uint64: the log offset that `log_received` has
    /// once this and its other parts are applied); `dh_apply_rank`. Every transaction is there with
    /// all its parts. A pyarrow RecordBatch where one came in, else a Table.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] a held message is released, and the delivery was opened with
    ///         `keep_rows=False`.
    #[getter]
    fn messages(&self, py: Python<'_>) -> Outcome<Py<PyAny>> {
        let make = || {
            let batch = self.locked(py, |(taken, _)| messages(&taken.poll, &self.arrivals, &self.released_rows))?;
            Ok(output::like(py, self.arrivals.is_batch(), batch)?.unbind())
        };
        self.messages.get_or_try_init(py, make).map(|made| made.clone_ref(py))
    }

    /// What to confirm to the publishers: `stream` (utf8), `confirm` (uint64: a log offset). A
    /// confirmation that gets lost comes again when the delivery is opened again, or with the next
    /// one. A pyarrow RecordBatch.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] the poll is not committed.
    #[getter]
    fn confirmations<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        self.after_commit(py, columns::confirmations)
    }

    /// What to ask the publishers for: `stream` (utf8), `resend_epoch`, `resend_from` (uint64). A
    /// pyarrow RecordBatch.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] the poll is not committed.
    #[getter]
    fn resend_requests<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        self.after_commit(py, columns::resend_requests)
    }

    /// Everything in `messages` is applied. Durable on return; again changes nothing.
    ///
    /// Args:
    ///     log_received: how far the caller has applied, where that is not all: a log offset, or a
    ///         mapping of streams to log offsets; each that of a COMMIT of this poll, or where the
    ///         stream stood before. A stream that was not applied whole goes back: a resend is
    ///         requested from there.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] the poll was aborted, or such an offset lies outside of what it
    ///         brings.
    ///     FencedError: [DH-FENCED] another receiver has moved a stream since this poll was
    ///         decided: nothing was recorded.
    ///     LockedError: [DH-LOCKED] another writer held the history's streams for longer than
    ///         `lock_timeout`.
    #[pyo3(signature = (log_received = None))]
    fn commit(&self, py: Python<'_>, log_received: Option<&Bound<'_, PyAny>>) -> Outcome<()> {
        self.shared.handle.get()?;
        let upto = offsets::by_stream("log_received", log_received, self.shared.only())?;
        self.locked(py, |(taken, stage)| {
            match stage {
                Stage::Committed => return Ok(()),
                Stage::Aborted => return Err(Failure::state("this poll was aborted: receive its messages again")),
                Stage::Open => {}
            }
            self.arrivals.with(|columns| self.shared.inbox.commit_upto(taken, columns, &upto))?;
            *stage = Stage::Committed;
            if self.shared.keep_rows {
                self.shared.kept().follow(&taken.poll, &self.arrivals)?;
            }
            Ok(())
        })
    }

    /// Certainly nothing of `messages` was applied: it is as if the poll had not been. Its messages
    /// have to be received again. Durable on return; again changes nothing.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] the poll was committed.
    ///     FencedError: [DH-FENCED] another receiver has moved a stream since this poll was
    ///         decided.
    fn abort(&self, py: Python<'_>) -> Outcome<()> {
        self.shared.handle.get()?;
        self.locked(py, |(taken, stage)| {
            match stage {
                Stage::Committed => return Err(Failure::state("this poll was committed")),
                Stage::Aborted => return Ok(()),
                Stage::Open => {}
            }
            self.shared.inbox.abort(taken)?;
            *stage = Stage::Aborted;
            Ok(())
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = self.state(py);
        let whose = self.shared.only().map_or_else(|| "of all streams".to_owned(), |stream| format!("{stream:?}"));
        let (apply, all) = self.locked(py, |(taken, _)| {
            let rows = &taken.poll.rows;
            let applied = rows.apply_ranks.iter().filter(|rank| **rank != NOT_APPLIED).count();
            (applied + taken.poll.released.len(), rows.len())
        });
        format!("<DeliveryPoll {whose}: {all} messages, {apply} to apply, {state}>")
    }
}

impl DeliveryPoll {
    /// Works on the poll without holding Python.
    fn locked<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut (Taken, Stage)) -> T + Send) -> T {
        crate::calls::outside(py, || {
            let mut state: MutexGuard<'_, _> = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut state)
        })
    }

    fn columns<'py>(
        &self,
        py: Python<'py>,
        make: impl FnOnce(&Poll, bool) -> Outcome<RecordBatch> + Send,
    ) -> Outcome<Bound<'py, PyAny>> {
        let batch = self.locked(py, |(taken, stage)| make(&taken.poll, *stage == Stage::Committed))?;
        Ok(output::record_batch(py, batch)?)
    }

    fn after_commit<'py>(
        &self,
        py: Python<'py>,
        make: fn(&Poll) -> Outcome<RecordBatch>,
    ) -> Outcome<Bound<'py, PyAny>> {
        self.columns(py, |poll, is_committed| {
            if is_committed {
                return make(poll);
            }
            Err(Failure::state("this poll is not committed: nothing may be sent to a publisher before that"))
        })
    }
}
