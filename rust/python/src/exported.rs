//! Batches of ours as Arrow's C structures, all in one place. Arrow's own way takes some eighty
//! pieces of memory for the six columns of verdicts, and to make and free those takes longer than a
//! small batch takes to judge. Whoever takes a structure calls it from outside, so this is done
//! without the compiler's protection.
//!
//! A structure is in use until it is released. Its taker may move any of them elsewhere and release
//! it whenever it likes, so each has a share of the block, which goes with the last of them.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::arrow::array::{Array, AsArray, GenericStringArray, OffsetSizeTrait, RecordBatch, StructArray};
use crate::arrow::datatypes::{DataType, Int8Type};
use crate::arrow::ffi::FFI_ArrowArray;

/// As many as verdicts have.
const COLUMNS: usize = 6;

/// The structures of a batch's columns, and all that they point to.
struct Block {
    /// How many structures have not been released.
    in_use: AtomicUsize,
    /// What holds the values.
    batch: RecordBatch,
    columns: [Part; COLUMNS],
    /// Apart, as the system's allocator is slow where more than a kilobyte comes and goes.
    dictionaries: Box<[Part; COLUMNS]>,
    children: [*mut FFI_ArrowArray; COLUMNS],
    /// Of the batch, whose rows are all there.
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
    // SAFETY: the block was just made, and until this returns nobody else knows of it.
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

    /// Make the structures, and that of the whole. Nothing that is pointed to is touched after.
    fn fill(&mut self, block: *mut c_void) -> FFI_ArrowArray {
        let mut in_use = 1;
        let parts = self.columns.iter_mut().zip(self.dictionaries.iter_mut()).zip(&mut self.children);
        for (array, ((column, dictionary), child)) in self.batch.columns().iter().zip(parts) {
            if let Some(filled) = fill(array.as_ref(), column, dictionary, block) {
                in_use += filled;
            } else {
                // It holds its own, and is released by itself.
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

/// Make a column's structure, and that of its dictionary if it has one. Says how many that are;
/// none, and nothing is made, if the column is of another kind than those of verdicts.
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

/// Whether the first null is where its buffer starts. A structure has one offset for all of its
/// buffers; Arrow copies such nulls.
fn starts_at_a_byte(array: &dyn Array) -> bool {
    array.nulls().is_none_or(|nulls| nulls.offset() == 0)
}

impl Part {
    fn fill_text<O: OffsetSizeTrait>(&mut self, text: &GenericStringArray<O>, block: *mut c_void) {
        self.fill(text, &[text.value_offsets().as_ptr().cast(), text.value_data().as_ptr().cast()], block);
    }

    /// Make the structure of an array whose nulls are followed by these buffers.
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

/// Release a structure, those that belong to it and were not moved elsewhere, and with the last of
/// all the block.
///
/// # Safety
///
/// `array` must be a structure that was filled here and not released before, wherever it was moved.
#[expect(unsafe_code, reason = "that is how Arrow's C interface has its callbacks")]
unsafe extern "C" fn release(array: *mut FFI_ArrowArray) {
    // SAFETY: whoever calls this has a structure of ours for itself, by the rules of the C
    // interface.
    let array = unsafe { &mut *array };
    for at in 0..array.n_children as usize {
        // SAFETY: there are so many pointers to structures in the block, which is there as long as
        // this one has its share.
        unsafe { release_part(*array.children.add(at)) };
    }
    if !array.dictionary.is_null() {
        // SAFETY: the same.
        unsafe { release_part(array.dictionary) };
    }
    array.release = None;
    let block = array.private_data.cast::<Block>();
    // SAFETY: this structure had its share until now.
    if unsafe { (*block).in_use.fetch_sub(1, Ordering::Release) } == 1 {
        fence(Ordering::Acquire);
        // SAFETY: it was the last one, and the block was made by `Box`.
        drop(unsafe { Box::from_raw(block) });
    }
}

/// Release what stands there, if it was not moved elsewhere.
///
/// # Safety
///
/// `part` must point to a structure.
#[expect(unsafe_code, reason = "the same")]
unsafe fn release_part(part: *mut FFI_ArrowArray) {
    // SAFETY: a structure that has a callback is in use, and is to be released by it.
    unsafe {
        if let Some(release) = (*part).release {
            release(part);
        }
    }
}

#[cfg(test)]
mod tests;
