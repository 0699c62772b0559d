//! Row numbers from Python: an Arrow array of integers, or any iterable of them.

use crate::arrow::array::{Array, AsArray};
use crate::arrow::compute::cast;
use crate::arrow::datatypes::{DataType, Int64Type};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::answers;
use crate::arguments::shown;
use crate::errors::{Failure, Outcome};

/// The numbers of an array of integers in memory, such as NumPy's.
fn of_buffer(rows: &Bound<'_, PyAny>) -> Outcome<Option<Vec<i64>>> {
    fn read<T: Element + TryInto<i64>>(rows: &Bound<'_, PyAny>) -> Option<Vec<i64>> {
        let buffer = PyBuffer::<T>::get(rows).ok().filter(|buffer| buffer.dimensions() == 1)?;
        buffer.to_vec(rows.py()).ok()?.into_iter().map(|number| number.try_into().ok()).collect()
    }
    if !rows.hasattr("__array_interface__")? {
        return Ok(None);
    }
    Ok(read::<i64>(rows).or_else(|| read::<i32>(rows)).or_else(|| read::<u32>(rows)).or_else(|| read::<u64>(rows)))
}

fn no_rows(rows: &Bound<'_, PyAny>) -> Failure {
    let allowed = "an Arrow array or an iterable of row numbers";
    Failure::Python(PyTypeError::new_err(format!("rows are {}; allowed is {allowed}", shown(rows))))
}

/// One number; none if it is none. Python takes True for 1, so a list that is a mask would end
/// other rows.
fn number_of(row: &Bound<'_, PyAny>) -> Option<Outcome<i64>> {
    if row.is_instance_of::<PyBool>() {
        let instead = "allowed are row numbers: of a mask, numpy.flatnonzero(mask)";
        return Some(Err(Failure::schema(format!("rows hold {}; {instead}", shown(row)))));
    }
    row.extract().ok().map(Ok)
}

/// The numbers, as they come.
pub(crate) fn row_numbers(rows: &Bound<'_, PyAny>) -> Outcome<Vec<i64>> {
    // One by one, NumPy's integers would take longer than all else.
    if let Some(numbers) = of_buffer(rows)? {
        return Ok(numbers);
    }
    if rows.hasattr("__array_interface__")? && !rows.hasattr("__arrow_c_array__")? {
        return row_numbers(&rows.py().import("pyarrow")?.call_method1("array", (rows,))?);
    }
    if !rows.hasattr("__arrow_c_array__")? && !rows.hasattr("__arrow_c_stream__")? {
        let all = rows.try_iter().map_err(|_| no_rows(rows))?;
        return all.map(|row| number_of(&row?).unwrap_or_else(|| Err(no_rows(rows)))).collect();
    }
    let (_, array) = answers::import(rows)?;
    if !array.data_type().is_integer() && array.data_type() != &DataType::Null {
        return Err(Failure::schema(format!("rows are {}; allowed are integers", array.data_type())));
    }
    let numbers = cast(&array, &DataType::Int64)?;
    if numbers.null_count() > 0 {
        return Err(Failure::schema("rows hold a null; allowed are row numbers"));
    }
    Ok(numbers.as_primitive::<Int64Type>().values().to_vec())
}
