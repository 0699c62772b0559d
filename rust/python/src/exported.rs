//! Batches of ours as Arrow's C structures, all of them in one block of memory. Arrow's own way makes some sixty pieces for the
//! six columns of verdicts, and to make and free those takes longer than a small batch takes to judge. Whoever takes a
//! structure calls it from outside, so this is done without the compiler's protection.
//!
//! A structure is in use until it is released. Its taker may move any of them elsewhere and release it whenever it likes, so
//! each has a share of the block, which goes with the last of them.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use arrow::array::{Array, AsArray, GenericStringArray, OffsetSizeTrait, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Int8Type};
use arrow::ffi::FFI_ArrowArray;

/// As many as verdicts have.
const COLUMNS: usize = 6;

/// Which values are there, where each begins, and the text.
type Buffers = [*const c_void; 3];

/// The structures of a batch's columns, and all that they point to.
struct Block {
    /// How many structures have not been released.
    in_use: AtomicUsize,
    /// What holds the values.
    batch: RecordBatch,
    columns: [FFI_ArrowArray; COLUMNS],
    dictionaries: [FFI_ArrowArray; COLUMNS],
    children: [*mut FFI_ArrowArray; COLUMNS],
    /// Of each column, and of its dictionary.
    buffers: [(Buffers, Buffers); COLUMNS],
    /// Of the batch, whose rows are all there.
    rows: Buffers,
}

/// A batch as a structure that holds it until it is released.
pub(crate) fn exported(batch: RecordBatch) -> FFI_ArrowArray {
    if batch.num_columns() > COLUMNS {
        return FFI_ArrowArray::new(&StructArray::from(batch).into());
    }
    let block = Box::into_raw(Box::new(Block::of(batch)));
    // SAFETY: the block was just made, and until this returns nobody else knows of it.
    #[expect(unsafe_code, reason = "structures that are freed one by one cannot be counted by `Arc`'s own means")]
    let filled = unsafe { &mut *block };
    filled.fill(block.cast())
}

impl Block {
    fn of(batch: RecordBatch) -> Self {
        let none = || [(); COLUMNS].map(|()| FFI_ArrowArray::empty());
        Self {
            in_use: AtomicUsize::new(0),
            batch,
            columns: none(),
            dictionaries: none(),
            children: [null_mut(); COLUMNS],
            buffers: [([null(); 3], [null(); 3]); COLUMNS],
            rows: [null(); 3],
        }
    }

    /// Make the structures, and that of the whole. Nothing that is pointed to is touched after.
    fn fill(&mut self, block: *mut c_void) -> FFI_ArrowArray {
        let mut in_use = 1;
        let parts = self.columns.iter_mut().zip(&mut self.dictionaries).zip(&mut self.buffers);
        for (array, ((column, words), (own, of_words))) in self.batch.columns().iter().zip(parts) {
            let Some(layout) = Layout::of(array.as_ref(), own) else {
                // It holds its own, and is released by itself.
                *column = FFI_ArrowArray::new(&array.to_data());
                continue;
            };
            let Some(values) = layout.dictionary else {
                *column = layout.structure(own, null_mut(), block);
                in_use += 1;
                continue;
            };
            match Layout::of(values, of_words) {
                Some(layout_of_words) if layout_of_words.dictionary.is_none() => {
                    *words = layout_of_words.structure(of_words, null_mut(), block);
                    *column = layout.structure(own, words, block);
                    in_use += 2;
                }
                _ => *column = FFI_ArrowArray::new(&array.to_data()),
            }
        }
        *self.in_use.get_mut() = in_use;
        for (child, column) in self.children.iter_mut().zip(&mut self.columns) {
            *child = column;
        }
        FFI_ArrowArray {
            length: self.batch.num_rows() as i64,
            null_count: 0,
            offset: 0,
            n_buffers: 1,
            n_children: self.batch.num_columns() as i64,
            buffers: self.rows.as_mut_ptr(),
            children: self.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release),
            private_data: block,
        }
    }
}

/// How an array lies in memory.
struct Layout<'a> {
    length: usize,
    null_count: usize,
    buffers: i64,
    dictionary: Option<&'a dyn Array>,
}

impl<'a> Layout<'a> {
    /// Write down where its buffers are; none if it is of another kind than the columns of verdicts.
    fn of(array: &'a dyn Array, buffers: &mut Buffers) -> Option<Self> {
        // There is one offset for all buffers, and ours have none but this; Arrow copies such nulls.
        if array.nulls().is_some_and(|nulls| nulls.offset() != 0) {
            return None;
        }
        let dictionary = match array.data_type() {
            DataType::Utf8 => text(array.as_string_opt::<i32>()?, buffers),
            DataType::LargeUtf8 => text(array.as_string_opt::<i64>()?, buffers),
            DataType::Dictionary(..) => {
                let column = array.as_dictionary_opt::<Int8Type>()?;
                buffers[1] = column.keys().values().as_ptr().cast();
                Some(column.values().as_ref())
            }
            _ => return None,
        };
        buffers[0] = array.nulls().map_or(null(), |nulls| nulls.validity().as_ptr().cast());
        Some(Self {
            length: array.len(),
            null_count: array.null_count(),
            buffers: if dictionary.is_some() { 2 } else { 3 },
            dictionary,
        })
    }

    fn structure(&self, buffers: &mut Buffers, dictionary: *mut FFI_ArrowArray, block: *mut c_void) -> FFI_ArrowArray {
        FFI_ArrowArray {
            length: self.length as i64,
            null_count: self.null_count as i64,
            offset: 0,
            n_buffers: self.buffers,
            n_children: 0,
            buffers: buffers.as_mut_ptr(),
            children: null_mut(),
            dictionary,
            release: Some(release),
            private_data: block,
        }
    }
}

/// Write down where text is; it has no dictionary.
fn text<O: OffsetSizeTrait>(column: &GenericStringArray<O>, buffers: &mut Buffers) -> Option<&'static dyn Array> {
    buffers[1] = column.value_offsets().as_ptr().cast();
    buffers[2] = column.value_data().as_ptr().cast();
    None
}

/// Release a structure, those that belong to it and were not moved elsewhere, and with the last of all the block.
///
/// # Safety
///
/// `array` must be a structure that was filled here and not released before, wherever it was moved.
#[expect(unsafe_code, reason = "that is how Arrow's C interface has its callbacks")]
unsafe extern "C" fn release(array: *mut FFI_ArrowArray) {
    // SAFETY: whoever calls this has a structure of ours for itself, by the rules of the C interface.
    let array = unsafe { &mut *array };
    for at in 0..array.n_children as usize {
        // SAFETY: there are so many pointers to structures in the block, which is there as long as this one has its share.
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
