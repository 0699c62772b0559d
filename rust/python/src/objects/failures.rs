//! What the client raises, as an error of the engine.

use std::io;
use std::path::PathBuf;

use dochistory_core::Error;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PySystemExit};
use pyo3::prelude::*;

use crate::errors::{DocHistoryError, ForkedError};

/// The engine's error for an exception of the client. One that says nothing of the store, as an
/// interrupt, is kept, and raised again where the engine's call ends.
pub(super) fn engine(py: Python<'_>, error: PyErr) -> Error {
    let is_exit = error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py);
    if is_exit || error.is_instance_of::<ForkedError>(py) || is_of_handler(py, &error).unwrap_or(false) {
        crate::calls::keep(error);
        return Error::Interrupted;
    }
    if error.is_instance_of::<DocHistoryError>(py) {
        return Error::ObjectStore(error.value(py).to_string());
    }
    if error.is_instance_of::<PyOSError>(py)
        && let Some(error) = of_file(error.value(py))
    {
        return error;
    }
    let said = error.to_string();
    Error::ObjectStore(format!("[DH-OBJECTS] the client of the object store failed: {said}; nothing was acknowledged"))
}

/// Whether the handler of a signal raised this: the client's code is where it came, and not to
/// blame.
fn is_of_handler(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    py.import("dochistory.objects.signals")?.call_method1("is_of_handler", (error.traceback(py),))?.extract()
}

/// The operating system's refusal of a local file.
fn of_file(error: &Bound<'_, PyAny>) -> Option<Error> {
    let number: i32 = error.getattr("errno").ok()?.extract().ok()?;
    let path: PathBuf = error.getattr("filename").ok()?.extract().ok()?;
    Some(Error::Io { operation: "transfer", path, source: io::Error::from_raw_os_error(number) })
}
