//! Arguments of a wrong type get an error with a code too.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyMapping, PyString};

use crate::errors::Failure;

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
    let wrong = || Failure::config(format!("cache is {}; allowed is a str, an os.PathLike or None", shown(given)));
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
    shards: u32, "a power of two up to 65536";
    patience: u32, "a whole number of polls from 0 on, below 4294967296";
    held_limit: usize, "a whole number from 1 on";
    create: bool, "True or False";
    read_only: bool, "True or False";
    auto_maintain: bool, "True or False";
    dry_run: bool, "True or False";
    force: bool, "True or False";
    all: bool, "True or False";
    apply: bool, "True or False";
    own_transaction: bool, "True or False";
    batch_mode: bool, "True or False";
    reset_patience: bool, "True or False";
    first_contact: bool, "True or False";
    keep_rows: bool, "True or False";
    transactional: bool, "True or False";
    raise_pending: bool, "True or False";
    mirror: bool, "True or False";
    definite: bool, "True or False";
    include_pending: bool, "True or False";
    uuid: Option<String>, "text, or None";
    track_id: Option<String>, "text, or None";
    event_id: Option<String>, "text, or None";
    jms_message_id: Option<String>, "text, or None";
    redelivery_count: Option<i64>, "a whole number, or None";
    delivery_count: Option<i64>, "a whole number, or None";
    guaranteed: Option<bool>, "True, False or None";
    persistent: Option<bool>, "True, False or None";
    status: Option<String>, "\"processing\" or \"completed\" or None";
    stream: Option<String>, "text, the name of a stream, or None";
    snapshot: Option<String>, "what History.pin answered, or None";
    part: (u32, u32), "(number of the part, number of parts)";
    log_received: u64, "a log offset, from 0 to 2**64-1";
    offset: u64, "a log offset, from 0 to 2**64-1";
    epoch: u64, "a whole number from 0 on";
    start: Option<u64>, "a log offset, from 0 to 2**64-1, or None";
    log_start: Option<u64>, "a log offset, from 0 to 2**64-1, or None";
    per_message: usize, "a whole number from 1 on";
    max_messages: Option<usize>, "a whole number, or None";
}

/// The argument `columns`: names by role, where they differ.
pub(crate) fn columns<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyMapping>>> {
    if given.is_none() {
        return Ok(None);
    }
    given.cast::<PyMapping>().cloned().map(Some).map_err(|_| no_columns(given).into())
}

/// The error about an argument `columns` that maps no names to names.
pub(crate) fn no_columns(given: &Bound<'_, PyAny>) -> Failure {
    let allowed = "a mapping of names to names of columns, as in columns={\"uuid\": \"message_id\"}";
    Failure::config(format!("columns is {}; allowed is {allowed}", shown(given)))
}

/// Words, each under its name.
macro_rules! words {
    ($($name:ident, $allowed:literal;)+) => {
        $(pub(crate) fn $name<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
            word(stringify!($name), given, $allowed)
        })+
    };
}

fn word<'a>(name: &str, given: &'a Bound<'_, PyAny>, allowed: &str) -> PyResult<&'a str> {
    let wrong = || Failure::config(format!("{name} is {}; allowed is {allowed}", shown(given)));
    let text = given.cast::<PyString>().map_err(|_| wrong())?;
    // A lone surrogate is no text.
    text.to_str().map_err(|_| wrong().into())
}

/// The argument `stream` where there is no other choice.
pub(crate) fn stream_name<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    word("stream", given, "text, the name of a stream")
}

/// The argument `snapshot` where there is no other choice.
pub(crate) fn pinned<'a>(given: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    word("snapshot", given, "what History.pin answered")
}

words! {
    on_replay, "\"in_doubt\", \"rerun\", or with a trigger \"resolver\"";
    on_other_rows, "\"error\" or \"look_up\"";
    channel, "text, the name of a channel";
    pending, "\"error\" or \"process\" or \"duplicate\"";
    decision, "\"error\" or \"process\" or \"duplicate\"";
    expiry, "\"until_purged\" or \"exact\"";
    qos, "\"BE\" or \"EO\" or \"EOIO\"";
    subscriber, "text, the name of a subscriber";
    publisher, "text, the name of a publisher";
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
