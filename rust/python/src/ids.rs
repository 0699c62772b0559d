//! Arrow arrays of ids, lent to the engine without a copy.

use crate::arrow::array::{Array, ArrayAccessor, ArrayIter, ArrayRef, AsArray, GenericStringArray, OffsetSizeTrait};
use crate::arrow::buffer::Buffer;
use crate::arrow::compute::cast;
use crate::arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use dochistory_core::columns::{IdColumn, Validity};

use crate::errors::Outcome;
use crate::wrong_column::{wrong, wrong_type};

/// The bytes of a UUID.
const UUID_BYTES: i32 = 16;
const ALLOWED: &str = "text (utf8, large_utf8, utf8_view), a dictionary of text, or UUIDs as 16 bytes";

/// The array, if it may hold ids.
pub(crate) fn checked(role: &str, name: &str, array: ArrayRef) -> Outcome<ArrayRef> {
    if array.data_type() == &DataType::Null {
        return Ok(cast(&array, &DataType::Utf8)?);
    }
    let lengths = match array.data_type() {
        DataType::Binary => array.as_binary_opt::<i32>().map(wrong_length),
        DataType::LargeBinary => array.as_binary_opt::<i64>().map(wrong_length),
        DataType::BinaryView => array.as_binary_view_opt().map(wrong_length),
        _ => None,
    };
    match lengths {
        // Spark and others only have binary of variable length.
        Some(None) => return Ok(cast(&cast(&array, &DataType::LargeBinary)?, &DataType::FixedSizeBinary(UUID_BYTES))?),
        Some(Some((row, bytes))) => {
            let found = format!("binary, and {bytes} bytes long in row {row}");
            return Err(wrong(role, name, &found, ALLOWED));
        }
        None => {}
    }
    if may_hold_ids(array.data_type()) { Ok(array) } else { Err(wrong_type(role, name, array.data_type(), ALLOWED)) }
}

/// The first row of binary that is no UUID, and its length.
fn wrong_length<'a, A: ArrayAccessor<Item = &'a [u8]>>(array: A) -> Option<(usize, usize)> {
    let mut values = ArrayIter::new(array).enumerate();
    values
        .find_map(|(row, value)| value.map(<[u8]>::len).filter(|len| *len != UUID_BYTES as usize).map(|len| (row, len)))
}

fn may_hold_ids(found: &DataType) -> bool {
    match found {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::FixedSizeBinary(width) => *width == UUID_BYTES,
        DataType::Dictionary(_, values) => !matches!(**values, DataType::Dictionary(..)) && may_hold_ids(values),
        _ => false,
    }
}

/// A checked array as the engine takes it; none of any other type.
pub(crate) fn lent(array: &ArrayRef) -> Option<IdColumn<'_>> {
    let nulls = validity(array.as_ref());
    match array.data_type() {
        DataType::Utf8 => array.as_string_opt::<i32>().map(text),
        DataType::LargeUtf8 => array.as_string_opt::<i64>().map(large_text),
        DataType::Utf8View => {
            let views = array.as_string_view_opt()?;
            let buffers = views.data_buffers().iter().map(Buffer::as_slice).collect();
            Some(IdColumn::Utf8View { views: views.views(), buffers, validity: nulls })
        }
        DataType::FixedSizeBinary(UUID_BYTES) => {
            let values = array.as_fixed_size_binary_opt()?.value_data();
            Some(IdColumn::Uuid { values, validity: nulls })
        }
        DataType::Dictionary(keys, _) => match **keys {
            DataType::Int8 => dictionary::<Int8Type>(array),
            DataType::Int16 => dictionary::<Int16Type>(array),
            DataType::Int32 => dictionary::<Int32Type>(array),
            DataType::Int64 => dictionary::<Int64Type>(array),
            DataType::UInt8 => dictionary::<UInt8Type>(array),
            DataType::UInt16 => dictionary::<UInt16Type>(array),
            DataType::UInt32 => dictionary::<UInt32Type>(array),
            DataType::UInt64 => dictionary::<UInt64Type>(array),
            _ => None,
        },
        _ => None,
    }
}

fn text(array: &GenericStringArray<i32>) -> IdColumn<'_> {
    let offsets = if array.is_empty() { &[0] } else { array.value_offsets() };
    IdColumn::Utf8 { offsets, values: array.value_data(), validity: validity(array) }
}

fn large_text(array: &GenericStringArray<i64>) -> IdColumn<'_> {
    // For an array without rows Arrow reads no text, wherever the rows would be.
    let offsets = if array.is_empty() { &[0] } else { array.value_offsets() };
    IdColumn::LargeUtf8 { offsets, values: array.value_data(), validity: validity(array) }
}

fn dictionary<K: ArrowDictionaryKeyType>(array: &ArrayRef) -> Option<IdColumn<'_>> {
    let dictionary = array.as_dictionary_opt::<K>()?;
    let values = Box::new(lent(dictionary.values())?);
    let indices =
        dictionary.keys().values().iter().map(|index| u32::try_from(index.as_usize()).unwrap_or(u32::MAX)).collect();
    Some(IdColumn::Dictionary { indices, values, validity: validity(dictionary.keys()) })
}

/// The nulls of an array; an array without any has no bitmap to look at.
pub(crate) fn validity(array: &dyn Array) -> Validity<'_> {
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => Validity::new(nulls.validity(), nulls.offset()),
        None => Validity::all(),
    }
}

/// Whether text of `bytes` fits the offsets.
pub(crate) fn fits<O: OffsetSizeTrait>(bytes: usize) -> bool {
    O::from_usize(bytes).is_some()
}
