//! A poll that several processes decide, each all messages of some streams.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use crate::arrow::buffer::NullBuffer;
use crate::arrow::datatypes::{DataType, Field, Schema};
use dochistory_core::Transaction;
use dochistory_core::protocols::delivery::{NOT_APPLIED, Portion, Rows, decide_portion};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMapping};

use super::arrivals::Arrivals;
use super::columns;
use super::inbox::GuaranteedDelivery;
use super::poll::{DeliveryPoll, Stage};
use crate::arguments;
use crate::call::plain_replays;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::input::Input;
use crate::output;
use crate::shards::Shards;

#[pymethods]
impl Shards {
    /// What other processes need to decide the next poll together, each all messages of some
    /// streams (`decide_delivery`). Changes nothing.
    ///
    /// Args:
    ///     delivery: the receiving side, which polls.
    ///     now: the time of `time_received`, a datetime with a time zone; the clock's, if absent.
    ///     transaction, on_replay, on_other_rows: as for `GuaranteedDelivery.receive`.
    ///
    /// Returns:
    ///     Bytes, for processes of the same version.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] an earlier poll is neither committed nor aborted; or messages are
    ///         held in this process.
    ///     TransactionError: [DH-TRANSACTION] the application's numbers went backwards.
    #[staticmethod]
    #[pyo3(signature = (delivery, *, now = None, transaction = None, on_replay = "in_doubt", on_other_rows = "error"))]
    fn plan_delivery<'py>(
        py: Python<'py>,
        delivery: &Bound<'py, GuaranteedDelivery>,
        now: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::transaction)] transaction: Option<(String, i64)>,
        on_replay: &str,
        on_other_rows: &str,
    ) -> Outcome<Bound<'py, PyBytes>> {
        let _call = crate::calls::InCall::enter(py);
        let shared = &delivery.get().shared;
        shared.handle.get()?;
        let (now, replays) = (clock::now_us(now)?, plain_replays(on_replay, on_other_rows)?);
        let transaction = transaction.map(|(application, batch)| Transaction { application, batch });
        let plan = crate::calls::outside(py, || shared.inbox.plan(now, transaction.as_ref(), replays))?;
        Ok(PyBytes::new(py, &plan))
    }

    /// Make one poll of what other processes have decided by this plan. As after
    /// `GuaranteedDelivery.receive`, what is about to be applied is recorded before this returns,
    /// and the poll ends with `commit` or `abort`. Its `decisions` and `messages` are empty: the
    /// rows are where they were decided.
    ///
    /// Args:
    ///     delivery: the receiving side that the plan is of.
    ///     plan: from `plan_delivery`.
    ///     receipts: from `decide_delivery`, one of each part. Of a part that was decided twice
    ///         only one counts.
    ///     transaction, on_replay, on_other_rows: those of `plan_delivery`.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] the plan or a receipt is of another poll; a stream lay in two
    ///         parts; or a stream waits with messages that did not come back.
    ///     FencedError: [DH-FENCED] another receiver has moved a stream since it was read: nothing
    ///         was recorded.
    ///     TransactionError: [DH-TRANSACTION] a known number came with other messages: nothing was
    ///         recorded.
    #[staticmethod]
    #[pyo3(signature = (delivery, plan, receipts, *, transaction = None, on_replay = "in_doubt", on_other_rows = "error"))]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 hands it over")]
    fn merge_delivery(
        py: Python<'_>,
        delivery: &Bound<'_, GuaranteedDelivery>,
        plan: Vec<u8>,
        receipts: Vec<Vec<u8>>,
        #[pyo3(from_py_with = arguments::transaction)] transaction: Option<(String, i64)>,
        on_replay: &str,
        on_other_rows: &str,
    ) -> Outcome<DeliveryPoll> {
        let _call = crate::calls::InCall::enter(py);
        let shared = &delivery.get().shared;
        shared.handle.get()?;
        let replays = plain_replays(on_replay, on_other_rows)?;
        let transaction = transaction.map(|(application, batch)| Transaction { application, batch });
        let taken = crate::calls::outside(py, || shared.inbox.gather(&plan, &receipts, transaction.as_ref(), replays))?;
        Ok(DeliveryPoll {
            shared: shared.clone(),
            replay: taken.replay,
            decision_columns: columns::decisions(&taken.poll.rows)?,
            state: Mutex::new((taken, Stage::Open)),
            arrivals: Arrivals::none(),
            released_rows: Vec::new(),
            decisions: PyOnceLock::new(),
            messages: PyOnceLock::new(),
        })
    }

    /// Decide some streams of a poll for the process that made the plan: all messages that it
    /// brought of these streams. Reads the streams' rows in this history, which may be open for
    /// reading, and changes nothing. Nothing counts before `merge_delivery` was given the receipt;
    /// an answer that is thrown away has never been.
    ///
    /// Args:
    ///     plan: from `plan_delivery`.
    ///     messages: the messages, in order of arrival, in the columns that
    ///         `GuaranteedDelivery.receive` takes.
    ///     kept: the first `kept` rows are messages of earlier polls, handed in again because
    ///         `keep` said so.
    ///     columns: name of a column -> its name in `messages`, where they differ.
    ///     stream: whose messages they are, if there is no column that says so.
    ///
    /// Returns:
    ///     A row for each message: the columns of `DeliveryPoll.decisions`, `commit` (uint64: the
    ///     log offset that `log_received` has once this and its other parts are applied; null if
    ///     not applied) and `keep` (hand it in again with the next poll, if this one is committed).
    ///     And the receipt.
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] a column is missing or has the wrong type.
    ///     StateError: [DH-STATE] the plan is of another version; or not all that was kept was
    ///         handed in.
    #[pyo3(signature = (plan, messages, *, kept = 0, columns = None, stream = None))]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 hands it over")]
    fn decide_delivery<'py>(
        &self,
        py: Python<'py>,
        plan: Vec<u8>,
        messages: &Bound<'_, PyAny>,
        kept: usize,
        columns: Option<&Bound<'_, PyMapping>>,
        stream: Option<String>,
    ) -> Outcome<(Bound<'py, PyAny>, Bound<'py, PyBytes>)> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let input = Input::import(messages)?;
        if kept > input.rows {
            return Err(Failure::config(format!("kept is {kept}, and there are {} rows", input.rows)));
        }
        let renamed: Option<HashMap<String, String>> = columns
            .map(|columns| columns.items()?.iter().map(|pair| pair.extract()).collect::<PyResult<_>>())
            .transpose()?;
        let (batch, receipt) = crate::calls::outside(py, || {
            let flags: Vec<bool> = (0..input.rows).map(|row| row < kept).collect();
            let arrivals = Arrivals::new(input, renamed.as_ref(), stream.as_deref())?;
            let store = history.received_streams(false)?;
            let portion = arrivals.with(|columns| decide_portion(&*store, &plan, columns, &flags))?;
            answer(portion)
        })?;
        Ok((output::record_batch(py, batch)?, PyBytes::new(py, &receipt)))
    }
}

fn answer(portion: Portion) -> Outcome<(RecordBatch, Vec<u8>)> {
    let Portion { reasons, transactions, apply_ranks, commits, keep, receipt } = portion;
    let rows = Rows { reasons, transactions, apply_ranks };
    let decided = columns::decisions(&rows)?;
    let is_applied: NullBuffer = rows.apply_ranks.iter().map(|&rank| rank != NOT_APPLIED).collect();
    let mut fields: Vec<_> = decided.schema().fields().iter().cloned().collect();
    let mut arrays: Vec<ArrayRef> = decided.columns().to_vec();
    let commits = UInt64Array::new(commits.into(), Some(is_applied));
    let keep = BooleanArray::from(keep);
    fields.push(Field::new("commit", commits.data_type().clone(), true).into());
    arrays.push(std::sync::Arc::new(commits));
    fields.push(Field::new("keep", DataType::Boolean, false).into());
    arrays.push(std::sync::Arc::new(keep));
    Ok((RecordBatch::try_new(std::sync::Arc::new(Schema::new(fields)), arrays)?, receipt))
}
