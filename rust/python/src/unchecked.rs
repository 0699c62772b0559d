//! The one place of this crate without the compiler's protection: Arrow looks at each key of a dictionary by itself, which
//! takes as long as making it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int8Array};
use arrow::datatypes::Int8Type;

use crate::errors::Outcome;

/// A dictionary column. The keys under its nulls must be good, too.
pub(crate) fn dictionary(keys: Int8Array, words: ArrayRef) -> Outcome<ArrayRef> {
    let (least, most) = keys.values().iter().fold((0, 0), |(least, most), key| (*key.min(&least), *key.max(&most)));
    if least < 0 || usize::try_from(most).map_or(true, |most| most >= words.len()) {
        return Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(keys, words)?));
    }
    // SAFETY: every key is the index of a word, as was just seen; that is all that `try_new` asks for.
    #[expect(unsafe_code, reason = "the check above takes many keys at once, that of `try_new` one")]
    let column = unsafe { DictionaryArray::<Int8Type>::new_unchecked(keys, words) };
    Ok(Arc::new(column))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;

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
