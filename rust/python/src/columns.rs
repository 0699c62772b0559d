//! The columns that a trigger uses: found by name, checked by type, lent to the engine without a
//! copy.

use std::collections::HashMap;

use crate::arrow::array::{Array, ArrayRef, AsArray};
use crate::arrow::compute::cast;
use crate::arrow::datatypes::{DataType, Int8Type, Int16Type, Int32Type, Int64Type};
use dochistory_core::columns::{CountColumn, Documents, FlagColumn, IdCell};
use dochistory_core::protocols::trigger::rules::Kind;

use crate::errors::{Failure, Outcome};
use crate::ids::{self, validity};
use crate::input::Input;
use crate::wrong_column::wrong_type;

/// The names of the columns of a kind of trigger.
struct Roles {
    ids: &'static [&'static str],
    count: &'static str,
    eligible: &'static str,
}

const MESSAGING: Roles =
    Roles { ids: &["uuid", "track_id", "event_id"], count: "redelivery_count", eligible: "guaranteed" };
const JMS: Roles = Roles { ids: &["uuid", "jms_message_id"], count: "delivery_count", eligible: "persistent" };

impl Roles {
    fn of(kind: Kind) -> &'static Self {
        match kind {
            Kind::Messaging => &MESSAGING,
            Kind::Jms => &JMS,
        }
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.ids.iter().copied().chain([self.count, self.eligible])
    }
}

/// The columns of one call.
pub(crate) struct Columns {
    rows: usize,
    ids: Vec<ArrayRef>,
    /// The names of the id columns, as the documents have them.
    names: Vec<String>,
    count: Option<ArrayRef>,
    eligible: Option<ArrayRef>,
}

impl Columns {
    /// Find them in `input`; `renamed` has the names of columns that differ from the trigger's own.
    pub(crate) fn find(input: &Input, kind: Kind, renamed: Option<&HashMap<String, String>>) -> Outcome<Self> {
        let roles = Roles::of(kind);
        if let Some(unknown) = renamed.and_then(|names| names.keys().find(|role| !roles.names().any(|r| r == *role))) {
            let known: Vec<&str> = roles.names().collect();
            return Err(Failure::schema(format!(
                "columns names {unknown:?}; a {kind} trigger looks at {}",
                known.join(", ")
            )));
        }
        let find = |role: &'static str| find_named(input, role, renamed);
        let (mut ids, mut id_names) = (Vec::with_capacity(roles.ids.len()), Vec::new());
        for role in roles.ids {
            let Some((name, array)) = find(role)? else { continue };
            ids.push(ids::checked(role, name, array)?);
            id_names.push(name.to_owned());
        }
        if ids.is_empty() {
            let there: Vec<&str> = input.schema.fields().iter().map(|field| field.name().as_str()).collect();
            return Err(Failure::schema(format!(
                "none of the id columns {} is among the columns [{}]: say where the id is, as in columns={{\"uuid\": \"my_id\"}}",
                roles.ids.join(", "),
                there.join(", ")
            )));
        }
        let count = find(roles.count)?.map(|(name, array)| count(roles.count, name, array)).transpose()?;
        let eligible = find(roles.eligible)?.map(|(name, array)| flag(roles.eligible, name, array)).transpose()?;
        Ok(Self { rows: input.rows, ids, names: id_names, count, eligible })
    }

    /// One column of ids and nothing else.
    pub(crate) fn of_keys(keys: ArrayRef) -> Outcome<Self> {
        let rows = keys.len();
        let ids = vec![ids::checked("keys", "keys", keys)?];
        Ok(Self { rows, ids, names: vec!["keys".to_owned()], count: None, eligible: None })
    }

    /// Whether no row that is evaluated has an id. Stops at the first that has one.
    pub(crate) fn lack_ids(&self) -> bool {
        let is_evaluated = |row: usize| {
            let flags = self.eligible.as_ref().and_then(|flags| flags.as_boolean_opt());
            flags.is_none_or(|flags| flags.is_null(row) || flags.value(row))
        };
        let lent: Vec<_> = self.ids.iter().filter_map(ids::lent).collect();
        let is_absent = |row: usize| {
            lent.iter().all(|column| match column.get(row) {
                IdCell::Null => true,
                IdCell::Text(text) => text.is_empty(),
                IdCell::Uuid(_) => false,
            })
        };
        let mut evaluated = (0..self.rows).filter(|row| is_evaluated(*row)).peekable();
        evaluated.peek().is_some() && evaluated.all(is_absent)
    }

    /// The columns as the engine takes them.
    pub(crate) fn documents(&self) -> Documents<'_> {
        Documents {
            rows: self.rows,
            ids: self.ids.iter().filter_map(ids::lent).collect(),
            count: self.count.as_ref().map_or(CountColumn::Absent, lent_count),
            eligible: self.eligible.as_ref().map_or(FlagColumn::Absent, lent_flag),
        }
    }

    /// The names of the id columns, as the documents have them.
    pub(crate) fn id_names(&self) -> &[String] {
        &self.names
    }

    /// The id columns, in the order of the key chain.
    pub(crate) fn ids(&self) -> &[ArrayRef] {
        &self.ids
    }
}

/// A column by its role; a missing one is an error if it was given by name, or if another's name
/// differs by case alone: passed over, it would change what is known.
pub(crate) fn find_named<'a>(
    input: &'a Input,
    role: &'static str,
    renamed: Option<&'a HashMap<String, String>>,
) -> Outcome<Option<(&'a str, ArrayRef)>> {
    let asked = renamed.and_then(|names| names.get(role)).map(String::as_str);
    let name = asked.unwrap_or(role);
    let mut places = input.schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
    match (places.next(), places.next()) {
        (None, _) if asked.is_none() => other_case(input, role).map_or(Ok(None), Err),
        (None, _) => Err(Failure::schema(format!("columns says that {role} is {name:?}, but there is no such column"))),
        (Some(_), Some(_)) => Err(Failure::schema(format!("there are several columns {name:?} ({role})"))),
        (Some((at, _)), None) => Ok(Some((name, input.column(at)?))),
    }
}

/// The error for a column whose name differs from `role` by case alone, if there is one.
fn other_case(input: &Input, role: &str) -> Option<Failure> {
    let fields = input.schema.fields();
    let other = fields.iter().find(|field| field.name().eq_ignore_ascii_case(role))?.name();
    Some(Failure::schema(format!(
        "there is a column {other:?} and no {role:?}, and it would be passed over: rename it, or say that it is meant, \
         as in columns={{{role:?}: {other:?}}}"
    )))
}

fn count(role: &str, name: &str, array: ArrayRef) -> Outcome<ArrayRef> {
    let wider = match array.data_type() {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => return Ok(array),
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::Null => DataType::Int64,
        other => {
            let allowed = "a signed integer, or an unsigned one of up to 32 bits";
            // So pandas holds whole numbers with gaps.
            let is_float = matches!(other, DataType::Float64 | DataType::Float32);
            let remedy = if is_float { "; pandas keeps gaps in whole numbers by .astype(\"Int64\")" } else { "" };
            return Err(wrong_type(role, name, other, &format!("{allowed}{remedy}")));
        }
    };
    Ok(cast(&array, &wider)?)
}

fn flag(role: &str, name: &str, array: ArrayRef) -> Outcome<ArrayRef> {
    match array.data_type() {
        DataType::Boolean => Ok(array),
        DataType::Null => Ok(cast(&array, &DataType::Boolean)?),
        other => Err(wrong_type(role, name, other, "boolean")),
    }
}

fn lent_count(array: &ArrayRef) -> CountColumn<'_> {
    let nulls = validity(array.as_ref());
    match array.data_type() {
        DataType::Int8 => CountColumn::I8(array.as_primitive::<Int8Type>().values(), nulls),
        DataType::Int16 => CountColumn::I16(array.as_primitive::<Int16Type>().values(), nulls),
        DataType::Int32 => CountColumn::I32(array.as_primitive::<Int32Type>().values(), nulls),
        DataType::Int64 => CountColumn::I64(array.as_primitive::<Int64Type>().values(), nulls),
        _ => CountColumn::Absent,
    }
}

fn lent_flag(array: &ArrayRef) -> FlagColumn<'_> {
    let Some(flags) = array.as_boolean_opt() else { return FlagColumn::Absent };
    FlagColumn::Bits {
        bits: flags.values().values(),
        offset: flags.values().offset(),
        validity: validity(array.as_ref()),
    }
}
