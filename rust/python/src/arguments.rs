//! Arguments of a wrong type get an error with a code too.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::errors::Failure;
use crate::paths;
use crate::trigger::Trigger;

/// The argument `trigger`.
pub(crate) fn trigger<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Trigger>> {
    let wrong = || Failure::config(format!("trigger is {}; needed is a dochistory.Trigger", shown(given)));
    given.cast::<Trigger>().cloned().map_err(|_| wrong().into())
}

/// The argument `threads`.
pub(crate) fn threads(given: &Bound<'_, PyAny>) -> PyResult<usize> {
    let wrong = || Failure::config(format!("threads is {}; allowed is a whole number from 1 on", shown(given)));
    let count = if given.is_instance_of::<PyBool>() { None } else { given.extract::<usize>().ok() };
    count.filter(|count| *count > 0).ok_or_else(|| wrong().into())
}

/// The argument `transaction`: every function that takes one uses this.
pub(crate) fn transaction(given: &Bound<'_, PyAny>) -> PyResult<Option<(String, i64)>> {
    if given.is_none() {
        return Ok(None);
    }
    let wrong = || {
        let text =
            "(name of an application, number of its batch): text that is not empty, and a whole number from 0 on";
        Failure::config(format!("transaction is {}; allowed is {text}", shown(given)))
    };
    let Ok((application, batch)) = given.extract::<(String, Bound<'_, PyAny>)>() else { return Err(wrong().into()) };
    let batch = if batch.is_instance_of::<PyBool>() { None } else { batch.extract::<i64>().ok() };
    batch
        .filter(|batch| *batch >= 0 && !application.is_empty())
        .map(|batch| Some((application, batch)))
        .ok_or_else(|| wrong().into())
}

/// The argument `parts`.
pub(crate) fn parts(given: &Bound<'_, PyAny>) -> PyResult<u32> {
    let wrong = || Failure::config(format!("parts is {}; allowed is a whole number from 1 on", shown(given)));
    let count = if given.is_instance_of::<PyBool>() { None } else { given.extract::<u32>().ok() };
    count.filter(|count| *count > 0).ok_or_else(|| wrong().into())
}

/// The argument `path`: a directory of this machine, or a URL that names one.
pub(crate) fn path(given: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let wrong = || Failure::config(format!("path is {}; allowed is a path", shown(given)));
    let path: PathBuf = given.extract().map_err(|_| wrong())?;
    Ok(paths::local(path)?)
}

/// The argument `cache_bytes`.
pub(crate) fn cache_bytes(given: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let wrong = || Failure::config(format!("cache_bytes is {}; allowed is a whole number, or None", shown(given)));
    if given.is_none() {
        return Ok(None);
    }
    let count = if given.is_instance_of::<PyBool>() { None } else { given.extract::<u64>().ok() };
    count.map(Some).ok_or_else(|| wrong().into())
}

/// The argument `cache`: a directory of this machine.
pub(crate) fn cache(given: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    let wrong = || Failure::config(format!("cache is {}; allowed is a path, or None", shown(given)));
    given.extract().map_err(|_| wrong().into())
}

/// Arguments of a plain type, each under its name.
macro_rules! plain {
    ($($name:ident: $type:ty, $allowed:literal;)+) => {
        $(pub(crate) fn $name(given: &Bound<'_, PyAny>) -> PyResult<$type> {
            let wrong = || {
                let name = stringify!($name);
                Failure::config(format!("{name} is {}; allowed is {}", shown(given), $allowed))
            };
            given.extract().map_err(|_| wrong().into())
        })+
    };
}

plain! {
    name: String, "text";
    kind: String, "\"messaging\" or \"jms\"";
    detect_duplicates: bool, "True or False";
    use_history: bool, "True or False";
    processing_mode: String, "\"serial\" or \"concurrent\"";
    suspend_and_retry_on_error: bool, "True or False";
    suspend_on_failure: bool, "True or False";
    max_delivery_count: i64, "a whole number";
    max_redelivery_count: Option<i64>, "a whole number or None";
    complete_resolved: bool, "True or False";
    without_ids: String, "\"refuse\" or \"in_doubt\"";
    in_batch: Option<String>, "\"duplicate\", \"in_doubt\", \"new\" or None";
    expiry: String, "\"until_purged\" or \"exact\"";
    shards: u32, "a power of two up to 65536";
    patience: u32, "a whole number of polls from 0 on, below 4294967296";
    held_limit: usize, "a whole number from 1 on";
}

/// The setting `resolver_attempts`.
pub(crate) fn resolver_attempts(given: &Bound<'_, PyAny>) -> PyResult<u32> {
    let wrong =
        || Failure::config(format!("resolver_attempts is {}; allowed is a whole number from 1 on", shown(given)));
    let count = if given.is_instance_of::<PyBool>() { None } else { given.extract::<u32>().ok() };
    count.filter(|count| *count > 0).ok_or_else(|| wrong().into())
}

/// A value as an error shows it.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "an object without a name".to_owned(), |text| text.to_string())
}
