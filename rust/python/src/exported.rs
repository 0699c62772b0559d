//! Record batches as Arrow's C structures, all in one block. Arrow's own export makes some eighty
//! allocations for the six columns of verdicts, and making and freeing them takes longer than
//! judging a small batch. The consumer of a structure calls it from outside, so this code is
//! unsafe.
//!
//! A structure is in use until it is released. Its consumer may move any of them elsewhere and
//! release it at any time, so each holds a reference to the block, which is freed with the last of
//! them.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::arrow::array::{Array, AsArray, GenericStringArray, OffsetSizeTrait, RecordBatch, StructArray};
use crate::arrow::datatypes::{DataType, Int8Type};
use crate::arrow::ffi::FFI_ArrowArray;

/// The number of columns of verdicts.
const COLUMNS: usize = 6;

/// The structures of a batch's columns, and all that they point to.
struct Block {
    /// Number of structures that have not been released.
    in_use: AtomicUsize,
    /// The batch with the values.
    batch: RecordBatch,
    columns: [Part; COLUMNS],
    /// A separate allocation, because the system's allocator is slow for blocks of more than a
    /// kilobyte that come and go.
    dictionaries: Box<[Part; COLUMNS]>,
    children: [*mut FFI_ArrowArray; COLUMNS],
    /// The buffers of the batch, whose rows are all valid.
    buffers: [*const c_void; 1],
}

/// One structure and where its buffers are.
struct Part {
    structure: FFI_ArrowArray,
    buffers: [*const c_void; 3],
}

/// A batch as a structure that holds it until it is released.
pub(crate) fn exported(batch: RecordBatch) -> FFI_ArrowArray {
    if batch.num_columns() > COLUMNS {
        return FFI_ArrowArray::new(&StructArray::from(batch).into());
    }
    let block = Box::into_raw(Box::new(Block::of(batch)));
    // SAFETY: the block was just made, and until this returns nobody else has a reference to it.
    #[expect(unsafe_code, reason = "callbacks that share a block count themselves")]
    let filled = unsafe { &mut *block };
    filled.fill(block.cast())
}

impl Block {
    fn of(batch: RecordBatch) -> Self {
        let empty = || [(); COLUMNS].map(|()| Part { structure: FFI_ArrowArray::empty(), buffers: [null(); 3] });
        Self {
            in_use: AtomicUsize::new(0),
            batch,
            columns: empty(),
            dictionaries: Box::new(empty()),
            children: [null_mut(); COLUMNS],
            buffers: [null()],
        }
    }

    /// Fill the structures, and that of the batch. The targets of their pointers do not change
    /// afterwards.
    fn fill(&mut self, block: *mut c_void) -> FFI_ArrowArray {
        let mut in_use = 1;
        let parts = self.columns.iter_mut().zip(self.dictionaries.iter_mut()).zip(&mut self.children);
        for (array, ((column, dictionary), child)) in self.batch.columns().iter().zip(parts) {
            if let Some(filled) = fill(array.as_ref(), column, dictionary, block) {
                in_use += filled;
            } else {
                // It owns its buffers, and is released separately.
                column.structure = FFI_ArrowArray::new(&array.to_data());
            }
            *child = &raw mut column.structure;
        }
        *self.in_use.get_mut() = in_use;
        FFI_ArrowArray {
            length: self.batch.num_rows() as i64,
            null_count: 0,
            offset: 0,
            n_buffers: 1,
            n_children: self.batch.num_columns() as i64,
            buffers: self.buffers.as_mut_ptr(),
            children: self.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release),
            private_data: block,
        }
    }
}

/// Fill a column's structure, and that of its dictionary if it has one. Answers the number of
/// structures; none, and nothing is filled, if the column is of a kind that verdicts never have.
fn fill(array: &dyn Array, column: &mut Part, dictionary: &mut Part, block: *mut c_void) -> Option<usize> {
    if !starts_at_a_byte(array) {
        return None;
    }
    match array.data_type() {
        DataType::Utf8 => column.fill_text(array.as_string_opt::<i32>()?, block),
        DataType::LargeUtf8 => column.fill_text(array.as_string_opt::<i64>()?, block),
        DataType::Dictionary(..) => {
            let indices = array.as_dictionary_opt::<Int8Type>()?;
            let words = indices.values().as_string_opt::<i32>().filter(|words| starts_at_a_byte(*words))?;
            dictionary.fill_text(words, block);
            column.fill(array, &[indices.keys().values().as_ptr().cast()], block);
            column.structure.dictionary = &raw mut dictionary.structure;
            return Some(2);
        }
        _ => return None,
    }
    Some(1)
}

/// Whether the first null is at the start of its buffer. A structure has one offset for all of its
/// buffers; Arrow copies such nulls.
fn starts_at_a_byte(array: &dyn Array) -> bool {
    array.nulls().is_none_or(|nulls| nulls.offset() == 0)
}

impl Part {
    fn fill_text<O: OffsetSizeTrait>(&mut self, text: &GenericStringArray<O>, block: *mut c_void) {
        self.fill(text, &[text.value_offsets().as_ptr().cast(), text.value_data().as_ptr().cast()], block);
    }

    /// Fill the structure of an array whose nulls are followed by these buffers.
    fn fill(&mut self, array: &dyn Array, buffers: &[*const c_void], block: *mut c_void) {
        self.buffers[0] = array.nulls().map_or(null(), |nulls| nulls.validity().as_ptr().cast());
        self.buffers[1..=buffers.len()].copy_from_slice(buffers);
        self.structure = FFI_ArrowArray {
            length: array.len() as i64,
            null_count: array.null_count() as i64,
            offset: 0,
            n_buffers: 1 + buffers.len() as i64,
            n_children: 0,
            buffers: self.buffers.as_mut_ptr(),
            children: null_mut(),
            dictionary: null_mut(),
            release: Some(release),
            private_data: block,
        };
    }
}

/// Release a structure, and its children that were not moved elsewhere; with the last structure,
/// free the block.
///
/// # Safety
///
/// `array` must be a structure that was filled here and not released before, wherever it was moved.
#[expect(unsafe_code, reason = "that is how Arrow's C interface has its callbacks")]
unsafe extern "C" fn release(array: *mut FFI_ArrowArray) {
    // SAFETY: the caller has exclusive access to a structure of ours, by the rules of the C
    // interface.
    let array = unsafe { &mut *array };
    for at in 0..array.n_children as usize {
        // SAFETY: the block has more than `at` pointers to structures, and exists as long as this
        // one holds its reference.
        unsafe { release_part(*array.children.add(at)) };
    }
    if !array.dictionary.is_null() {
        // SAFETY: as above.
        unsafe { release_part(array.dictionary) };
    }
    array.release = None;
    let block = array.private_data.cast::<Block>();
    // SAFETY: this structure held its reference until now.
    if unsafe { (*block).in_use.fetch_sub(1, Ordering::Release) } == 1 {
        fence(Ordering::Acquire);
        // SAFETY: it was the last one, and the block was made by `Box`.
        drop(unsafe { Box::from_raw(block) });
    }
}

/// Release the structure at `part`, if it was not moved elsewhere.
///
/// # Safety
///
/// `part` must point to a structure.
#[expect(unsafe_code, reason = "the same")]
unsafe fn release_part(part: *mut FFI_ArrowArray) {
    // SAFETY: a structure that has a callback is in use, and is released by that callback.
    unsafe {
        if let Some(release) = (*part).release {
            release(part);
        }
    }
}

#[cfg(test)]
mod tests;
