//! Arrow in: the messages of one poll, as columns for the engine.

use std::collections::HashMap;

use crate::arrow::array::{Array, ArrayRef, AsArray};
use crate::arrow::buffer::NullBuffer;
use crate::arrow::compute::cast;
use crate::arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use dochistory_core::columns::{IdColumn, Validity};
use dochistory_core::protocols::delivery::{HeaderColumns, Headers, NO_STREAM, encode_names};

use crate::columns::find_named;
use crate::errors::{Failure, Outcome};
use crate::ids;
use crate::input::Input;
use crate::wrong_column::wrong_type;

const ROLES: [&str; 6] = ["stream", "header", "resend_count", "prev", "cur", "seq"];

/// The messages of one poll.
pub(super) struct Arrivals {
    /// The input; none if the poll brought nothing, not even columns.
    pub(super) input: Option<Input>,
    streams: Vec<u32>,
    names: Vec<String>,
    header: HeaderArrays,
}

enum HeaderArrays {
    None,
    Text(ArrayRef),
    /// Epoch, prev, cur and seq, and the rows where none is null.
    Numbers([ArrayRef; 4], Option<NullBuffer>),
}

impl Arrivals {
    /// A poll that brought nothing.
    pub(super) fn none() -> Self {
        Self { input: None, streams: Vec::new(), names: Vec::new(), header: HeaderArrays::None }
    }

    /// Finds the columns. In a delivery of one stream, the column `stream` may be missing.
    pub(super) fn new(input: Input, renamed: Option<&HashMap<String, String>>, only: Option<&str>) -> Outcome<Self> {
        if let Some(unknown) = renamed.and_then(|names| names.keys().find(|role| !ROLES.contains(&role.as_str()))) {
            let known = ROLES.join(", ");
            return Err(Failure::schema(format!("columns names {unknown:?}; a delivery looks at {known}")));
        }
        let streams =
            find_named(&input, "stream", renamed)?.map(|(name, array)| text("stream", name, array)).transpose()?;
        let (streams, names) = match (streams, only) {
            (None, None) => {
                return Err(Failure::schema(
                    "there is no column \"stream\": name it, as in columns={\"stream\": \"my_stream\"}, or open the \
                     delivery of one stream",
                ));
            }
            (None, Some(only)) => (vec![0; input.rows], vec![only.to_owned()]),
            (Some(array), only) => numbered(&array, only)?,
        };
        let header = headers(&input, renamed)?;
        Ok(Self { input: Some(input), streams, names, header })
    }

    /// Lends the columns to the engine.
    pub(super) fn with<T>(&self, work: impl FnOnce(&HeaderColumns<'_>) -> T) -> T {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        work(&HeaderColumns { streams: &self.streams, names: &names, headers: self.headers() })
    }

    /// The stream of a row whose header is usable.
    pub(super) fn stream_of(&self, row: usize) -> &str {
        self.names.get(self.streams[row] as usize).map_or("", String::as_str)
    }

    pub(super) fn is_batch(&self) -> bool {
        self.input.as_ref().is_none_or(|input| input.is_batch)
    }

    fn headers(&self) -> Headers<'_> {
        let none = || IdColumn::Utf8 { offsets: &[], values: &[], validity: Validity::all() };
        match &self.header {
            HeaderArrays::None => Headers::Text(none()),
            HeaderArrays::Text(array) => Headers::Text(ids::lent(array).unwrap_or_else(none)),
            HeaderArrays::Numbers([resend_count, prev, cur, seq], nulls) => Headers::Numbers {
                resend_count: resend_count.as_primitive::<UInt64Type>().values(),
                prev: prev.as_primitive::<UInt64Type>().values(),
                cur: cur.as_primitive::<UInt64Type>().values(),
                seq: seq.as_primitive::<UInt32Type>().values(),
                validity: nulls
                    .as_ref()
                    .map_or_else(Validity::all, |nulls| Validity::new(nulls.validity(), nulls.offset())),
            },
        }
    }
}

/// Each row's stream as a number, and the streams.
fn numbered(array: &ArrayRef, only: Option<&str>) -> Outcome<(Vec<u32>, Vec<String>)> {
    let Some(column) = ids::lent(array) else { return Ok((Vec::new(), Vec::new())) };
    let (streams, names) = encode_names(&column)?;
    if let Some(only) = only {
        let is_other = |&stream: &u32| stream != NO_STREAM && names[stream as usize] != only;
        if let Some(row) = streams.iter().position(is_other) {
            let other = names[streams[row] as usize];
            return Err(Failure::schema(format!(
                "row {row} is of stream {other:?}, and this is the delivery of {only:?}: history.delivery() takes all"
            )));
        }
    }
    Ok((streams, names.into_iter().map(str::to_owned).collect()))
}

fn headers(input: &Input, renamed: Option<&HashMap<String, String>>) -> Outcome<HeaderArrays> {
    if let Some((name, array)) = find_named(input, "header", renamed)? {
        return Ok(HeaderArrays::Text(text("header", name, array)?));
    }
    let number = |role: &'static str, wide: DataType| {
        let (name, array) = find_named(input, role, renamed)?.ok_or_else(|| {
            Failure::schema(format!(
                "there is neither a column \"header\" nor {role:?}: a message has a header, or resend_count, prev, cur, seq"
            ))
        })?;
        match array.data_type() {
            // A number that does not fit becomes null, and a message without a header is CORRUPT.
            found if found.is_integer() || *found == DataType::Null => Ok(cast(&array, &wide)?),
            found => Err(wrong_type(role, name, found, "an integer")),
        }
    };
    let numbers = [
        number("resend_count", DataType::UInt64)?,
        number("prev", DataType::UInt64)?,
        number("cur", DataType::UInt64)?,
        number("seq", DataType::UInt32)?,
    ];
    let nulls = numbers.iter().fold(None, |nulls: Option<NullBuffer>, array| {
        NullBuffer::union(nulls.as_ref(), array.nulls().filter(|nulls| nulls.null_count() > 0))
    });
    Ok(HeaderArrays::Numbers(numbers, nulls))
}

/// A column of text.
fn text(role: &'static str, name: &str, array: ArrayRef) -> Outcome<ArrayRef> {
    let kind = match array.data_type() {
        DataType::Dictionary(_, values) => (**values).clone(),
        other => other.clone(),
    };
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(array),
        DataType::Null => Ok(cast(&array, &DataType::Utf8)?),
        _ => Err(wrong_type(role, name, array.data_type(), "text, or a dictionary of text")),
    }
}
