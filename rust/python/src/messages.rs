//! The column `message` of the verdicts: one sentence for the journal, none for a NEW document.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use crate::arrow::array::{ArrayRef, OffsetSizeTrait, StringArray};
use crate::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use dochistory_core::protocols::trigger::Verdicts;
use dochistory_core::protocols::trigger::rules::Outcome as Decision;

use crate::unchecked::Texts;

/// Rows that are checked at once, as many as a word has bits: most have no message.
const TOGETHER: usize = 64;

/// Maximum rows of a column without messages that is a slice of the common one: some 33 kB.
const SHARED_ROWS: usize = 8192;

/// The messages of all rows: the resolver's own, or else those of the outcomes.
pub(crate) fn message_column(verdicts: &Verdicts) -> ArrayRef {
    let outcomes = &verdicts.outcomes;
    let speaking: Vec<u64> = outcomes.chunks(TOGETHER).map(speaking).collect();
    if verdicts.messages.is_empty() && speaking.iter().all(|rows| *rows == 0) {
        return nothing(outcomes.len());
    }
    let sentences = Sentences::of(verdicts.unavailable.as_deref());
    written::<i32>(verdicts, &sentences, &speaking)
        .or_else(|| written::<i64>(verdicts, &sentences, &speaking))
        .unwrap_or_else(|| nothing(outcomes.len()))
}

/// A column without messages. A short one is a slice of one common column, because most batches of
/// new ids need it.
fn nothing(rows: usize) -> ArrayRef {
    static SHARED: LazyLock<StringArray> = LazyLock::new(|| StringArray::new_null(SHARED_ROWS));
    if rows <= SHARED_ROWS { Arc::new(SHARED.slice(0, rows)) } else { Arc::new(StringArray::new_null(rows)) }
}

/// The rows with a message, a bit each: all but those whose service runs.
fn speaking(rows: &[Decision]) -> u64 {
    // In half of all cases no row has one. A few comparisons of many rows each detect that.
    if rows.iter().fold(true, |all, row| all & row.is_process()) {
        return 0;
    }
    (0..).zip(rows).fold(0, |speaking, (place, row)| speaking | u64::from(!row.is_process()) << place)
}

/// The places of the bits that are set, from the lowest on.
fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros();
        // Clears the lowest bit that is set.
        bits &= bits.checked_sub(1)?;
        Some(place as usize)
    })
}

/// The messages of the outcomes: fixed sentences, or a list by code where a reason is added to
/// some.
struct Sentences(Option<Vec<Cow<'static, str>>>);

impl Sentences {
    fn of(unavailable: Option<&str>) -> Self {
        let with =
            |reason| Decision::all().map(|outcome| sentence(outcome, Some(reason)).unwrap_or_default()).collect();
        Self(unavailable.map(with))
    }

    /// Empty for no message.
    fn get(&self, outcome: Decision) -> &str {
        match &self.0 {
            None => outcome.message().unwrap_or_default(),
            Some(sentences) => &sentences[usize::from(outcome.as_u8())],
        }
    }

    /// The length of all messages in total: text that grows while it is written is copied
    /// repeatedly.
    fn length(&self, outcomes: &[Decision], speaking: &[u64]) -> usize {
        let of_rows = |(rows, speaking): (&[Decision], &u64)| -> usize {
            places(*speaking).map(|place| self.get(rows[place]).len()).sum()
        };
        outcomes.chunks(TOGETHER).zip(speaking).map(of_rows).sum()
    }
}

/// The sentence of an outcome, with the reason where the history was unavailable.
pub(crate) fn sentence(outcome: Decision, unavailable: Option<&str>) -> Option<Cow<'static, str>> {
    match (outcome.message()?, unavailable) {
        (sentence, Some(reason)) if is_about_the_history(outcome) => Some(Cow::Owned(format!("{sentence} ({reason})"))),
        (sentence, _) => Some(Cow::Borrowed(sentence)),
    }
}

/// Whether a rule means that the history was unavailable.
fn is_about_the_history(outcome: Decision) -> bool {
    ["R5", "R6", "R7"].iter().any(|rule| outcome.rule().starts_with(rule))
}

/// All messages; none if the text is too long for the offsets.
fn written<O: OffsetSizeTrait>(verdicts: &Verdicts, sentences: &Sentences, speaking: &[u64]) -> Option<ArrayRef> {
    let rows = verdicts.outcomes.len();
    let mut texts = Texts::<O>::with_capacity(rows, sentences.length(&verdicts.outcomes, speaking));
    let mut own = &verdicts.messages[..];
    let mut said_in = Vec::with_capacity(speaking.len());
    for ((first, outcomes), speaking) in (0..).step_by(TOGETHER).zip(verdicts.outcomes.chunks(TOGETHER)).zip(speaking) {
        let end = first + outcomes.len();
        let own_here;
        (own_here, own) = own.split_at(own.iter().take_while(|(row, _)| (*row as usize) < end).count());
        let has_own = own_here.iter().fold(0, |has_own, (row, _)| has_own | 1 << (*row as usize - first));
        let (mut own_here, mut are_said, mut next) = (own_here.iter(), 0, first);
        for place in places(speaking | has_own) {
            let said = match own_here.as_slice().first() {
                Some((row, own)) if *row as usize == first + place => {
                    own_here.next();
                    own
                }
                _ => sentences.get(outcomes[place]),
            };
            // The rows before have no message.
            texts.push_empty(first + place - next);
            if !texts.push(said) {
                return None;
            }
            next = first + place + 1;
            are_said |= u64::from(!said.is_empty()) << place;
        }
        texts.push_empty(end - next);
        said_in.push(u64::to_le(are_said));
    }
    texts.finish(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(said_in), 0, rows)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_something_is_what_does_not_run_its_service() {
        for outcome in Decision::all() {
            assert_eq!(outcome.message().is_some(), !outcome.is_process(), "{outcome:?}");
        }
    }
}
