//! The column `key` of the verdicts: the id column itself where all keys come from it, else a new
//! column.

use std::sync::Arc;

use crate::arrow::array::{Array, ArrayRef, GenericStringBuilder, OffsetSizeTrait, new_null_array};
use crate::arrow::datatypes::DataType;
use dochistory_core::columns::{IdCell, IdColumn};
use dochistory_core::key::{NO_SOURCE, format_uuid};

use crate::columns::Columns;
use crate::ids::fits;

/// The keys of all rows; `sources` has the id column of each.
pub(crate) fn key_column(columns: &Columns, sources: &[u8]) -> ArrayRef {
    let Some(only) = sources.iter().copied().find(|source| *source != NO_SOURCE) else {
        return new_null_array(&DataType::Utf8, sources.len());
    };
    if let Some(array) = columns.ids().get(usize::from(only)).filter(|array| is_key_column(array, only, sources)) {
        return (*array).clone();
    }
    let ids = columns.documents().ids;
    gathered::<i32>(&ids, sources)
        .or_else(|| gathered::<i64>(&ids, sources))
        .unwrap_or_else(|| new_null_array(&DataType::Utf8, sources.len()))
}

/// Whether `array` holds every row's key, and null where there is none.
fn is_key_column(array: &ArrayRef, source: u8, sources: &[u8]) -> bool {
    // A row that is null here has no source, if all others have this one: so equal numbers mean
    // equal rows.
    let (mut here, mut absent) = (0, 0);
    for chunk in sources.chunks(128) {
        here += usize::from(chunk.iter().map(|one| u8::from(*one == source)).sum::<u8>());
        absent += usize::from(chunk.iter().map(|one| u8::from(*one == NO_SOURCE)).sum::<u8>());
    }
    let is_text = !matches!(array.data_type(), DataType::FixedSizeBinary(_))
        && !matches!(array.data_type(), DataType::Dictionary(_, values) if matches!(**values, DataType::FixedSizeBinary(_)));
    is_text && here + absent == sources.len() && absent == array.null_count()
}

/// Each row's key as text; none if the text is too long for the offsets.
fn gathered<O: OffsetSizeTrait>(ids: &[IdColumn<'_>], sources: &[u8]) -> Option<ArrayRef> {
    let mut keys = GenericStringBuilder::<O>::with_capacity(sources.len(), 0);
    for (row, source) in sources.iter().enumerate() {
        match ids.get(usize::from(*source)).map_or(IdCell::Null, |column| column.get(row)) {
            IdCell::Null => keys.append_null(),
            id => {
                let uuid;
                let bytes = match id {
                    IdCell::Uuid(bytes) => {
                        uuid = format_uuid(*bytes);
                        &uuid[..]
                    }
                    IdCell::Text(text) => text,
                    IdCell::Null => &[],
                };
                if !fits::<O>(keys.values_slice().len() + bytes.len()) {
                    return None;
                }
                keys.append_value(String::from_utf8_lossy(bytes));
            }
        }
    }
    Some(Arc::new(keys.finish()))
}
