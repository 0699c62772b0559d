#![expect(unsafe_code, reason = "a taker of Arrow's C structures has nothing else")]

use std::sync::{Arc, Barrier};
use std::thread;

use crate::arrow::array::{
    ArrayRef, DictionaryArray, FixedSizeBinaryArray, Int8Array, Int32Array, LargeStringArray, StringArray,
    StringViewArray, make_array,
};
use crate::arrow::datatypes::{Int32Type, Schema};
use crate::arrow::ffi::from_ffi_and_data_type;

use super::*;

const ROWS: usize = 11;

/// Columns of every kind that verdicts may have, and of kinds that they never have.
fn columns() -> Vec<ArrayRef> {
    let some = |row: usize| ["é", "", "abc", "a text that is longer than others"][row % 4];
    let texts: Vec<Option<&str>> = (0..ROWS).map(|row| (row % 3 != 1).then(|| some(row))).collect();
    let words: ArrayRef = Arc::new(StringArray::from(vec!["x", "", "zzz"]));
    let nullable: ArrayRef = Arc::new(StringArray::from(vec![None, Some("x"), None, Some("y")]));
    let places = (0..ROWS).map(|row| (row % 4 != 2).then_some((row % 3) as i8)).collect::<Int8Array>();
    let all_there = Int8Array::from_iter_values((0..ROWS).map(|row| (row % 3) as i8));
    let uuids = texts.iter().map(|text| text.map(|text| [text.len() as u8; 16]));
    vec![
        Arc::new(StringArray::from(texts.clone())),
        Arc::new(StringArray::from_iter_values((0..ROWS).map(some))),
        Arc::new(StringArray::new_null(ROWS)),
        Arc::new(LargeStringArray::from(texts.clone())),
        Arc::new(DictionaryArray::new(places.clone(), words.clone())),
        Arc::new(DictionaryArray::new(all_there.clone(), words)),
        Arc::new(DictionaryArray::new(all_there.clone(), nullable.slice(0, 3))),
        Arc::new(DictionaryArray::new(all_there.clone(), nullable.slice(1, 3))),
        Arc::new(DictionaryArray::new(all_there, Arc::new(Int32Array::from(vec![5, 6, 7])))),
        Arc::new(texts.iter().copied().collect::<DictionaryArray<Int32Type>>()),
        Arc::new(StringViewArray::from(texts.clone())),
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16).unwrap()),
        Arc::new(places),
    ]
}

fn batch(columns: &[ArrayRef]) -> RecordBatch {
    let named = (0..).zip(columns).map(|(at, column)| (format!("c{at}"), column.clone(), true));
    RecordBatch::try_from_iter_with_nullable(named).unwrap()
}

/// The array that a consumer gets from a structure of this type.
fn taken(structure: FFI_ArrowArray, kind: &DataType) -> ArrayRef {
    // SAFETY: the structure is of that type.
    let data = unsafe { from_ffi_and_data_type(structure, kind.clone()) }.unwrap();
    // For no rows Arrow reads no text, wherever their offset is.
    if !data.is_empty() {
        data.validate_full().unwrap();
    }
    make_array(data)
}

/// A structure after a move, which a consumer may do.
fn moved(from: *mut FFI_ArrowArray) -> FFI_ArrowArray {
    // SAFETY: the batch of the structure is in use.
    unsafe { FFI_ArrowArray::from_raw(from) }
}

fn child(of: &FFI_ArrowArray, at: usize) -> *mut FFI_ArrowArray {
    assert!(at < of.num_children());
    // SAFETY: there are more than `at` children.
    unsafe { *of.children.add(at) }
}

#[test]
fn exported_batch_is_equal_for_any_part_of_its_columns() {
    let columns = columns();
    for (start, length) in (0..=ROWS).flat_map(|start| (0..=ROWS - start).map(move |length| (start, length))) {
        let parts: Vec<ArrayRef> = columns.iter().map(|column| column.slice(start, length)).collect();
        for width in [1, COLUMNS, COLUMNS + 1] {
            for some in parts.windows(width) {
                let batch = batch(some);
                let kind = DataType::Struct(batch.schema_ref().fields().clone());
                let seen = taken(exported(batch.clone()), &kind);
                assert_eq!(RecordBatch::from(seen.as_struct()).columns(), batch.columns(), "{start} {length}");
            }
        }
    }
}

#[test]
fn a_batch_without_columns_has_its_rows() {
    let rows = crate::arrow::array::RecordBatchOptions::new().with_row_count(Some(3));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &rows);
    let structure = exported(batch.unwrap());
    assert_eq!((structure.len(), structure.num_children(), structure.num_buffers()), (3, 0, 1));
}

#[test]
fn a_column_outlives_its_batch_wherever_it_is_moved() {
    let columns = columns();
    for column in &columns {
        let held = Arc::strong_count(column);
        let mut structure = exported(batch(&[columns[0].clone(), column.clone(), columns[4].clone()]));
        let alone = moved(child(&structure, 1));
        // SAFETY: as above, for a structure that was moved away.
        let left = unsafe { &*child(&structure, 1) };
        assert!(left.is_released() && !structure.is_released());
        let mut elsewhere = moved(&raw mut structure);
        assert!(structure.is_released());
        drop(moved(&raw mut elsewhere));
        let seen = taken(alone, column.data_type());
        assert_eq!(&seen, column);
        drop(seen);
        assert_eq!(Arc::strong_count(column), held, "{:?}", column.data_type());
    }
}

#[test]
fn words_outlive_their_column_and_its_batch() {
    let columns = columns();
    let held = Arc::strong_count(&columns[4]);
    let structure = exported(batch(&columns[4..6]));
    let column = moved(child(&structure, 0));
    let words = moved(column.dictionary);
    drop(column);
    drop(structure);
    assert!(Arc::strong_count(&columns[4]) > held);
    assert_eq!(&taken(words, &DataType::Utf8), columns[4].as_dictionary::<Int8Type>().values());
    assert_eq!(Arc::strong_count(&columns[4]), held);
}

#[test]
fn exported_buffers_are_freed_with_their_last_user() {
    let columns = columns()[..COLUMNS].to_vec();
    let held: Vec<usize> = columns.iter().map(Arc::strong_count).collect();
    let counts = || columns.iter().map(Arc::strong_count).collect::<Vec<_>>();
    // The columns that are moved away, and the structure that is released first.
    for (away, first) in (0..1 << COLUMNS).flat_map(|away: usize| (0..=COLUMNS).map(move |first| (away, first))) {
        let structure = exported(batch(&columns));
        let mut in_use: Vec<FFI_ArrowArray> =
            (0..COLUMNS).filter(|at| away >> at & 1 == 1).map(|at| moved(child(&structure, at))).collect();
        in_use.push(structure);
        let start = first % in_use.len();
        in_use.rotate_left(start);
        for structure in in_use {
            assert!(counts().iter().zip(&held).all(|(now, before)| now > before), "{away:b} {first}");
            drop(structure);
        }
        assert_eq!(counts(), held, "{away:b} {first}");
    }
}

#[test]
fn threads_may_release_the_parts_of_a_batch_at_once() {
    let columns = columns()[..COLUMNS].to_vec();
    let held: Vec<usize> = columns.iter().map(Arc::strong_count).collect();
    for _ in 0..200 {
        let structure = exported(batch(&columns));
        let mut in_use: Vec<FFI_ArrowArray> = (0..3).map(|at| moved(child(&structure, at))).collect();
        in_use.push(structure);
        let start = Barrier::new(in_use.len());
        thread::scope(|scope| {
            for structure in in_use {
                scope.spawn(|| {
                    start.wait();
                    drop(structure);
                });
            }
        });
        assert_eq!(columns.iter().map(Arc::strong_count).collect::<Vec<_>>(), held);
    }
}
