//! How rows of a batch affect each other, and how the resolver's answers decide the undecided ones.

use super::decided::{Decided, SEARCH_ROWS};
use super::outcome::Outcome;
use super::reason::{Reason, Step};
use super::trigger::{InBatch, ProcessingMode, Settings};
use crate::error::{Error, Result};
use crate::key::Copy;
use std::collections::HashSet;

/// The resolver's answer for one undecided row. If it fails for the whole batch, every row has that
/// failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Process it.
    New,
    /// It was processed before.
    Duplicate,
    /// It cannot tell.
    InDoubt,
    /// Null, or no status.
    Other,
    /// It failed, and may succeed later.
    Transient,
    /// It failed in any other way.
    Failed,
}

impl Answer {
    /// Reads a status as a resolver gives it.
    pub fn parse(status: Option<&str>) -> Self {
        match status {
            Some("NEW") => Self::New,
            Some("DUPLICATE") => Self::Duplicate,
            Some("IN_DOUBT" | "IN DOUBT") => Self::InDoubt,
            _ => Self::Other,
        }
    }

    /// The step that the answer leads to under a trigger that suspends or does not.
    pub fn step(self, suspend: bool) -> Step {
        match self {
            Self::New => Step::S1,
            Self::Duplicate => Step::S2,
            Self::InDoubt => Step::S3,
            Self::Transient if suspend => Step::S4,
            Self::Transient => Step::S5,
            Self::Failed => Step::S6,
            Self::Other => Step::S7,
        }
    }
}

impl Decided {
    /// Whether rows are suspended.
    pub(in crate::protocols::trigger) fn is_suspended(&self) -> bool {
        Outcome::any_needs_look(&self.outcomes) && self.outcomes.iter().any(|outcome| outcome.is_suspend())
    }

    /// Applies the resolver's answers, one for each undecided row and in their order; `copies` are
    /// those of the facts. `undecided` stays as it is, so that the resolver's messages still find
    /// their rows.
    ///
    /// # Errors
    /// [`Error::Schema`] when there are not as many answers as undecided rows; the outcomes are
    /// then unchanged.
    pub fn resolve(&mut self, settings: &Settings, copies: &[Copy], answers: &[Answer]) -> Result<()> {
        if answers.len() != self.undecided.len() {
            return Err(Error::Schema(format!(
                "the resolver gave {} answers, but was asked about {} documents",
                answers.len(),
                self.undecided.len()
            )));
        }
        let mut said_new = HashSet::new();
        for (undecided, answer) in self.undecided.iter().zip(answers) {
            let (row, reason) = (undecided.row, undecided.reason);
            let again = *answer == Answer::New && !said_new.insert(first_of_key(copies, row));
            let copy = if again { Outcome::copy_of_resolved(reason, asked_copies(settings)) } else { None };
            self.outcomes[row as usize] =
                copy.unwrap_or_else(|| Outcome::resolved(reason, answer.step(settings.suspend)));
        }
        suspend_later_rows(&mut self.outcomes);
        Ok(())
    }
}

/// The row that stands for all rows with the key of `row`.
fn first_of_key(copies: &[Copy], row: u32) -> u32 {
    copies.binary_search_by_key(&row, |copy| copy.row).map_or(row, |at| copies[at].first)
}

/// The treatment of later rows of a key for which the resolver said NEW. The resolver is not asked
/// twice.
fn asked_copies(settings: &Settings) -> InBatch {
    settings.in_batch.unwrap_or(match settings.processing_mode {
        ProcessingMode::Serial => InBatch::Duplicate,
        ProcessingMode::Concurrent => InBatch::InDoubt,
    })
}

/// The outcome of later rows of a key that is new to the history.
fn unasked_copies(settings: &Settings) -> Outcome {
    let to_resolver =
        settings.in_batch.is_none() && settings.processing_mode == ProcessingMode::Concurrent && settings.resolver;
    if to_resolver { Outcome::unanswered(Reason::R8Batch) } else { Outcome::copy_of_new(asked_copies(settings)) }
}

/// Keeps R8 for one row of each key, the first that got it, and settles the others.
pub(super) fn settle_copies(settings: &Settings, outcomes: &mut [Outcome], copies: &[Copy]) {
    let of_new = unasked_copies(settings);
    // The first row of a key need not be its first R8: it may be ineligible (R1) or rejected (R2).
    let mut led_by_later_row = HashSet::new();
    for copy in copies {
        let first = outcomes[copy.first as usize];
        let outcome = &mut outcomes[copy.row as usize];
        if *outcome == Outcome::R8 && (first == Outcome::R8 || !led_by_later_row.insert(copy.first)) {
            *outcome = of_new;
        }
    }
}

/// Nothing after a suspension is processed or acknowledged: all later rows get the outcome of the
/// first that suspends.
pub(super) fn suspend_later_rows(outcomes: &mut [Outcome]) {
    let first = outcomes.chunks(SEARCH_ROWS).enumerate().filter(|(_, rows)| Outcome::any_needs_look(rows)).find_map(
        |(number, rows)| {
            let at = rows.iter().position(|outcome| outcome.is_suspend())?;
            Some((number * SEARCH_ROWS + at, rows[at]))
        },
    );
    if let Some((row, suspended)) = first {
        outcomes[row..].fill(suspended);
    }
}
