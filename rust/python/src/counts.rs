//! Counting verdicts, a column at a time.

use std::collections::BTreeMap;

use crate::arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, RecordBatch};
use crate::arrow::compute::cast;
use crate::arrow::datatypes::{DataType, Int8Type};
use pyo3::prelude::*;

use crate::errors::{Failure, Outcome};
use crate::input::Input;

/// Status (none when suspended or rejected), action and rule.
type Kind = (Option<String>, String, String);
/// A kind with its number of rows.
type Counted = (Option<String>, String, String, u64);

/// Count verdicts by status, action and rule.
///
/// Args:
///     verdicts: what `classify` answered, or `claim.verdicts`; or a table with columns of these
///         names.
///
/// Returns:
///     (status or None, action, rule, number of rows) for each that occurs, sorted.
///
/// Raises:
///     SchemaError: [DH-SCHEMA] a column is missing, or is no text.
#[pyfunction]
pub(crate) fn count_verdicts(verdicts: &Bound<'_, PyAny>) -> Outcome<Vec<Counted>> {
    let input = Input::import(verdicts)?;
    let counts = crate::calls::outside(verdicts.py(), || {
        let mut counts = BTreeMap::new();
        input.batches.iter().try_for_each(|batch| count(batch, &mut counts)).map(|()| counts)
    })?;
    Ok(counts.into_iter().map(|((status, action, rule), count)| (status, action, rule, count)).collect())
}

fn count(batch: &RecordBatch, counts: &mut BTreeMap<Kind, u64>) -> Outcome<()> {
    let (status, action, rule) = (Words::of(batch, "status")?, Words::of(batch, "action")?, Words::of(batch, "rule")?);
    // A cell for each status, action and rule; a null uses the index behind the last word.
    let (actions, rules) = (action.size(), rule.size());
    let mut cells = vec![0_u64; status.size() * actions * rules];
    for row in 0..batch.num_rows() {
        cells[(status.code(row) * actions + action.code(row)) * rules + rule.code(row)] += 1;
    }
    for (cell, count) in cells.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let (rest, of_rule) = (cell / rules, cell % rules);
        let kind = (
            status.word(rest / actions),
            action.word(rest % actions).unwrap_or_default(),
            rule.word(of_rule).unwrap_or_default(),
        );
        *counts.entry(kind).or_default() += count;
    }
    Ok(())
}

/// A column of few words.
struct Words {
    column: DictionaryArray<Int8Type>,
    words: ArrayRef,
    has_nulls: bool,
}

impl Words {
    fn of(batch: &RecordBatch, name: &str) -> Outcome<Self> {
        let missing = || Failure::schema(format!("verdicts have no column {name}"));
        let found = batch.column_by_name(name).ok_or_else(missing)?;
        let kind = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let wrong = |_| Failure::schema(format!("column {name} is {}; needed is text of few words", found.data_type()));
        let column = cast(found, &kind).map_err(wrong)?.as_dictionary::<Int8Type>().clone();
        let (words, has_nulls) = (column.values().clone(), column.null_count() > 0);
        Ok(Self { column, words, has_nulls })
    }

    fn size(&self) -> usize {
        self.words.len() + 1
    }

    #[inline]
    fn code(&self, row: usize) -> usize {
        if self.has_nulls && self.column.is_null(row) {
            return self.words.len();
        }
        usize::try_from(self.column.keys().value(row)).map_or(self.words.len(), |code| code.min(self.words.len()))
    }

    fn word(&self, code: usize) -> Option<String> {
        let words = self.words.as_string_opt::<i32>()?;
        (code < words.len() && words.is_valid(code)).then(|| words.value(code).to_owned())
    }
}
