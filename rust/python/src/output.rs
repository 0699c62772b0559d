//! Arrow out: batches and tables as the caller's own kind of pyarrow object.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3_arrow::{PyRecordBatch, PyTable};

use crate::errors::Outcome;

/// A `pyarrow.RecordBatch`.
pub(crate) fn record_batch(py: Python<'_>, batch: RecordBatch) -> PyResult<Bound<'_, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    MAKE.import(py, "pyarrow", "record_batch")?.call1((PyRecordBatch::new(batch),))
}

/// A `pyarrow.Table`.
pub(crate) fn table(py: Python<'_>, schema: SchemaRef, batches: Vec<RecordBatch>) -> Outcome<Bound<'_, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let table = PyTable::try_new(batches, schema)?;
    Ok(MAKE.import(py, "pyarrow", "table")?.call1((table,))?)
}

/// A batch where a batch came in, else a table.
pub(crate) fn like(py: Python<'_>, is_batch: bool, batch: RecordBatch) -> Outcome<Bound<'_, PyAny>> {
    if is_batch { Ok(record_batch(py, batch)?) } else { table(py, batch.schema(), vec![batch]) }
}
