//! Columns of ids in, columns of the mapper's answers out.

use std::sync::Arc;

use crate::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, GenericStringArray, Int8Array, OffsetSizeTrait,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use crate::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use crate::arrow::datatypes::{DataType, Field, Int8Type, Schema, TimeUnit};
use dochistory_core::columns::IdColumn;
use dochistory_core::history::values::FOREVER;
use dochistory_core::protocols::mapper::{Known, RowError, Texts};
use pyo3::prelude::*;

use crate::answers;
use crate::errors::{Failure, Outcome};
use crate::given_keys::listed;
use crate::ids::{checked, fits, lent};

/// Ids from an Arrow array, a table with a column `id`, or any iterable of text.
pub(super) fn ids(role: &'static str, ids: &Bound<'_, PyAny>) -> Outcome<ArrayRef> {
    if !ids.hasattr("__arrow_c_array__")? && !ids.hasattr("__arrow_c_stream__")? {
        return checked(role, role, listed(ids)?);
    }
    let (_, array) = answers::import(ids)?;
    match array.as_struct_opt().map(|rows| rows.column_by_name("id").cloned()) {
        None => checked(role, role, array),
        Some(Some(column)) => checked(role, "id", column),
        Some(None) => Err(Failure::schema(format!("{role} are a table without a column \"id\""))),
    }
}

/// A checked column as the engine's type.
pub(super) fn column(array: &ArrayRef) -> Outcome<IdColumn<'_>> {
    lent(array).ok_or_else(|| Failure::schema(format!("a column is {}; allowed are ids", array.data_type())))
}

/// The texts of a column that may be missing.
pub(super) fn texts(array: Option<&ArrayRef>, rows: usize) -> Outcome<Texts> {
    let column = array.map(column).transpose()?;
    Ok(Texts::of(column.as_ref(), rows)?)
}

/// Texts as an Arrow column.
pub(super) fn text_column(texts: &Texts) -> Outcome<ArrayRef> {
    if fits::<i32>(texts.bytes()) { built::<i32>(texts) } else { built::<i64>(texts) }
}

fn built<O: OffsetSizeTrait>(texts: &Texts) -> Outcome<ArrayRef> {
    let (offsets, bytes, is_there) = texts.parts();
    let offsets: ScalarBuffer<O> = offsets.iter().map(|at| O::usize_as(*at as usize)).collect();
    let there = BooleanBuffer::new(Buffer::from(is_there), 0, texts.len());
    let nulls = Some(NullBuffer::new(there)).filter(|nulls| nulls.null_count() > 0);
    let values = Buffer::from(bytes);
    // The store keeps text unchanged.
    Ok(Arc::new(GenericStringArray::<O>::try_new(OffsetBuffer::new(offsets), values, nulls)?))
}

pub(super) fn flags(flags: &[bool]) -> ArrayRef {
    Arc::new(BooleanArray::new(BooleanBuffer::from(flags), None))
}

/// Times, null where `is_there` is false.
pub(super) fn times(times_us: &[i64], is_there: impl Fn(usize) -> bool) -> ArrayRef {
    let there = BooleanBuffer::collect_bool(times_us.len(), is_there);
    let values = ScalarBuffer::from(times_us.to_vec());
    Arc::new(TimestampMicrosecondArray::new(values, Some(NullBuffer::new(there))).with_timezone("UTC"))
}

pub(super) fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// One word a row, or none.
pub(super) fn words(rows: impl Iterator<Item = Option<&'static str>>) -> Outcome<ArrayRef> {
    let mut words: Vec<&'static str> = Vec::new();
    let mut places = Vec::with_capacity(rows.size_hint().0);
    for word in rows {
        let Some(word) = word else {
            places.push(None);
            continue;
        };
        let known = words.iter().position(|known| *known == word);
        let place = known.unwrap_or_else(|| {
            words.push(word);
            words.len() - 1
        });
        places.push(i8::try_from(place).ok());
    }
    let places = Int8Array::from(places);
    Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(places, Arc::new(StringArray::from(words)))?))
}

/// The columns of a mapper's answers: `found`, `mapped_id`, `pending`, `pending_since`, `resolved`,
/// `persist_until`.
pub(super) fn known_columns(known: &Known) -> Outcome<Vec<(Field, ArrayRef)>> {
    let is_kept = |row: usize| (known.mapped[row] || known.pending[row]) && known.persist_until[row] != FOREVER;
    let resolved = words(known.resolved.iter().map(|one| one.map(super::policy::policy_word)))?;
    let columns = vec![
        ("found", flags(&known.mapped)),
        ("mapped_id", text_column(&known.values)?),
        ("pending", flags(&known.pending)),
        ("pending_since", times(&known.since, |row| known.pending[row])),
        ("resolved", resolved),
        ("persist_until", times(&known.persist_until, is_kept)),
    ];
    Ok(columns.into_iter().map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).collect())
}

pub(super) fn batch(columns: Vec<(Field, ArrayRef)>) -> Outcome<RecordBatch> {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

/// The errors of a call: `id` and `error`, null where the row was written.
pub(super) fn error_columns(ids: ArrayRef, errors: &[Option<RowError>]) -> Outcome<RecordBatch> {
    let errors = words(errors.iter().map(|error| error.map(RowError::as_str)))?;
    let columns = [("id", ids), ("error", errors)];
    batch(columns.into_iter().map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).collect())
}
