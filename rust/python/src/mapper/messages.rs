//! Messages in: their ids, quality of service, queues.

use std::collections::HashMap;

use crate::arrow::array::{Array, ArrayRef, AsArray};
use crate::arrow::compute::cast;
use crate::arrow::datatypes::DataType;
use dochistory_core::history::values::ValueMap;
use dochistory_core::protocols::mapper as engine;
use dochistory_core::protocols::mapper::rules::Qos;
use pyo3::prelude::*;

use super::arrays::column;
use crate::columns::find_named;
use crate::errors::{Failure, Outcome};
use crate::ids::checked;
use crate::input::Input;
use crate::wrong_column::wrong_type;

const ROLES: [&str; 4] = ["id", "qos", "queue", "message_id"];

/// A batch of messages.
pub(super) struct Messages {
    pub(super) input: Input,
    pub(super) ids: ArrayRef,
    /// The ids that messages are mapped to when they are taken in.
    pub(super) message_ids: Option<ArrayRef>,
    qos: Vec<Qos>,
    queues: Vec<u32>,
}

/// The quality of service of a word.
pub(super) fn qos(word: &str) -> Outcome<Qos> {
    match word {
        "BE" => Ok(Qos::BestEffort),
        "EO" => Ok(Qos::ExactlyOnce),
        "EOIO" => Ok(Qos::InOrder),
        _ => Err(Failure::config(format!("qos is {word:?}; allowed is \"BE\" or \"EO\" or \"EOIO\""))),
    }
}

impl Messages {
    /// From any table; `renamed` has the names of columns, and `default` is the quality where none
    /// is given.
    pub(super) fn import(
        messages: &Bound<'_, PyAny>,
        renamed: Option<&HashMap<String, String>>,
        default: Qos,
        values: &ValueMap,
    ) -> Outcome<Self> {
        let input = Input::import(messages)?;
        if let Some(unknown) = renamed.and_then(|names| names.keys().find(|role| !ROLES.contains(&role.as_str()))) {
            let known = ROLES.join(", ");
            return Err(Failure::schema(format!("columns names {unknown:?}; a mapper looks at {known}")));
        }
        let find = |role: &'static str| find_named(&input, role, renamed);
        let Some((name, ids)) = find("id")? else {
            let there: Vec<&str> = input.schema.fields().iter().map(|field| field.name().as_str()).collect();
            return Err(Failure::schema(format!(
                "there is no column \"id\" among the columns [{}]: say where the id is, as in columns={{\"id\": \"my_id\"}}",
                there.join(", ")
            )));
        };
        let ids = checked("id", name, ids)?;
        let message_ids = find("message_id")?.map(|(name, array)| checked("message_id", name, array)).transpose()?;
        let qos = find("qos")?.map(|(name, array)| qualities(name, &array, default)).transpose()?;
        let qos = qos.unwrap_or_else(|| vec![default; input.rows]);
        let queues = find("queue")?.map(|(name, array)| checked("queue", name, array)).transpose()?;
        let queues = queue_numbers(queues.as_ref(), input.rows, values)?;
        Ok(Self { input, ids, message_ids, qos, queues })
    }

    pub(super) fn engine(&self) -> engine::Messages<'_> {
        engine::Messages { qos: &self.qos, queues: &self.queues }
    }
}

fn qualities(name: &str, array: &ArrayRef, default: Qos) -> Outcome<Vec<Qos>> {
    let words =
        cast(array, &DataType::Utf8).map_err(|_| wrong_type("qos", name, array.data_type(), "text: BE, EO or EOIO"))?;
    words.as_string::<i32>().iter().map(|word| word.map_or(Ok(default), qos)).collect()
}

/// A number for each queue: its first row. All messages without a queue have the same number.
fn queue_numbers(queues: Option<&ArrayRef>, rows: usize, values: &ValueMap) -> Outcome<Vec<u32>> {
    let none = rows as u32;
    match queues {
        None => Ok(vec![none; rows]),
        Some(array) => Ok(values.ids(&column(array)?).first_copies(none)),
    }
}
