//! Arrow out: batches and tables as pyarrow objects of the caller's kind.

use crate::arrow::array::RecordBatch;
use crate::arrow::datatypes::SchemaRef;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;

use crate::errors::Outcome;
use crate::pyarrow::{described, to_pyarrow};

/// A `pyarrow.RecordBatch`.
pub(crate) fn record_batch(py: Python<'_>, batch: RecordBatch) -> PyResult<Bound<'_, PyAny>> {
    to_pyarrow(py, batch)
}

/// A `pyarrow.Table`.
pub(crate) fn table(py: Python<'_>, schema: SchemaRef, batches: Vec<RecordBatch>) -> Outcome<Bound<'_, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("pyarrow")?.getattr("Table")?.getattr("from_batches")?.unbind())
    })?;
    let parts = PyList::empty(py);
    for batch in batches {
        parts.append(to_pyarrow(py, batch)?)?;
    }
    Ok(make.bind(py).call1((parts, described(py, &schema)?))?)
}

/// A batch if a batch came in, else a table.
pub(crate) fn like(py: Python<'_>, is_batch: bool, batch: RecordBatch) -> Outcome<Bound<'_, PyAny>> {
    if is_batch { Ok(record_batch(py, batch)?) } else { table(py, batch.schema(), vec![batch]) }
}
