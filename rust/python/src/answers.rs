//! Reading a resolver's answer: an Arrow column, a table, or any sequence.

use crate::arrow::array::{Array, ArrayRef, AsArray};
use crate::arrow::datatypes::{DataType, Field};
use dochistory_core::columns::IdCell;
use dochistory_core::protocols::trigger::Reply;
use dochistory_core::protocols::trigger::rules::Answer;
use pyo3::exceptions::{PyBaseException, PyException};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFrozenSet, PyMapping, PySet, PyString, PyTuple};
use pyo3_arrow::input::AnyArray;

use crate::errors::{Outcome, TransientError};
use crate::ids;
use crate::input::joined;

/// The answers for `rows` rows. An answer of the wrong length is a failure, but no exception.
pub(crate) fn read(answer: &Bound<'_, PyAny>, rows: usize) -> PyResult<Reply> {
    if answer.hasattr("__arrow_c_array__")? || answer.hasattr("__arrow_c_stream__")? {
        return from_arrow(answer, rows).or_else(|failure| unless_interrupt(answer.py(), failure.into(), rows));
    }
    if let Ok(columns) = answer.cast::<PyMapping>() {
        return from_mapping(columns, rows);
    }
    let is_one = answer.is_none() || answer.is_instance_of::<PyString>() || answer.is_instance_of::<PyBytes>();
    // The answers of a set would come in any order.
    let is_set = answer.is_instance_of::<PySet>() || answer.is_instance_of::<PyFrozenSet>();
    match answer.try_iter() {
        Ok(items) if !is_one && !is_set => from_items(items, rows),
        _ => Ok(unfit(rows, &format!("the resolver gave {}, but no column of answers", shown(answer)))),
    }
}

/// The text of an exception, for the journal.
pub(crate) fn said(error: &Bound<'_, PyAny>) -> String {
    let kind = error.get_type().name().map_or_else(|_| "error".to_owned(), |name| name.to_string());
    match error.str().map(|text| text.to_string_lossy().into_owned()) {
        Ok(text) if !text.is_empty() => format!("{kind}: {text}"),
        _ => kind,
    }
}

fn shown(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| format!("a {name}"))
}

fn unless_interrupt(py: Python<'_>, error: PyErr, rows: usize) -> PyResult<Reply> {
    if error.is_instance_of::<PyException>(py) { Ok(unfit(rows, &said(error.value(py).as_any()))) } else { Err(error) }
}

/// The same failure for all rows.
fn unfit(rows: usize, text: &str) -> Reply {
    Reply { answers: vec![Answer::Failed; rows], messages: (0..rows).map(|place| (place, text.to_owned())).collect() }
}

fn from_items<'py>(items: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>, rows: usize) -> PyResult<Reply> {
    let mut reply = Reply::default();
    // One more than requested is enough to detect that there are too many.
    for (place, item) in items.take(rows + 1).enumerate() {
        let item = item?;
        // A pair is an answer and its message.
        match item.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2) {
            Some(pair) => {
                let message = pair.get_item(1)?;
                push(&mut reply, place, &pair.get_item(0)?, Some(&message))?;
            }
            None => push(&mut reply, place, &item, None)?,
        }
    }
    Ok(reply)
}

/// One row's answer: an error, or a status, with an optional message.
fn push(
    reply: &mut Reply,
    place: usize,
    answer: &Bound<'_, PyAny>,
    message: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let own =
        message.and_then(|message| message.cast::<PyString>().ok()).map(|text| text.to_string_lossy().into_owned());
    if answer.is_instance_of::<PyBaseException>() {
        let is_transient = answer.is_instance(answer.py().get_type::<TransientError>().as_any())?;
        reply.answers.push(if is_transient { Answer::Transient } else { Answer::Failed });
        let error = said(answer);
        reply.messages.push((place, own.map_or(error.clone(), |own| format!("{own} ({error})"))));
    } else {
        let text = answer.cast::<PyString>().ok().map(|text| text.to_string_lossy().into_owned());
        reply.answers.push(Answer::parse(text.as_deref()));
        reply.messages.extend(own.map(|own| (place, own)));
    }
    Ok(())
}

/// `{"status": …, "message": …}` of any sequences: a list, unlike an Arrow column, may hold errors.
fn from_mapping(columns: &Bound<'_, PyMapping>, rows: usize) -> PyResult<Reply> {
    if !columns.contains("status")? {
        return Ok(unfit(rows, "the resolver gave a mapping without \"status\""));
    }
    let status = columns.get_item("status")?;
    if status.is_instance_of::<PyMapping>() {
        return Ok(unfit(rows, "the resolver gave a mapping as \"status\""));
    }
    let mut reply = read(&status, rows)?;
    if reply.answers.len() != rows || !columns.contains("message")? {
        return Ok(reply);
    }
    let listed = columns.get_item("message")?;
    let items = if listed.hasattr("to_pylist")? { listed.call_method0("to_pylist")? } else { listed };
    for (place, item) in items.try_iter()?.take(rows).enumerate() {
        let Ok(own) = item?.cast_into::<PyString>() else { continue };
        let own = own.to_string_lossy().into_owned();
        match reply.messages.iter_mut().find(|(known, _)| *known == place) {
            Some((_, error)) => *error = format!("{own} ({error})"),
            None => reply.messages.push((place, own)),
        }
    }
    Ok(reply)
}

fn from_arrow(answer: &Bound<'_, PyAny>, rows: usize) -> Outcome<Reply> {
    let (field, array) = import(answer)?;
    let DataType::Struct(fields) = field.data_type() else {
        return Ok(Reply { answers: parsed(&array), messages: Vec::new() });
    };
    let column = |name: &str| {
        let at = fields.iter().position(|field| field.name() == name)?;
        array.as_struct_opt().map(|columns| columns.column(at).clone())
    };
    let Some(status) = column("status") else {
        let there: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        return Ok(unfit(rows, &format!("the resolver gave no column status, but [{}]", there.join(", "))));
    };
    let messages = column("message").map_or(Vec::new(), |column| texts(&column));
    let messages = messages.into_iter().enumerate().filter_map(|(place, text)| Some((place, text?))).collect();
    Ok(Reply { answers: parsed(&status), messages })
}

/// One array, whatever number of parts it came in.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> Outcome<(Field, ArrayRef)> {
    match object.extract::<AnyArray>()? {
        AnyArray::Array(array) => {
            let (array, field) = array.into_inner();
            Ok((field.as_ref().clone(), array))
        }
        AnyArray::Stream(stream) => {
            let reader = stream.into_reader()?;
            let field = reader.field().as_ref().clone();
            let parts = crate::calls::outside(object.py(), || reader.collect::<Result<Vec<_>, _>>())?;
            let array = if parts.is_empty() {
                crate::arrow::array::new_empty_array(field.data_type())
            } else {
                joined(&parts)?
            };
            Ok((field, array))
        }
    }
}

fn parsed(statuses: &ArrayRef) -> Vec<Answer> {
    texts(statuses).iter().map(|status| Answer::parse(status.as_deref())).collect()
}

/// The texts of a column; none for a column of another type.
fn texts(column: &ArrayRef) -> Vec<Option<String>> {
    let Some(text) = ids::lent(column) else { return vec![None; column.len()] };
    let text_of = |row| match text.get(row) {
        IdCell::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        IdCell::Null | IdCell::Uuid(_) => None,
    };
    (0..column.len()).map(text_of).collect()
}
