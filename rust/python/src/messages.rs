//! The column `message` of the verdicts: one sentence for the journal, none for what is NEW.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use crate::arrow::array::{ArrayRef, OffsetSizeTrait, StringArray};
use crate::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use dochistory_core::protocols::trigger::Verdicts;
use dochistory_core::protocols::trigger::rules::Outcome as Decision;

use crate::unchecked::Texts;

/// Rows that are looked at together, as many as a word has bits: most say nothing.
const TOGETHER: usize = 64;

/// Rows up to which columns that say nothing are one and the same: some 33 kB.
const SHARED_ROWS: usize = 8192;

/// The messages of all rows: the resolver's own, or else what the outcome says.
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

/// A column that says nothing. Where it is short it is a part of one that all share, as most
/// batches of new ids need it.
fn nothing(rows: usize) -> ArrayRef {
    static SHARED: LazyLock<StringArray> = LazyLock::new(|| StringArray::new_null(SHARED_ROWS));
    if rows <= SHARED_ROWS { Arc::new(SHARED.slice(0, rows)) } else { Arc::new(StringArray::new_null(rows)) }
}

/// Which of the rows say something, a bit each: all but those whose service runs.
fn speaking(rows: &[Decision]) -> u64 {
    // In half of all cases none does, which takes no more than a few comparisons of many rows each
    // to see.
    if rows.iter().fold(true, |all, row| all & row.is_process()) {
        return 0;
    }
    (0..).zip(rows).fold(0, |speaking, (place, row)| speaking | u64::from(!row.is_process()) << place)
}

/// The places of the bits that are set, from the lowest on.
fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros();
        // The lowest bit that is set is taken away.
        bits &= bits.checked_sub(1)?;
        Some(place as usize)
    })
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

    /// How long all messages are together: text that grows as it is written is copied again and
    /// again.
    fn length(&self, outcomes: &[Decision], speaking: &[u64]) -> usize {
        let of_rows = |(rows, speaking): (&[Decision], &u64)| -> usize {
            places(*speaking).map(|place| self.get(rows[place]).len()).sum()
        };
        outcomes.chunks(TOGETHER).zip(speaking).map(of_rows).sum()
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
            // Nothing is said in the rows before.
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
