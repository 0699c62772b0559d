//! The extension module `dochistory._native`.
use pyo3::prelude::*;

/// Arrow in, Arrow out; errors; the GIL. No rule lives here.
#[pymodule]
mod _native {}
