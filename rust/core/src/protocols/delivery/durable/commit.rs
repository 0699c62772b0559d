//! The end of a poll that was handed out.

use std::collections::HashMap;

use super::inbox::{Inbox, Inner, Taken};
use super::row::{Row, exchange, receiving_key};
use crate::protocols::delivery::columns::HeaderColumns;
use crate::protocols::delivery::poll::Poll;
use crate::types::Ending;
use crate::{Error, Result};

impl Inbox {
    /// All that the poll applies is applied: writes `log_received`, durable on return. From here on
    /// the confirmations and requests of the poll may be sent. An error leaves the poll as it was.
    pub fn commit(&self, taken: &mut Taken) -> Result<()> {
        let mut inner = self.lock();
        Self::check_open(&inner, taken)?;
        let mut changes = Vec::new();
        let mut rows = Vec::with_capacity(taken.rows.len());
        let mark = taken.batch.as_ref().map_or(0, |batch| batch.mark);
        for (row, change) in taken.rows.iter().zip(&taken.poll.changes) {
            let new = Row::after(row.as_ref(), change.after, mark);
            let stream = &taken.poll.streams[change.stream as usize].stream;
            changes.push(exchange(receiving_key(stream), row.as_ref(), Some(&new)));
            rows.push(new);
        }
        let batch = taken.batch.as_ref().map(|batch| batch.note(Some(Ending::Completed)));
        changes.extend(batch.as_ref().map(|(change, _)| change.clone()));
        if !changes.is_empty() {
            self.exchange(&changes)?;
        }
        taken.batch = batch.map(|(_, noted)| noted);
        for (&row, change) in rows.iter().zip(&taken.poll.changes) {
            match taken.poll.pending[change.stream as usize].known {
                Some(id) => inner.rows[id as usize] = row,
                // The table adds new streams in this order.
                None => inner.rows.push(row),
            }
        }
        inner.open_poll = None;
        inner.table.accept(&taken.poll)
    }

    /// [`commit`](Self::commit) by a caller that says how far it has applied the streams that it
    /// names. A stream that was not applied whole goes back: see
    /// [`Poll::cut`](crate::protocols::delivery::Poll::cut).
    pub fn commit_upto(
        &self,
        taken: &mut Taken,
        columns: &HeaderColumns<'_>,
        applied_upto: &HashMap<String, u64>,
    ) -> Result<()> {
        if applied_upto.is_empty() {
            return self.commit(taken);
        }
        let Poll { streams, changes, pending, .. } = &taken.poll;
        let whole = (streams.clone(), changes.clone(), pending.clone());
        let done = taken.poll.cut(columns, applied_upto).and_then(|()| self.commit(taken));
        if done.is_err() {
            (taken.poll.streams, taken.poll.changes, taken.poll.pending) = whole;
        }
        done
    }

    /// Nothing of the poll was applied, certainly: the inbox is as if the poll had never been
    /// handed out. Its messages have to be received again.
    pub fn abort(&self, taken: &mut Taken) -> Result<()> {
        let mut inner = self.lock();
        Self::check_open(&inner, taken)?;
        if !taken.is_recorded {
            return Ok(());
        }
        let mut changes = Vec::new();
        let mut restored = Vec::new();
        for (row, change) in taken.rows.iter().zip(&taken.poll.changes) {
            let known = taken.poll.pending[change.stream as usize].known;
            let before = known.map(|id| inner.rows[id as usize]);
            if *row == before {
                continue;
            }
            let key = receiving_key(&taken.poll.streams[change.stream as usize].stream);
            // The table's state is the one before the poll, with what is known to be confirmed.
            let new = known.map(|id| Row::after(row.as_ref(), *inner.table.stream(id).1, 0));
            changes.push(exchange(key, row.as_ref(), new.as_ref()));
            restored.extend(known.zip(new));
        }
        let batch = taken.batch.as_ref().map(|batch| batch.note(Some(Ending::Released)));
        changes.extend(batch.as_ref().map(|(change, _)| change.clone()));
        self.exchange(&changes)?;
        taken.batch = batch.map(|(_, noted)| noted);
        for (id, row) in restored {
            inner.rows[id as usize] = row;
        }
        inner.open_poll = None;
        Ok(())
    }

    fn check_open(inner: &Inner, taken: &Taken) -> Result<()> {
        if taken.is_recorded && inner.open_poll != Some(taken.ticket) {
            return Err(Error::State("this poll has ended, or is another delivery's".into()));
        }
        inner.table.check(&taken.poll)
    }
}
