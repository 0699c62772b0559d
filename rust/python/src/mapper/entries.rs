//! The entries of a mapper as a stream of record batches.

use std::sync::Arc;

use crate::arrow::array::{ArrayRef, DictionaryArray, Int8Array, RecordBatch, RecordBatchReader, StringArray};
use crate::arrow::datatypes::{DataType, Field, Int8Type, Schema, SchemaRef};
use crate::arrow::error::ArrowError;
use dochistory_core::protocols::mapper::{Known, PendingBatch, PendingEntries};
use pyo3::PyErr;

use super::arrays::{batch, known_columns};
use crate::errors::Outcome;
use crate::handle::Handle;

/// Reads entries on demand.
pub(super) struct EntryReader {
    handle: Arc<Handle>,
    entries: PendingEntries,
    /// The channel's name, as the one word of a dictionary.
    channel: ArrayRef,
    schema: SchemaRef,
}

impl EntryReader {
    pub(super) fn new(handle: Arc<Handle>, channel: &str, entries: PendingEntries) -> Outcome<Self> {
        let mut fields = vec![
            Field::new("channel", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), true),
            Field::new("id", DataType::Utf8, true),
        ];
        fields.extend(known_columns(&Known::default())?.into_iter().map(|(field, _)| field));
        let channel = Arc::new(StringArray::from(vec![channel]));
        Ok(Self { handle, entries, channel, schema: Arc::new(Schema::new(fields)) })
    }

    fn columns(&self, found: PendingBatch) -> Outcome<RecordBatch> {
        let rows = Int8Array::from(vec![0; found.ids.len()]);
        let channel = DictionaryArray::<Int8Type>::try_new(rows, self.channel.clone())?;
        let own: Vec<ArrayRef> = vec![Arc::new(channel), Arc::new(StringArray::from(found.ids))];
        let mut columns: Vec<(Field, ArrayRef)> =
            self.schema.fields().iter().map(|field| field.as_ref().clone()).zip(own).collect();
        columns.extend(known_columns(&found.known)?);
        batch(columns)
    }
}

impl Iterator for EntryReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The stream outlives the call that made it.
        let found = self.handle.get().and_then(|_| Ok(self.entries.next_batch()?));
        let batch = found.and_then(|found| found.map(|found| self.columns(found)).transpose());
        batch.map_err(|failure| ArrowError::ExternalError(Box::new(PyErr::from(failure)))).transpose()
    }
}

impl RecordBatchReader for EntryReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
