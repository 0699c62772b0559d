//! Asking the resolver: once a batch, about the undecided rows only, and never while a lock is
//! held.

use super::rules::{Answer, Reason};
use crate::Result;

/// One undecided row, as the resolver is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Row of the batch.
    pub row: u32,
    /// The rule that left it undecided.
    pub reason: Reason,
    /// When its service began, if the history has it in progress; microseconds since 1970.
    pub started_at: Option<i64>,
}

/// The undecided rows of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Sorted by row.
    pub rows: &'a [Asked],
}

/// A resolver's reply: one answer for each row asked about, and optionally messages.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// In the order asked.
    pub answers: Vec<Answer>,
    /// Messages for the journal, by place among the rows asked.
    pub messages: Vec<(usize, String)>,
}

/// A source that knows more about a document than the history does.
pub trait Resolver {
    /// Answer for each of the rows asked about. A failure is an answer too: [`Answer::Transient`]
    /// or [`Answer::Failed`].
    ///
    /// # Errors
    /// Not for failures, but to stop the whole call (a person interrupted it): then nothing is
    /// written.
    fn resolve(&mut self, ask: Ask<'_>) -> Result<Reply>;
}
