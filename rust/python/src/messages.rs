//! The column `message` of the verdicts: one sentence for the journal, none for what is NEW.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, GenericStringArray, OffsetSizeTrait, new_null_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use dochistory_core::engine::Verdicts;
use dochistory_core::rules::Outcome as Decision;

use crate::ids::fits;

/// Rows that are looked at together, as many as a word has bits: most say nothing.
const TOGETHER: usize = 64;

/// Which outcomes say nothing, by their codes.
static IS_SILENT: LazyLock<[bool; 256]> = LazyLock::new(|| {
    let mut is_silent = [true; 256];
    for outcome in Decision::all() {
        is_silent[usize::from(outcome.as_u8())] = outcome.message().is_none();
    }
    is_silent
});

/// The messages of all rows: the resolver's own, or else what the outcome says.
pub(crate) fn message_column(verdicts: &Verdicts) -> ArrayRef {
    let outcomes = &verdicts.outcomes;
    if verdicts.messages.is_empty() && outcomes.chunks(TOGETHER).all(are_silent) {
        return new_null_array(&DataType::Utf8, outcomes.len());
    }
    let sentences = Sentences::of(verdicts.unavailable.as_deref());
    written::<i32>(verdicts, &sentences)
        .or_else(|| written::<i64>(verdicts, &sentences))
        .unwrap_or_else(|| new_null_array(&DataType::Utf8, outcomes.len()))
}

/// Whether none of the rows says anything. Most have one outcome, so whether they do is looked at first.
fn are_silent(rows: &[Decision]) -> bool {
    match common(rows) {
        Some(outcome) => IS_SILENT[usize::from(outcome.as_u8())],
        None => rows.iter().all(|row| IS_SILENT[usize::from(row.as_u8())]),
    }
}

/// The outcome that all rows have, if they have one.
fn common(rows: &[Decision]) -> Option<Decision> {
    let first = *rows.first()?;
    let others = rows.iter().fold(0, |other, row| other | (row.as_u8() ^ first.as_u8()));
    (others == 0).then_some(first)
}

/// What the outcomes say: their own sentences, or a list by code where a reason is added to some.
struct Sentences(Option<Vec<Cow<'static, str>>>);

impl Sentences {
    fn of(unavailable: Option<&str>) -> Self {
        let with =
            |reason| Decision::all().map(|outcome| sentence(outcome, Some(reason)).unwrap_or_default()).collect();
        Self(unavailable.map(with))
    }

    /// Empty says nothing.
    fn get(&self, outcome: Decision) -> &str {
        match &self.0 {
            None => outcome.message().unwrap_or_default(),
            Some(sentences) => &sentences[usize::from(outcome.as_u8())],
        }
    }

    /// How long all messages are together: text that grows as it is written is copied again and again.
    fn length(&self, outcomes: &[Decision]) -> usize {
        let of_rows = |rows: &[Decision]| match common(rows) {
            Some(outcome) => rows.len() * self.get(outcome).len(),
            None => rows.iter().map(|row| self.get(*row).len()).sum(),
        };
        outcomes.chunks(TOGETHER).map(of_rows).sum()
    }
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
    let mut text = Vec::with_capacity(sentences.length(&verdicts.outcomes));
    offsets.push(O::zero());
    let mut own = verdicts.messages.iter().peekable();
    let mut said_in = Vec::with_capacity(rows.div_ceil(TOGETHER));
    for (chunk, outcomes) in verdicts.outcomes.chunks(TOGETHER).enumerate() {
        let first = chunk * TOGETHER;
        let next_own = own.peek().map_or(usize::MAX, |(row, _)| *row as usize);
        if next_own >= first + outcomes.len() && are_silent(outcomes) {
            offsets.extend(std::iter::repeat_n(O::usize_as(text.len()), outcomes.len()));
            said_in.push(0);
            continue;
        }
        let mut are_said = 0;
        for (place, outcome) in outcomes.iter().enumerate() {
            let said = match own.next_if(|(row, _)| *row as usize == first + place) {
                Some((_, own)) => own,
                None => sentences.get(*outcome),
            };
            if !fits::<O>(text.len() + said.len()) {
                return None;
            }
            text.extend_from_slice(said.as_bytes());
            offsets.push(O::usize_as(text.len()));
            are_said |= u64::from(!said.is_empty()) << place;
        }
        said_in.push(u64::to_le(are_said));
    }
    let is_said = BooleanBuffer::new(Buffer::from_vec(said_in), 0, rows);
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let column = GenericStringArray::<O>::try_new(offsets, Buffer::from_vec(text), Some(NullBuffer::new(is_said)));
    column.ok().map(|column| Arc::new(column) as ArrayRef)
}
