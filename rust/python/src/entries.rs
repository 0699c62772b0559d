//! The entries of a trigger as a stream of record batches.

use std::sync::Arc;

use crate::arrow::array::{
    ArrayRef, DictionaryArray, Int8Array, RecordBatch, RecordBatchReader, StringArray, TimestampMicrosecondArray,
};
use crate::arrow::datatypes::{DataType, Field, Int8Type, Schema, SchemaRef, TimeUnit};
use crate::arrow::error::ArrowError;
use dochistory_core::history::{Entries, EntryBatch, EntryStatus};
use pyo3::PyErr;

use crate::errors::{Failure, Outcome};
use crate::handle::Handle;

/// Reads entries on demand.
pub(crate) struct EntryReader {
    pub(crate) handle: Arc<Handle>,
    pub(crate) entries: Entries,
    /// The trigger's name, as the one word of a dictionary.
    pub(crate) trigger: ArrayRef,
    pub(crate) statuses: ArrayRef,
    pub(crate) schema: SchemaRef,
}

/// The possible states.
pub(crate) fn status(word: Option<&str>) -> Outcome<Option<EntryStatus>> {
    match word {
        None => Ok(None),
        Some("processing") => Ok(Some(EntryStatus::Processing)),
        Some("completed") => Ok(Some(EntryStatus::Completed)),
        Some(other) => {
            Err(Failure::config(format!("status is {other:?}; allowed is \"processing\" or \"completed\" or None")))
        }
    }
}

impl EntryReader {
    pub(crate) fn new(handle: Arc<Handle>, trigger: &str, entries: Entries) -> Self {
        let word = || DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let schema = Arc::new(Schema::new(vec![
            Field::new("trigger", word(), false),
            Field::new("key", DataType::Utf8, false),
            Field::new("status", word(), false),
            Field::new("started_at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false),
        ]));
        let trigger = Arc::new(StringArray::from(vec![trigger]));
        let statuses = Arc::new(StringArray::from(vec!["processing", "completed"]));
        Self { handle, entries, trigger, statuses, schema }
    }

    fn columns(&self, batch: EntryBatch) -> Result<RecordBatch, ArrowError> {
        let words = |places: Int8Array, words: &ArrayRef| {
            DictionaryArray::<Int8Type>::try_new(places, words.clone()).map(|column| Arc::new(column) as ArrayRef)
        };
        let statuses = batch.statuses.iter().map(|status| i8::from(*status == EntryStatus::Completed));
        let columns = vec![
            words(Int8Array::from(vec![0; batch.keys.len()]), &self.trigger)?,
            Arc::new(StringArray::from(batch.keys)),
            words(statuses.collect(), &self.statuses)?,
            Arc::new(TimestampMicrosecondArray::from(batch.started_at).with_timezone("UTC")),
        ];
        RecordBatch::try_new(self.schema.clone(), columns)
    }
}

impl Iterator for EntryReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // The stream outlives the call that made it.
        let found = self.handle.get().and_then(|_| Ok(self.entries.next_batch()?));
        match found {
            Ok(batch) => batch.map(|batch| self.columns(batch)),
            Err(failure) => Some(Err(ArrowError::ExternalError(Box::new(PyErr::from(failure))))),
        }
    }
}

impl RecordBatchReader for EntryReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
