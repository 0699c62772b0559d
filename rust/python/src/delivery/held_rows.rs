//! The rows of messages that are held or buffered, so that they can be handed out when they are
//! applied. In memory only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::arrow::array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use crate::arrow::compute::interleave_record_batch;
use crate::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use dochistory_core::protocols::delivery::{InOrder, Place, Poll};

use super::arrivals::Arrivals;
use crate::errors::{Failure, Outcome};
use crate::input::Input;

/// One row of a batch.
#[derive(Clone)]
pub(super) struct KeptRow {
    batch: Arc<RecordBatch>,
    row: usize,
}

/// Rows by stream and place in it (prev, seq).
#[derive(Default)]
pub(super) struct Kept {
    streams: HashMap<Arc<str>, BTreeMap<(u64, u32), KeptRow>>,
}

impl Kept {
    /// The rows of the messages that a poll releases; a missing one is a fault of this program, or
    /// of `keep_rows`.
    pub(super) fn released(&self, poll: &Poll) -> Vec<Option<KeptRow>> {
        let find = |stream: &str, place| self.streams.get(stream).and_then(|rows| rows.get(&place)).cloned();
        let all = poll.released.iter();
        all.map(|one| find(&poll.streams[one.stream as usize].stream, (one.prev, one.seq))).collect()
    }

    /// Whether these columns can be handed out with the held rows. Must be called before a poll is
    /// recorded.
    pub(super) fn check(&self, input: &Input) -> Outcome<()> {
        let Some(held) = self.streams.values().find_map(|rows| rows.values().next()) else { return Ok(()) };
        let schema = held.batch.schema();
        if schema.fields() == input.schema.fields() {
            return Ok(());
        }
        Err(Failure::schema(format!(
            "messages that are held have the columns {}, and this poll has {}: hand in the same columns in every poll; \
             nothing of this one was recorded",
            said(&schema),
            said(&input.schema)
        )))
    }

    /// Moves on to the messages that are kept after a poll.
    pub(super) fn follow(&mut self, poll: &Poll, arrivals: &Arrivals) -> Outcome<()> {
        let released = poll.released.iter().map(|one| (one.stream, one.prev, one.seq));
        let dropped = poll.dropped.iter().map(|one| (one.stream, one.prev, one.seq));
        for (stream, prev, seq) in released.chain(dropped) {
            if let Some(rows) = self.streams.get_mut(&poll.streams[stream as usize].stream) {
                rows.remove(&(prev, seq));
            }
        }
        self.keep(poll, arrivals)?;
        for one in poll.streams.iter().filter(|one| one.held + one.buffered_parts == 0) {
            self.streams.remove(&one.stream);
        }
        Ok(())
    }

    fn keep(&mut self, poll: &Poll, arrivals: &Arrivals) -> Outcome<()> {
        let Some(input) = &arrivals.input else { return Ok(()) };
        let rows: Vec<u32> = (0..poll.rows.len()).filter(|&row| poll.rows.is_kept(row)).map(|row| row as u32).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let batch = Arc::new(input.take(&rows)?);
        let names: HashMap<&str, &Arc<str>> = poll.streams.iter().map(|one| (&*one.stream, &one.stream)).collect();
        arrivals.with(|columns| {
            for (at, &row) in rows.iter().enumerate() {
                let row = row as usize;
                let Some((header, &stream)) = columns.header(row).zip(names.get(arrivals.stream_of(row))) else {
                    continue;
                };
                let kept = KeptRow { batch: batch.clone(), row: at };
                self.streams.entry(stream.clone()).or_default().insert((header.prev, header.seq), kept);
            }
        });
        Ok(())
    }
}

/// The messages that a poll applies, in order: their columns as they came in, and `dh_stream`,
/// `dh_transaction`, `dh_commit`, `dh_apply_rank`.
pub(super) fn messages(poll: &Poll, arrivals: &Arrivals, released: &[Option<KeptRow>]) -> Outcome<RecordBatch> {
    let order = arrivals.with(|columns| poll.in_order(columns));
    let released: Vec<&KeptRow> = released
        .iter()
        .map(|row| {
            row.as_ref()
                .ok_or_else(|| Failure::state("this delivery keeps no rows: find the released ones by poll.released"))
        })
        .collect::<Outcome<_>>()?;
    let (schema, columns) = rows_in_order(&order, arrivals, &released)?;
    let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
    let mut columns = columns;
    let mut add = |name: &str, kind: DataType, column: ArrayRef| {
        fields.push(Arc::new(Field::new(name, kind, false)));
        columns.push(column);
    };
    let names = order.iter().map(|one| &*poll.streams[one.stream as usize].stream);
    add("dh_stream", DataType::Utf8, Arc::new(StringArray::from_iter_values(names)));
    let numbers = |number: fn(&InOrder) -> u64| Arc::new(UInt64Array::from_iter_values(order.iter().map(number)));
    add("dh_transaction", DataType::UInt64, numbers(|one| one.transaction));
    add("dh_commit", DataType::UInt64, numbers(|one| one.commit));
    let ranks = UInt32Array::from_iter_values(order.iter().map(|one| one.apply_rank));
    add("dh_apply_rank", DataType::UInt32, Arc::new(ranks));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

fn rows_in_order(order: &[InOrder], arrivals: &Arrivals, released: &[&KeptRow]) -> Outcome<(SchemaRef, Vec<ArrayRef>)> {
    let mut batches: Vec<&RecordBatch> = Vec::new();
    let mut starts = Vec::new();
    let mut start = 0;
    if let Some(input) = &arrivals.input {
        for batch in &input.batches {
            batches.push(batch);
            starts.push(start);
            start += batch.num_rows();
        }
    }
    let own = batches.len();
    let mut places: HashMap<*const RecordBatch, usize> = HashMap::new();
    let mut place_of =
        |kept: &KeptRow| *places.entry(Arc::as_ptr(&kept.batch)).or_insert_with(|| places_end(&mut starts));
    let released_at: Vec<(usize, usize)> = released.iter().map(|kept| (place_of(kept), kept.row)).collect();
    let mut others: Vec<Option<&RecordBatch>> = vec![None; starts.len() - own];
    for (kept, (place, _)) in released.iter().zip(&released_at) {
        others[place - own] = Some(&kept.batch);
    }
    batches.extend(others.into_iter().flatten());
    let indices: Vec<(usize, usize)> = order
        .iter()
        .map(|one| match one.place {
            Place::Row(row) => {
                let at = starts[..own].partition_point(|&start| start <= row as usize) - 1;
                (at, row as usize - starts[at])
            }
            Place::Released(at) => released_at[at as usize],
        })
        .collect();
    let schema = arrivals
        .input
        .as_ref()
        .map(|input| input.schema.clone())
        .or_else(|| batches.first().map(|batch| batch.schema()));
    let Some(schema) = schema else { return Ok((Arc::new(Schema::empty()), Vec::new())) };
    if indices.is_empty() {
        let empty =
            schema.fields().iter().map(|field| crate::arrow::array::new_empty_array(field.data_type())).collect();
        return Ok((schema, empty));
    }
    Ok((schema, interleave_record_batch(&batches, &indices)?.columns().to_vec()))
}

/// Columns and their types, in words.
fn said(schema: &Schema) -> String {
    let fields = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type()));
    format!("[{}]", fields.collect::<Vec<_>>().join(", "))
}

/// Appends the start of one more batch, whose rows are not counted.
fn places_end(starts: &mut Vec<usize>) -> usize {
    starts.push(usize::MAX);
    starts.len() - 1
}
