//! The sending side of a stream.

use std::sync::Arc;

use crate::arguments;
use crate::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use crate::arrow::compute::cast;
use crate::arrow::datatypes::{DataType, Field, Schema, UInt32Type, UInt64Type};
use dochistory_core::protocols::delivery::{Built, Outbox, SenderState, Transactions};
use pyo3::prelude::*;

use crate::answers;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::output;

/// The sending side of guaranteed delivery: what one subscriber of a publisher's log was sent and
/// has confirmed. `History.delivery_out` opens it. All changes are durable on return. One process
/// sends to a subscriber at a time.
#[pyclass(module = "dochistory", name = "DeliveryOutbox", frozen)]
pub(crate) struct DeliveryOutbox {
    pub(super) handle: Arc<Handle>,
    pub(super) outbox: Outbox,
}

#[pymethods]
impl DeliveryOutbox {
    /// Who subscribes.
    #[getter]
    fn subscriber(&self) -> &str {
        self.outbox.names().1
    }

    /// Whose log is sent.
    #[getter]
    fn publisher(&self) -> &str {
        self.outbox.names().0
    }

    /// Log offset of the last COMMIT that was sent: `build` goes on behind it.
    #[getter]
    fn log_sent(&self) -> u64 {
        self.state().log_sent
    }

    /// Log offset of the last COMMIT that there is to send.
    #[getter]
    fn log_send(&self) -> u64 {
        self.state().log_send
    }

    /// Log offset that the subscriber has confirmed.
    #[getter]
    fn confirm_sent(&self) -> u64 {
        self.state().confirm_sent
    }

    /// The epoch: how often the subscriber asked for a resend.
    #[getter]
    fn resend_count(&self) -> u64 {
        self.state().resend_count
    }

    /// How many messages were sent, each part counting as one.
    #[getter]
    fn send_count(&self) -> u64 {
        self.state().send_count
    }

    /// Build the messages for the transactions after `log_sent`, and note them as sent, durable on
    /// return: send them after that. A message that gets lost on the way, even here, is asked for
    /// again.
    ///
    /// Args:
    ///     transactions: those that there are to send, in the order of the log: a table with the
    ///         columns `offset` (integer: log offset of the COMMIT) and optionally `parts`
    ///         (integer: messages that it takes; it must depend on the transaction only); or the
    ///         offsets alone, as an Arrow array or any iterable. Those up to `log_sent` are passed
    ///         over.
    ///     per_message: at most this number of transactions that take one message go into one
    ///         together.
    ///     max_messages: stop before the transaction that would make it more than this number of
    ///         messages; the rest is built by the next call. One transaction is always built whole.
    ///     now: the time of `time_sent`, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     The messages in order, a pyarrow RecordBatch: `header` (utf8), `resend_count`, `prev`,
    ///     `cur` (uint64), `seq` (uint32), `first` (uint32: number of the first of `transactions`
    ///     that it carries), `count` (uint32: how many; a part carries its share of one).
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] the offsets do not rise, or are no integers.
    ///     FencedError: [DH-FENCED] another sender has moved the stream.
    ///     StateError: [DH-STATE] the history is closed.
    #[pyo3(signature = (transactions, *, per_message = 1, max_messages = None, now = None))]
    fn build<'py>(
        &self,
        py: Python<'py>,
        transactions: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::per_message)] per_message: usize,
        #[pyo3(from_py_with = arguments::max_messages)] max_messages: Option<usize>,
        now: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        let (offsets, parts) = read_transactions(transactions)?;
        let now = clock::now_us(now)?;
        let max_messages = max_messages.unwrap_or(usize::MAX);
        let batch = crate::calls::outside(py, || {
            let transactions = Transactions { offsets: &offsets, parts: parts.as_deref(), per_message, max_messages };
            messages(&self.outbox.build(&transactions, now)?)
        })?;
        Ok(output::record_batch(py, batch)?)
    }

    /// The subscriber says that it has everything up to `offset`. Durable on return.
    ///
    /// Args:
    ///     offset: a log offset: the `confirm` of the confirmation.
    ///
    /// Returns:
    ///     bool: whether that is news.
    ///
    /// Raises:
    ///     RestoredError: [DH-RESTORED] that was never sent: this side was restored to an older
    ///         state.
    ///     FencedError: [DH-FENCED] another sender has moved the stream.
    fn on_confirmation(&self, py: Python<'_>, #[pyo3(from_py_with = arguments::offset)] offset: u64) -> Outcome<bool> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        Ok(crate::calls::outside(py, || self.outbox.on_confirmation(offset))?)
    }

    /// The subscriber asks for everything after `offset`, under `epoch`. If that is news, drop what
    /// was built and not sent, and build what comes after `log_sent`. Durable on return.
    ///
    /// Args:
    ///     epoch: the `resend_epoch` of the request.
    ///     offset: its `resend_from`.
    ///     log_start: the oldest offset that the log still has; if absent, it is taken to be
    ///         truncated as far as it may be.
    ///
    /// Returns:
    ///     bool: whether that is news.
    ///
    /// Raises:
    ///     TruncatedError: [DH-TRUNCATED] the log does not reach back so far: extract the
    ///         subscription again.
    ///     RestoredError: [DH-RESTORED] that was never sent: this side was restored to an older
    ///         state.
    ///     FencedError: [DH-FENCED] another sender has moved the stream.
    #[pyo3(signature = (epoch, offset, *, log_start = None))]
    fn on_resend_request(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::epoch)] epoch: u64,
        #[pyo3(from_py_with = arguments::offset)] offset: u64,
        #[pyo3(from_py_with = arguments::log_start)] log_start: Option<u64>,
    ) -> Outcome<bool> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        Ok(crate::calls::outside(py, || self.outbox.on_resend_request(epoch, offset, log_start))?)
    }

    /// Up to here the publisher's log may be truncated: all of its subscribers have confirmed it.
    ///
    /// Returns:
    ///     int: a log offset.
    ///
    /// Raises:
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn truncation_point(&self, py: Python<'_>) -> Outcome<u64> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        Ok(crate::calls::outside(py, || self.outbox.truncation_point())?)
    }

    /// The subscriber leaves: nothing is kept for it any more, and the log need not be.
    ///
    /// Raises:
    ///     FencedError: [DH-FENCED] another sender has moved the stream.
    fn remove(&self, py: Python<'_>) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        Ok(crate::calls::outside(py, || self.outbox.remove())?)
    }

    fn __repr__(&self) -> String {
        format!("<DeliveryOutbox {:?}>", self.outbox.names().1)
    }
}

impl DeliveryOutbox {
    fn state(&self) -> SenderState {
        self.outbox.state()
    }
}

type Columns = (Vec<u64>, Option<Vec<u32>>);

fn read_transactions(given: &Bound<'_, PyAny>) -> Outcome<Columns> {
    if !given.hasattr("__arrow_c_array__")? && !given.hasattr("__arrow_c_stream__")? {
        let offsets = given.try_iter()?.map(|offset| offset?.extract::<u64>()).collect::<PyResult<Vec<_>>>();
        let unfit = |error: PyErr| Failure::schema(format!("the transactions are no log offsets: {error}"));
        return Ok((offsets.map_err(unfit)?, None));
    }
    let (_, array) = answers::import(given)?;
    let Some(table) = array.as_struct_opt() else { return Ok((u64s("offset", &array)?, None)) };
    let offset = table.column_by_name("offset").ok_or_else(|| {
        let there = table.column_names().join(", ");
        Failure::schema(format!("there is no column \"offset\" among [{there}]: the log offset of each COMMIT"))
    })?;
    let parts = table.column_by_name("parts").map(|parts| {
        let wide = integers("parts", parts, &DataType::UInt32)?;
        Ok::<_, Failure>(wide.as_primitive::<UInt32Type>().values().to_vec())
    });
    Ok((u64s("offset", offset)?, parts.transpose()?))
}

fn u64s(name: &str, array: &ArrayRef) -> Outcome<Vec<u64>> {
    Ok(integers(name, array, &DataType::UInt64)?.as_primitive::<UInt64Type>().values().to_vec())
}

fn integers(name: &str, array: &ArrayRef, wide: &DataType) -> Outcome<ArrayRef> {
    if !array.data_type().is_integer() && array.data_type() != &DataType::Null {
        return Err(Failure::schema(format!("column {name:?} is {}; allowed is an integer", array.data_type())));
    }
    let numbers = cast(array, wide)?;
    match (0..numbers.len()).find(|&row| numbers.is_null(row)) {
        Some(row) => Err(Failure::schema(format!("column {name:?}, row {row}: null, or out of range"))),
        None => Ok(numbers),
    }
}

fn messages(built: &Built) -> Outcome<RecordBatch> {
    let schema = Schema::new(vec![
        Field::new("header", DataType::Utf8, false),
        Field::new("resend_count", DataType::UInt64, false),
        Field::new("prev", DataType::UInt64, false),
        Field::new("cur", DataType::UInt64, false),
        Field::new("seq", DataType::UInt32, false),
        Field::new("first", DataType::UInt32, false),
        Field::new("count", DataType::UInt32, false),
    ]);
    let headers = &built.headers;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(headers.iter().map(ToString::to_string))),
        Arc::new(UInt64Array::from_iter_values(headers.iter().map(|header| header.resend_count))),
        Arc::new(UInt64Array::from_iter_values(headers.iter().map(|header| header.prev))),
        Arc::new(UInt64Array::from_iter_values(headers.iter().map(|header| header.cur))),
        Arc::new(UInt32Array::from_iter_values(headers.iter().map(|header| header.seq))),
        Arc::new(UInt32Array::from(built.first.clone())),
        Arc::new(UInt32Array::from(built.count.clone())),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}
