//! The column `message` of the verdicts: one sentence for the journal, none for what is NEW.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, GenericStringArray, OffsetSizeTrait, new_null_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use dochistory_core::engine::Verdicts;
use dochistory_core::rules::Outcome as Decision;

use crate::ids::fits;

/// What each outcome says, by its code; empty says nothing.
type Sentences = Vec<Cow<'static, str>>;

/// The messages of all rows: the resolver's own, or else what the outcome says.
pub(crate) fn message_column(verdicts: &Verdicts) -> ArrayRef {
    let outcomes = &verdicts.outcomes;
    let sentences = sentences(verdicts.unavailable.as_deref());
    let is_silent: Vec<bool> = sentences.iter().map(|sentence| sentence.is_empty()).collect();
    let silent = |rows: &[Decision]| rows.iter().fold(true, |all, row| all & is_silent[usize::from(row.as_u8())]);
    if verdicts.messages.is_empty() && outcomes.chunks(1024).all(silent) {
        return new_null_array(&DataType::Utf8, outcomes.len());
    }
    written::<i32>(verdicts, &sentences)
        .or_else(|| written::<i64>(verdicts, &sentences))
        .unwrap_or_else(|| new_null_array(&DataType::Utf8, outcomes.len()))
}

fn sentences(unavailable: Option<&str>) -> Sentences {
    Decision::all().map(|outcome| sentence(outcome, unavailable).unwrap_or_default()).collect()
}

/// What an outcome says, with the reason where the history could not be asked.
pub(crate) fn sentence(outcome: Decision, unavailable: Option<&str>) -> Option<Cow<'static, str>> {
    match (outcome.message()?, unavailable) {
        (sentence, Some(reason)) if is_about_the_history(outcome) => Some(Cow::Owned(format!("{sentence} ({reason})"))),
        (sentence, _) => Some(Cow::Borrowed(sentence)),
    }
}

/// Whether a rule says that the history could not be asked.
fn is_about_the_history(outcome: Decision) -> bool {
    ["R5", "R6", "R7"].iter().any(|rule| outcome.rule().starts_with(rule))
}

/// All messages; none if they are too much text for the offsets.
fn written<O: OffsetSizeTrait>(verdicts: &Verdicts, sentences: &Sentences) -> Option<ArrayRef> {
    let rows = verdicts.outcomes.len();
    let mut offsets = Vec::with_capacity(rows + 1);
    let mut text = Vec::new();
    offsets.push(O::zero());
    let mut own = verdicts.messages.iter().peekable();
    for (row, outcome) in verdicts.outcomes.iter().enumerate() {
        let said = match own.next_if(|(own_row, _)| *own_row as usize == row) {
            Some((_, own)) => own.as_bytes(),
            None => sentences[usize::from(outcome.as_u8())].as_bytes(),
        };
        if !said.is_empty() {
            if !fits::<O>(text.len() + said.len()) {
                return None;
            }
            text.extend_from_slice(said);
        }
        offsets.push(O::usize_as(text.len()));
    }
    let is_said = BooleanBuffer::collect_bool(rows, |row| offsets[row] < offsets[row + 1]);
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let column = GenericStringArray::<O>::try_new(offsets, Buffer::from_vec(text), Some(NullBuffer::new(is_said)));
    column.ok().map(|column| Arc::new(column) as ArrayRef)
}
