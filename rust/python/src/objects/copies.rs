//! Copies of a history between a bucket and a directory, for `dochistory backup`.

use std::path::PathBuf;
use std::sync::Arc;

use dochistory_core::history::{History as Engine, OpenOptions, copy_from_objects};
use dochistory_core::objects::ObjectStore;
use pyo3::prelude::*;

use super::Client;
use crate::calls::InCall;
use crate::errors::Outcome;

/// Copy a history in a bucket into a new directory. Not public: `dochistory backup` uses it.
///
/// Args:
///     url: the history.
///     directory: where the copy is made. Nothing is synced.
///     storage_options: as for `open`.
///
/// Returns:
///     list of str: the triggers that were copied.
#[pyfunction]
#[pyo3(signature = (url, directory, storage_options = None))]
pub(crate) fn _copy_from_bucket(
    py: Python<'_>,
    url: &str,
    directory: PathBuf,
    storage_options: Option<&Bound<'_, PyAny>>,
) -> Outcome<Vec<String>> {
    let _call = InCall::enter(py);
    let client = Client::connect(py, url, storage_options)?;
    Ok(crate::calls::outside(py, || copy_from_objects(Arc::new(client), &directory))?)
}

/// Copy a history in a directory, to which nobody else writes, to a URL where nothing is but the
/// copy of its audit log. Not public: `dochistory backup` uses it, and checks the store before.
///
/// Args:
///     directory: the history; its log is put into segments.
///     url: where the copy is made.
///     storage_options: as for `open`.
#[pyfunction]
#[pyo3(signature = (directory, url, storage_options = None))]
pub(crate) fn _copy_to_bucket(
    py: Python<'_>,
    directory: PathBuf,
    url: &str,
    storage_options: Option<&Bound<'_, PyAny>>,
) -> Outcome<()> {
    let _call = InCall::enter(py);
    let client = Client::connect(py, url, storage_options)?;
    let store: Arc<dyn ObjectStore> = Arc::new(client);
    Ok(crate::calls::outside(py, || Engine::open(&directory, &OpenOptions::default())?.copy_to_objects(&store))?)
}
