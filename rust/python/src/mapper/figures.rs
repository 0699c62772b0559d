//! The figures of a space of values, as a dictionary.

use dochistory_core::history::values::ValueStatistics;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) fn value_statistics(py: Python<'_>, found: ValueStatistics) -> PyResult<Bound<'_, PyDict>> {
    let transactions = PyDict::new(py);
    for (application, batch, is_finished) in found.transactions {
        transactions.set_item(application, (batch, is_finished))?;
    }
    let figures = PyDict::new(py);
    figures.set_item("file_entries", found.file_entries)?;
    figures.set_item("later_entries", found.later_entries)?;
    figures.set_item("pending_entries", found.pending_entries)?;
    figures.set_item("log_entries", found.log_entries)?;
    figures.set_item("files", found.files)?;
    figures.set_item("file_bytes", found.file_bytes)?;
    figures.set_item("log_bytes", found.log_bytes)?;
    figures.set_item("manifest", found.manifest)?;
    figures.set_item("transactions", transactions)?;
    Ok(figures)
}
