//! A poll as one batch of an application, so that a batch that comes again is known.

use xxhash_rust::xxh3::Xxh3;

use super::super::codec::LastBatch;
use super::row::{Row, application_key, exchange};
use super::store::{Exchange, Rows};
use crate::{Error, Result, Transaction};

/// What a batch is in doubt for that was handed out and never committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReplay {
    /// What it would apply stays in doubt.
    InDoubt,
    /// It is handed out again: for callers whose work is idempotent for each batch.
    Rerun,
}

/// What is known of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// It comes for the first time.
    First,
    /// It was handed out and never committed.
    Unfinished,
    /// It was committed.
    Finished,
}

/// A poll's batch, and the row of its application.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    key: String,
    number: i64,
    found: Option<Row<LastBatch>>,
    /// Marks the rows that this batch writes.
    pub(super) mark: u64,
}

impl Batch {
    pub(super) fn look_up(rows: &dyn Rows, transaction: &Transaction) -> Result<Self> {
        let Transaction { application, batch } = transaction;
        let key = application_key(application);
        let found = rows.get(&key)?.map(|bytes| Row::<LastBatch>::decode(application, &bytes)).transpose()?;
        if let Some(last) = found.filter(|last| last.state.batch > *batch) {
            return Err(Error::Transaction(format!(
                "batch {batch} of {application:?} comes after batch {}: an application's numbers only rise; a new \
                 checkpoint needs a new name",
                last.state.batch
            )));
        }
        let mut hash = Xxh3::new();
        hash.update(&batch.to_le_bytes());
        hash.update(application.as_bytes());
        Ok(Self { key, number: *batch, found, mark: hash.digest().max(1) })
    }

    pub(super) fn replay(&self) -> Replay {
        match self.found.filter(|last| last.state.batch == self.number) {
            None => Replay::First,
            Some(last) if last.state.is_finished => Replay::Finished,
            Some(_) => Replay::Unfinished,
        }
    }

    /// Writes that the batch begins, or ends.
    pub(super) fn note(&self, is_finished: bool) -> (Exchange, Self) {
        let state = LastBatch { batch: self.number, is_finished };
        let row = Row::after(self.found.as_ref(), state, self.mark);
        let change = exchange(self.key.clone(), self.found.as_ref(), Some(&row));
        (change, Self { found: Some(row), ..self.clone() })
    }
}
