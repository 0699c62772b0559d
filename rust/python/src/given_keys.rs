//! The keys given by a caller: an Arrow array, documents, or text.

use crate::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::answers;
use crate::arguments;
use crate::columns::Columns;
use crate::errors::{Failure, Outcome};
use crate::input::Input;
use crate::trigger::Trigger;

/// The keys: an Arrow array, documents in the trigger's columns, or any iterable of text.
pub(crate) fn keys(keys: &Bound<'_, PyAny>, trigger: &Trigger) -> Outcome<Columns> {
    if !keys.hasattr("__arrow_c_array__")? && !keys.hasattr("__arrow_c_stream__")? {
        return Columns::of_keys(listed(keys)?);
    }
    let (_, array) = answers::import(keys)?;
    match array.as_struct_opt() {
        None => Columns::of_keys(array),
        Some(rows) if rows.null_count() > 0 => Err(Failure::schema("keys are documents, and some rows are null")),
        Some(rows) => {
            let batch = RecordBatch::from(rows.clone());
            Columns::find(&Input::from(batch), trigger.rules.kind, None)
        }
    }
}

/// The keys where documents are not allowed: an Arrow array, or any iterable of text.
pub(crate) fn only_keys(keys: &Bound<'_, PyAny>) -> Outcome<Columns> {
    if !keys.hasattr("__arrow_c_array__")? && !keys.hasattr("__arrow_c_stream__")? {
        return Columns::of_keys(listed(keys)?);
    }
    Columns::of_keys(answers::import(keys)?.1)
}

pub(crate) fn listed(keys: &Bound<'_, PyAny>) -> Outcome<ArrayRef> {
    let is_one = keys.is_instance_of::<PyString>() || keys.is_instance_of::<PyBytes>();
    let items = keys.try_iter().ok().filter(|_| !is_one).ok_or_else(|| {
        let kind = keys.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
        Failure::schema(format!("keys are a {kind}; needed is an Arrow array, documents, or an iterable of text"))
    })?;
    let mut texts: Vec<Option<String>> = Vec::new();
    for item in items {
        let item = item?;
        let text = item.extract().map_err(|_| {
            let shown = arguments::shown(&item);
            Failure::schema(format!("key {} is {shown}; allowed is text or None", texts.len()))
        })?;
        texts.push(text);
    }
    Ok(std::sync::Arc::new(StringArray::from(texts)))
}
