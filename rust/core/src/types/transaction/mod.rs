//! Numbered batches, and the meaning of a number that is repeated.
//!
//! A number alone never decides. For the last batch of each application the store keeps its number,
//! a fingerprint of its rows and how it ended. Only the same number with the same rows is the same
//! batch. Triggers, mappers, deliveries and loads all use this check.

mod rows;

pub use rows::BatchRows;

use super::Ending;
use crate::{Error, Result};

/// The identity of a batch, so that the same batch is recognised when it comes again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The application: a stream, a job.
    pub application: String,
    /// Number of the batch within the application; it never goes backwards.
    pub batch: i64,
}

/// A transaction, and the rows of its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumberedBatch {
    pub(crate) transaction: Transaction,
    /// None if an earlier version wrote it.
    pub(crate) rows: Option<BatchRows>,
}

/// The treatment of rows of a batch that was begun before and never ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnReplay {
    /// By the rules: the service may have run.
    #[default]
    ByRules,
    /// Run them again: the work is idempotent for each batch.
    Rerun,
}

/// The treatment of a batch whose number is known and whose rows differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOtherRows {
    /// Refuse it before anything is recorded: the numbers are wrong.
    #[default]
    Refuse,
    /// Take it as a batch of its own: the store's entry for each row decides.
    LookUp,
}

/// The treatment of a repeated number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replays {
    /// With the same rows, before the batch ended.
    pub on_replay: OnReplay,
    /// With other rows.
    pub on_other_rows: OnOtherRows,
}

impl From<OnReplay> for Replays {
    fn from(on_replay: OnReplay) -> Self {
        Self { on_replay, ..Self::default() }
    }
}

/// How a batch relates to what its application committed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It was never begun.
    First,
    /// It was begun, and did not end.
    Unfinished,
    /// It ended.
    Finished,
}

/// The store's record of the last batch of an application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    pub(crate) batch: i64,
    pub(crate) rows: Option<BatchRows>,
    pub(crate) outcome: Option<Ending>,
}

/// The meaning of a batch's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Nothing: the number is new, or the batch begun under it was undone.
    First,
    /// It is the same batch, number and rows.
    Same {
        /// Whether it ended.
        is_finished: bool,
    },
    /// The number is known, but an earlier version did not record the rows. Each row is decided by
    /// its entry in the store.
    Unknown {
        /// Whether it ended.
        is_finished: bool,
    },
    /// The number is known, the rows differ, and the caller wants each row to be decided by its
    /// entry in the store.
    OtherRows,
}

impl Transaction {
    /// The meaning of this number after `last`. `rows` are those of the batch; a caller that does
    /// not know them yet gets the meaning for the same rows.
    ///
    /// # Errors
    /// `Transaction` when numbers go backwards, and for other rows under a known number unless they
    /// are to be looked up.
    pub(crate) fn after(&self, last: Option<Last>, rows: Option<BatchRows>, how: Replays) -> Result<Meaning> {
        let Some(last) = last else { return Ok(Meaning::First) };
        if last.batch > self.batch {
            return Err(self.backwards(last.batch));
        }
        if last.batch < self.batch || last.outcome == Some(Ending::Released) {
            return Ok(Meaning::First);
        }
        let is_finished = last.outcome == Some(Ending::Completed);
        match (last.rows, rows) {
            (None, _) => Ok(Meaning::Unknown { is_finished }),
            (Some(then), Some(now)) if then != now => match how.on_other_rows {
                OnOtherRows::Refuse => Err(self.other_rows(then, now, is_finished)),
                OnOtherRows::LookUp => Ok(Meaning::OtherRows),
            },
            _ => Ok(Meaning::Same { is_finished }),
        }
    }

    fn backwards(&self, last_batch: i64) -> Error {
        let Self { application, batch } = self;
        Error::Transaction(format!(
            "batch {batch} of application {application:?} comes after its batch {last_batch}: a new checkpoint with an old application id? \
             Its numbers must go on, or the application needs a new id"
        ))
    }

    fn other_rows(&self, then: BatchRows, now: BatchRows, is_finished: bool) -> Error {
        let Self { application, batch } = self;
        let came = if is_finished { "was completed" } else { "was begun, and did not end," };
        Error::Transaction(format!(
            "batch {batch} of application {application:?} {came} with other rows before ({} then, {} now): a new checkpoint under an \
             old application name, two queries that share one, a filter or source that was changed before a restart, or a \
             checkpoint that was restored from an older copy? Nothing was recorded. Give the new checkpoint or the second query an \
             application name of its own, or bring back the query that the checkpoint belongs to; with \
             on_other_rows=\"look_up\" each row is decided by what the history holds of it",
            then.count(),
            now.count()
        ))
    }
}

impl Meaning {
    /// The replay reported to the caller.
    pub(crate) fn replay(self) -> Replay {
        match self {
            Self::First | Self::OtherRows => Replay::First,
            Self::Same { is_finished } | Self::Unknown { is_finished } => {
                if is_finished {
                    Replay::Finished
                } else {
                    Replay::Unfinished
                }
            }
        }
    }

    /// Whether all of the batch is done, with the entries that a purge removed since.
    pub(crate) fn is_done(self) -> bool {
        self == Self::Same { is_finished: true }
    }

    /// Whether rows that the earlier run began and did not end run again.
    pub(crate) fn reruns(self, how: Replays) -> bool {
        let is_open = matches!(self, Self::Same { is_finished: false } | Self::Unknown { is_finished: false });
        is_open && how.on_replay == OnReplay::Rerun
    }

    /// Whether a rerun may end everything that its earlier run began: rows that do not come again
    /// would be forgotten.
    pub(crate) fn replaces(self, how: Replays) -> bool {
        self.reruns(how) && self == Self::Same { is_finished: false }
    }

    /// Whether the batch is recorded even if none of its rows is to be processed.
    pub(crate) fn begins(self) -> bool {
        matches!(self, Self::First | Self::OtherRows)
    }
}

/// The prefix of names that are no applications: each stands for a part of an unfinished load. No
/// name from outside begins so.
pub(crate) const LOAD_PREFIX: &str = "\0load ";

/// A committed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransactionEntry {
    pub(crate) transaction: Transaction,
    /// The rows of its batch; none if an earlier version wrote it, or if it is no batch.
    pub(crate) rows: Option<BatchRows>,
    /// The claim it began.
    pub(crate) claim: u64,
    pub(crate) started_at: i64,
    /// How it ended, once it has.
    pub(crate) outcome: Option<Ending>,
}

impl TransactionEntry {
    /// Whether this is no transaction of an application.
    pub(crate) fn is_load(&self) -> bool {
        self.transaction.application.starts_with(LOAD_PREFIX)
    }
}

#[cfg(test)]
mod tests;
