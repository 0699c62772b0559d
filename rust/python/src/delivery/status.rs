//! Streams as tables.

use std::sync::Arc;

use crate::arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray, UInt64Array};
use crate::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use dochistory_core::protocols::delivery::{ReceiverState, SenderState, StreamStatus};

use crate::errors::Outcome;

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Columns that are being built.
#[derive(Default)]
struct Table {
    fields: Vec<Field>,
    columns: Vec<ArrayRef>,
}

impl Table {
    fn text<'a>(mut self, name: &str, values: impl Iterator<Item = &'a str>) -> Self {
        self.fields.push(Field::new(name, DataType::Utf8, false));
        self.columns.push(Arc::new(StringArray::from_iter_values(values)));
        self
    }

    fn numbers(mut self, name: &str, values: impl Iterator<Item = Option<u64>>) -> Self {
        self.fields.push(Field::new(name, DataType::UInt64, true));
        self.columns.push(Arc::new(values.collect::<UInt64Array>()));
        self
    }

    /// Times; 0 is never.
    fn times(mut self, name: &str, values: impl Iterator<Item = Option<i64>>) -> Self {
        self.fields.push(Field::new(name, timestamp(), true));
        let times: TimestampMicrosecondArray = values.map(|time| time.filter(|&time| time != 0)).collect();
        self.columns.push(Arc::new(times.with_timezone("UTC")));
        self
    }

    fn finish(self) -> Outcome<RecordBatch> {
        Ok(RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.columns)?)
    }
}

/// The receiving sides of a delivery.
pub(super) fn received(states: &[(String, ReceiverState)]) -> Outcome<RecordBatch> {
    let number = |part: fn(&ReceiverState) -> u64| states.iter().map(move |(_, state)| Some(part(state)));
    Table::default()
        .text("stream", states.iter().map(|(stream, _)| stream.as_str()))
        .numbers("log_received", number(|state| state.log_received))
        .numbers("rereceive_count", number(|state| state.rereceive_count))
        .numbers("confirm_received", number(|state| state.confirm_received))
        .numbers("receive_count", number(|state| state.receive_count))
        .times("time_received", states.iter().map(|(_, state)| Some(state.time_received)))
        .numbers("applying_upto", number(|state| state.applying_upto))
        .finish()
}

/// The receiving sides that are in doubt.
pub(super) fn in_doubt(states: &[(String, ReceiverState)]) -> Outcome<RecordBatch> {
    let doubtful: Vec<_> = states.iter().filter(|(_, state)| state.in_doubt().is_some()).collect();
    Table::default()
        .text("stream", doubtful.iter().map(|(stream, _)| stream.as_str()))
        .numbers("log_received", doubtful.iter().map(|(_, state)| Some(state.log_received)))
        .numbers("applying_upto", doubtful.iter().map(|(_, state)| Some(state.applying_upto)))
        .finish()
}

/// All streams of a history, both sides.
pub(super) fn whole(streams: &[StreamStatus]) -> Outcome<RecordBatch> {
    let sent = |part: fn(&SenderState) -> u64| streams.iter().map(move |one| one.sent.as_ref().map(part));
    let received = |part: fn(&ReceiverState) -> u64| streams.iter().map(move |one| one.received.as_ref().map(part));
    Table::default()
        .text("publisher", streams.iter().map(|one| one.publisher.as_str()))
        .text("stream", streams.iter().map(|one| one.stream.as_str()))
        .numbers("log_send", sent(|state| state.log_send))
        .times("time_sent", streams.iter().map(|one| one.sent.map(|state| state.time_sent)))
        .numbers("log_sent", sent(|state| state.log_sent))
        .numbers("confirm_sent", sent(|state| state.confirm_sent))
        .numbers("send_count", sent(|state| state.send_count))
        .numbers("resend_count", sent(|state| state.resend_count))
        .times("time_received", streams.iter().map(|one| one.received.map(|state| state.time_received)))
        .numbers("log_received", received(|state| state.log_received))
        .numbers("confirm_received", received(|state| state.confirm_received))
        .numbers("receive_count", received(|state| state.receive_count))
        .numbers("rereceive_count", received(|state| state.rereceive_count))
        .numbers("applying_upto", received(|state| state.applying_upto))
        .finish()
}
