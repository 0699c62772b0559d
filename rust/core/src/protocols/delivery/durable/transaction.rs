//! A poll as one batch of an application, so that a repeated batch is recognised.

use xxhash_rust::xxh3::Xxh3;

use super::row::{Row, application_key, exchange};
use super::store::{Exchange, Rows};
use crate::protocols::delivery::codec::LastBatch;
use crate::types::Ending;
use crate::types::transaction::{BatchRows, Last, Meaning, Replays};
use crate::{Result, Transaction};

/// A poll's batch, and the row of its application.
#[derive(Clone, Debug)]
pub(super) struct DeliveryBatch {
    key: String,
    transaction: Transaction,
    found: Option<Row<LastBatch>>,
    /// Its messages, once they are known.
    rows: Option<BatchRows>,
    /// Marks the rows that this batch writes.
    pub(super) mark: u64,
}

impl DeliveryBatch {
    pub(super) fn look_up(store: &dyn Rows, transaction: &Transaction) -> Result<Self> {
        let Transaction { application, batch } = transaction;
        let key = application_key(application);
        let found = store.get(&key)?.map(|bytes| Row::<LastBatch>::decode(application, &bytes)).transpose()?;
        let mut hash = Xxh3::new();
        hash.update(&batch.to_le_bytes());
        hash.update(application.as_bytes());
        let mark = hash.digest().max(1);
        Ok(Self { key, transaction: transaction.clone(), found, rows: None, mark })
    }

    /// The batch with its messages, and the meaning of its number.
    pub(super) fn of(mut self, rows: BatchRows, how: Replays) -> Result<(Self, Meaning)> {
        self.rows = Some(rows);
        let meaning = self.meaning(how)?;
        Ok((self, meaning))
    }

    pub(super) fn meaning(&self, how: Replays) -> Result<Meaning> {
        let last = self.found.map(|row| {
            let LastBatch { batch, rows, outcome } = row.state;
            Last { batch, rows, outcome }
        });
        self.transaction.after(last, self.rows, how)
    }

    /// The mark of the streams in doubt that are handed out again, 0 for none: those that this
    /// batch left in doubt. The row of each of them tells whether the same messages came again.
    pub(super) fn reopens(&self, how: Replays) -> Result<u64> {
        let by_number = Self { rows: None, ..self.clone() };
        Ok(if by_number.meaning(how)?.reruns(how) { self.mark } else { 0 })
    }

    /// Records that the batch begins, or how it ended.
    pub(super) fn note(&self, outcome: Option<Ending>) -> (Exchange, Self) {
        let state = LastBatch { batch: self.transaction.batch, rows: self.rows, outcome };
        let row = Row::after(self.found.as_ref(), state, self.mark);
        let change = exchange(self.key.clone(), self.found.as_ref(), Some(&row));
        (change, Self { found: Some(row), ..self.clone() })
    }
}
