//! Arrow in: documents from any object that implements Arrow's C interface, as batches of rows.

use std::sync::Arc;

use crate::arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, new_empty_array};
use crate::arrow::compute::{cast, concat, concat_batches, take_record_batch};
use crate::arrow::datatypes::{DataType, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;

use crate::errors::{Failure, Outcome};
use crate::pyarrow::from_pyarrow;

/// The rows of one call, in order. They are judged as one batch, however many batches they came in.
pub(crate) struct Input {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) rows: usize,
    /// Whether it came as one batch rather than as a table or a stream.
    pub(crate) is_batch: bool,
}

impl Input {
    /// Take rows without copying them.
    pub(crate) fn import(documents: &Bound<'_, PyAny>) -> Outcome<Self> {
        if let Some(batch) = from_pyarrow(documents)? {
            return Ok(Self::from(batch));
        }
        let found = documents.extract::<AnyRecordBatch>().map_err(|error| not_arrow(documents, error))?;
        match found {
            AnyRecordBatch::RecordBatch(batch) => Ok(Self::from(batch.into_inner())),
            AnyRecordBatch::Stream(stream) => {
                let reader = stream.into_reader()?;
                let schema = reader.schema();
                // The producer may have to work in threads that need Python.
                let batches = crate::calls::outside(documents.py(), || reader.collect::<Result<Vec<_>, _>>());
                let batches = batches.map_err(|error| Failure::schema(format!("the documents end early: {error}")))?;
                let rows = batches.iter().map(RecordBatch::num_rows).sum();
                Ok(Self { schema, batches, rows, is_batch: false })
            }
        }
    }

    /// One column as one array; copies only if it is in parts.
    pub(crate) fn column(&self, at: usize) -> Outcome<ArrayRef> {
        match &self.batches[..] {
            [] => Ok(new_empty_array(self.schema.field(at).data_type())),
            [batch] => Ok(batch.column(at).clone()),
            batches => joined(&batches.iter().map(|batch| batch.column(at).clone()).collect::<Vec<_>>()),
        }
    }

    /// The rows with these numbers, in rising order, as one batch.
    pub(crate) fn take(&self, rows: &[u32]) -> Outcome<RecordBatch> {
        let mut parts = Vec::new();
        let (mut rest, mut start) = (rows, 0);
        for batch in &self.batches {
            let end = start + batch.num_rows() as u32;
            let (here, later) = rest.split_at(rest.partition_point(|row| *row < end));
            if !here.is_empty() {
                let places = UInt32Array::from_iter_values(here.iter().map(|row| row - start));
                parts.push(take_record_batch(batch, &places)?);
            }
            (rest, start) = (later, end);
        }
        match parts.len() {
            1 => Ok(parts.swap_remove(0)),
            _ => Ok(concat_batches(&self.schema, &parts)?),
        }
    }
}

impl From<RecordBatch> for Input {
    fn from(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), rows: batch.num_rows(), batches: vec![batch], is_batch: true }
    }
}

/// Concatenate the parts of a column. Text of more than 2 GiB in total gets wider offsets.
pub(crate) fn joined(parts: &[ArrayRef]) -> Outcome<ArrayRef> {
    let as_they_are: Vec<&dyn Array> = parts.iter().map(Arc::as_ref).collect();
    match concat(&as_they_are) {
        Err(_) if parts.iter().all(|part| part.data_type() == &DataType::Utf8) => {
            let wide: Vec<_> = parts.iter().map(|part| cast(part, &DataType::LargeUtf8)).collect::<Result<_, _>>()?;
            Ok(concat(&wide.iter().map(Arc::as_ref).collect::<Vec<_>>())?)
        }
        other => Ok(other?),
    }
}

/// The error for an object that is no table; an error of its own stays as it is.
fn not_arrow(documents: &Bound<'_, PyAny>, error: PyErr) -> Failure {
    let py = documents.py();
    if !error.is_instance_of::<PyValueError>(py) && !error.is_instance_of::<PyTypeError>(py) {
        return error.into();
    }
    let kind = documents.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    let reason = error.value(py);
    Failure::schema(format!(
        "documents must be a table with Arrow's C interface, such as a pyarrow RecordBatch or Table, a Polars or pandas \
         DataFrame, or a DuckDB relation, not of type {kind} ({reason})"
    ))
}
