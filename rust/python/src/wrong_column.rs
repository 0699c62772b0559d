//! Errors for columns that a caller gave.

use crate::arrow::datatypes::DataType;

use crate::errors::Failure;

/// The error for a column of the wrong type.
pub(crate) fn wrong_type(role: &str, name: &str, found: &DataType, allowed: &str) -> Failure {
    wrong(role, name, &found.to_string(), allowed)
}

/// The error for a column with wrong values.
pub(crate) fn wrong(role: &str, name: &str, found: &str, allowed: &str) -> Failure {
    let called = if role == name { String::new() } else { format!(" (the trigger's {role})") };
    Failure::schema(format!("column {name:?}{called} is {found}; allowed is {allowed}"))
}
