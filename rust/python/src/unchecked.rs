//! Columns built without Arrow's checks: Arrow checks each key of a dictionary and each offset of a
//! text separately, which takes as long as building them.

use std::sync::Arc;

use crate::arrow::array::{Array, ArrayRef, DictionaryArray, GenericStringArray, Int8Array, OffsetSizeTrait};
use crate::arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use crate::arrow::datatypes::Int8Type;

use crate::errors::Outcome;
use crate::ids::fits;

/// A dictionary column. The keys under its nulls must be good, too.
pub(crate) fn dictionary(keys: Int8Array, words: ArrayRef) -> Outcome<ArrayRef> {
    let (least, most) = keys.values().iter().fold((0, 0), |(least, most), key| (*key.min(&least), *key.max(&most)));
    if least < 0 || usize::try_from(most).map_or(true, |most| most >= words.len()) {
        return Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(keys, words)?));
    }
    // SAFETY: every key is the index of a word, as was just checked; `try_new` requires nothing
    // else.
    #[expect(unsafe_code, reason = "the check above takes many keys at once, that of `try_new` one")]
    let column = unsafe { DictionaryArray::<Int8Type>::new_unchecked(keys, words) };
    Ok(Arc::new(column))
}

/// Text that is written piece by piece.
pub(crate) struct Texts<O: OffsetSizeTrait> {
    offsets: Vec<O>,
    text: String,
}

impl<O: OffsetSizeTrait> Texts<O> {
    /// Room for `values` values of `bytes` bytes in total.
    pub(crate) fn with_capacity(values: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(values + 1);
        offsets.push(O::zero());
        Self { offsets, text: String::with_capacity(bytes) }
    }

    /// Add one value; false, and nothing is added, if the text becomes too long for the offsets.
    pub(crate) fn push(&mut self, value: &str) -> bool {
        let fits = fits::<O>(self.text.len() + value.len());
        if fits {
            self.text.push_str(value);
            self.offsets.push(O::usize_as(self.text.len()));
        }
        fits
    }

    /// Add empty values.
    pub(crate) fn push_empty(&mut self, values: usize) {
        self.offsets.extend(std::iter::repeat_n(O::usize_as(self.text.len()), values));
    }

    /// The column with these nulls, which must be as many as the values.
    pub(crate) fn finish(self, nulls: NullBuffer) -> Option<ArrayRef> {
        if nulls.len() + 1 != self.offsets.len() {
            return None;
        }
        // SAFETY: each offset was the length of the text when it was added; the text fits the
        // offsets and never shrinks.
        #[expect(unsafe_code, reason = "the check would look at each offset")]
        let offsets = unsafe { OffsetBuffer::new_unchecked(ScalarBuffer::from(self.offsets)) };
        let text = Buffer::from_vec(self.text.into_bytes());
        // SAFETY: the text consists of whole `str`s, so each offset is the start or the end of one;
        // the last is the text's length, and there are as many nulls as values.
        #[expect(unsafe_code, reason = "the check would look at the byte behind each offset")]
        let column = unsafe { GenericStringArray::<O>::new_unchecked(offsets, text, Some(nulls)) };
        Some(Arc::new(column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrow::array::StringArray;

    #[test]
    fn texts_are_what_arrow_would_make_of_them() {
        let mut texts = Texts::<i32>::with_capacity(5, 3);
        assert!(texts.push("é"));
        texts.push_empty(2);
        assert!(texts.push("") && texts.push("abc"));
        let nulls = NullBuffer::from(vec![true, false, false, true, true]);
        let column = texts.finish(nulls).map(|column| column.to_data());
        let want = StringArray::from(vec![Some("é"), None, None, Some(""), Some("abc")]).to_data();
        assert!(column.as_ref().is_some_and(|column| column.validate_full().is_ok()));
        assert_eq!(column, Some(want));
        assert!(Texts::<i32>::with_capacity(0, 0).finish(NullBuffer::from(vec![true])).is_none());
    }

    #[test]
    fn a_dictionary_is_what_arrow_would_make_of_it() {
        let words: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        for keys in [vec![], vec![0, 1, 1, 0], vec![1; 100], vec![2], vec![0, -1], vec![i8::MIN], vec![i8::MAX]] {
            let keys = Int8Array::from(keys);
            match DictionaryArray::<Int8Type>::try_new(keys.clone(), words.clone()) {
                Ok(column) => {
                    assert_eq!(dictionary(keys, words.clone()).ok().map(|c| c.to_data()), Some(column.to_data()));
                }
                Err(_) => assert!(dictionary(keys, words.clone()).is_err()),
            }
        }
    }
}
