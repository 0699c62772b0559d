//! Arrow out: the decisions of a poll, as columns.

use std::sync::{Arc, LazyLock};

use crate::arrow::array::{ArrayRef, DictionaryArray, Int8Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use crate::arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use crate::arrow::datatypes::{DataType, Field, Int8Type, Schema};
use dochistory_core::protocols::delivery::{Decision, NOT_APPLIED, Poll, Reason, Rows, Status};

use crate::errors::Outcome;

/// A column of words: the word of each reason.
struct Words {
    words: ArrayRef,
    places: [i8; Reason::ALL.len()],
}

static DECISION: LazyLock<Words> =
    LazyLock::new(|| Words::new(&Decision::ALL.map(Decision::as_str), |reason| reason.decision() as i8));
static STATUS: LazyLock<Words> =
    LazyLock::new(|| Words::new(&Status::ALL.map(Status::as_str), |reason| reason.status() as i8));
static REASON: LazyLock<Words> = LazyLock::new(|| Words::new(&Reason::ALL.map(Reason::text), |reason| reason as i8));

impl Words {
    fn new(words: &[&'static str], place: impl Fn(Reason) -> i8) -> Self {
        Self { words: Arc::new(StringArray::from(words.to_vec())), places: Reason::ALL.map(place) }
    }

    fn column(&self, reasons: &[Reason]) -> Outcome<ArrayRef> {
        let places: ScalarBuffer<i8> = reasons.iter().map(|&reason| self.places[reason as usize]).collect();
        Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(Int8Array::new(places, None), self.words.clone())?))
    }
}

/// One row a message: `decision`, `status`, `transaction`, `apply_rank`, `reason`.
pub(super) fn decisions(rows: &Rows) -> Outcome<RecordBatch> {
    let word = || DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let schema = Schema::new(vec![
        Field::new("decision", word(), false),
        Field::new("status", word(), false),
        Field::new("transaction", DataType::UInt64, true),
        Field::new("apply_rank", DataType::UInt32, true),
        Field::new("reason", word(), false),
    ]);
    let nulls = |is_there: &dyn Fn(usize) -> bool| {
        let bits = BooleanBuffer::collect_bool(rows.len(), is_there);
        (bits.count_set_bits() < rows.len()).then(|| NullBuffer::new(bits))
    };
    let usable = nulls(&|row| rows.reasons[row].decision() != Decision::Corrupt);
    let applied = nulls(&|row| rows.apply_ranks[row] != NOT_APPLIED);
    let columns: Vec<ArrayRef> = vec![
        DECISION.column(&rows.reasons)?,
        STATUS.column(&rows.reasons)?,
        Arc::new(UInt64Array::new(rows.transactions.clone().into(), usable)),
        Arc::new(UInt32Array::new(rows.apply_ranks.clone().into(), applied)),
        REASON.column(&rows.reasons)?,
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

/// One row a stream; what may be sent is null until the poll is committed.
pub(super) fn streams(poll: &Poll, is_committed: bool) -> Outcome<RecordBatch> {
    let all = &poll.streams;
    let sendable = |found: Option<u64>| found.filter(|_| is_committed);
    let number = |name: &str, nullable: bool| Field::new(name, DataType::UInt64, nullable);
    let schema = Schema::new(vec![
        Field::new("stream", DataType::Utf8, false),
        number("log_received", false),
        number("rereceive_count", false),
        number("confirm", true),
        number("resend_epoch", true),
        number("resend_from", true),
        Field::new("patience", DataType::UInt32, true),
        number("held", false),
        number("buffered_parts", false),
    ]);
    let resend = |part: fn((u64, u64)) -> u64| all.iter().map(move |one| sendable(one.resend.map(part)));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(all.iter().map(|one| &*one.stream))),
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|one| one.log_received))),
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|one| one.rereceive_count))),
        Arc::new(all.iter().map(|one| sendable(one.confirm)).collect::<UInt64Array>()),
        Arc::new(resend(|(epoch, _)| epoch).collect::<UInt64Array>()),
        Arc::new(resend(|(_, from)| from).collect::<UInt64Array>()),
        Arc::new(all.iter().map(|one| one.patience).collect::<UInt32Array>()),
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|one| one.held))),
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|one| one.buffered_parts))),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

/// Messages of earlier polls that are applied now: `stream`, `prev`, `cur`, `seq`, `apply_rank`.
pub(super) fn released(poll: &Poll) -> Outcome<RecordBatch> {
    let all = &poll.released;
    let schema = Schema::new(vec![
        Field::new("stream", DataType::Utf8, false),
        Field::new("prev", DataType::UInt64, false),
        Field::new("cur", DataType::UInt64, false),
        Field::new("seq", DataType::UInt32, false),
        Field::new("apply_rank", DataType::UInt32, false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(all.iter().map(|one| &*poll.streams[one.stream as usize].stream))),
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|one| one.prev))),
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|one| one.cur))),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|one| one.seq))),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|one| one.apply_rank))),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

/// The confirmations to send: `stream`, `confirm`.
pub(super) fn confirmations(poll: &Poll) -> Outcome<RecordBatch> {
    let found: Vec<_> = poll.streams.iter().filter_map(|one| Some((&*one.stream, one.confirm?))).collect();
    let schema =
        Schema::new(vec![Field::new("stream", DataType::Utf8, false), Field::new("confirm", DataType::UInt64, false)]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(found.iter().map(|(stream, _)| *stream))),
        Arc::new(UInt64Array::from_iter_values(found.iter().map(|(_, confirm)| *confirm))),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

/// The resend requests to send: `stream`, `resend_epoch`, `resend_from`.
pub(super) fn resend_requests(poll: &Poll) -> Outcome<RecordBatch> {
    let found: Vec<_> = poll.streams.iter().filter_map(|one| Some((&*one.stream, one.resend?))).collect();
    let schema = Schema::new(vec![
        Field::new("stream", DataType::Utf8, false),
        Field::new("resend_epoch", DataType::UInt64, false),
        Field::new("resend_from", DataType::UInt64, false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(found.iter().map(|(stream, _)| *stream))),
        Arc::new(UInt64Array::from_iter_values(found.iter().map(|(_, (epoch, _))| *epoch))),
        Arc::new(UInt64Array::from_iter_values(found.iter().map(|(_, (_, from))| *from))),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}
