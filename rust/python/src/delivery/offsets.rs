//! Log offsets from Python: one of the delivery's only stream, or a mapping of streams to offsets.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyMapping;

use crate::errors::{Failure, Outcome};

/// The offsets by stream.
pub(super) fn by_stream(
    what: &str,
    given: Option<&Bound<'_, PyAny>>,
    only: Option<&str>,
) -> Outcome<HashMap<String, u64>> {
    let Some(given) = given else { return Ok(HashMap::new()) };
    if let Ok(mapping) = given.cast::<PyMapping>() {
        let pairs = mapping.items()?;
        let offsets: HashMap<String, u64> =
            pairs.iter().map(|pair| pair.extract()).collect::<PyResult<_>>().map_err(|_| unfit(what, given))?;
        if let Some((only, other)) = only.zip(offsets.keys().find(|stream| only != Some(stream.as_str()))) {
            return Err(Failure::config(format!("{what} names {other:?}, and this is the delivery of {only:?}")));
        }
        return Ok(offsets);
    }
    let offset: u64 = given.extract().map_err(|_| unfit(what, given))?;
    let Some(only) = only else {
        return Err(Failure::config(format!(
            "{what} is one offset, but this is the delivery of all streams: give a mapping of streams to offsets"
        )));
    };
    Ok(HashMap::from([(only.to_owned(), offset)]))
}

fn unfit(what: &str, given: &Bound<'_, PyAny>) -> Failure {
    let shown = given.repr().map_or_else(|_| "?".to_owned(), |shown| shown.to_string());
    Failure::config(format!(
        "{what} is {shown}; allowed is a log offset (0 to 2**64-1), or a mapping of streams to log offsets"
    ))
}
