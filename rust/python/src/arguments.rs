//! Arguments whose type is wrong get a sentence with a code, too.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::errors::Failure;
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

/// The argument `transaction`.
pub(crate) fn transaction(given: &Bound<'_, PyAny>) -> PyResult<Option<(String, i64)>> {
    let wrong =
        || Failure::config(format!("transaction is {}; allowed is (name of an application, number)", shown(given)));
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
    in_batch: Option<String>, "\"duplicate\", \"in_doubt\", \"new\" or None";
    expiry: String, "\"until_purged\" or \"exact\"";
    path: PathBuf, "a path";
    shards: u32, "a power of two up to 65536";
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
