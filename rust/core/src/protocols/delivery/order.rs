//! The messages that a poll applies, in the order of application.

use std::collections::HashMap;

use super::columns::{HeaderColumns, NO_STREAM};
use super::poll::{NOT_APPLIED, Poll};

/// Where a message that is applied came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A row of the poll.
    Row(u32),
    /// An index into [`Poll::released`]: it came in an earlier poll.
    Released(u32),
}

/// A message that is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InOrder {
    /// Where it came from.
    pub place: Place,
    /// Index into [`Poll::streams`].
    pub stream: u32,
    /// `prev`, which groups the parts of a transaction.
    pub transaction: u64,
    /// The end of what it belongs to: its own `cur`, or that of the last part of its transaction.
    pub commit: u64,
    /// Its place within the stream.
    pub apply_rank: u32,
}

impl Poll {
    /// All messages that are applied, stream by stream in the order of [`Poll::streams`], each in
    /// the order of application. `columns` are those that the poll was decided from.
    pub fn in_order(&self, columns: &HeaderColumns<'_>) -> Vec<InOrder> {
        let of_name = self.streams_of(columns.names);
        let applied = |row: usize| self.rows.apply_ranks[row] != NOT_APPLIED;
        let stream_of = |row: usize| of_name[columns.streams[row] as usize];
        let mut starts = vec![0_usize; self.streams.len() + 1];
        for row in (0..self.rows.len()).filter(|&row| applied(row)) {
            starts[stream_of(row) as usize + 1] += 1;
        }
        for one in &self.released {
            starts[one.stream as usize + 1] += 1;
        }
        for stream in 1..starts.len() {
            starts[stream] += starts[stream - 1];
        }
        let nobody = InOrder { place: Place::Row(0), stream: 0, transaction: 0, commit: 0, apply_rank: 0 };
        let mut order = vec![nobody; starts[self.streams.len()]];
        for row in (0..self.rows.len()).filter(|&row| applied(row)) {
            let (stream, apply_rank) = (stream_of(row), self.rows.apply_ranks[row]);
            let commit = columns.headers.get(row).map_or(0, |header| header.cur);
            let (place, transaction) = (Place::Row(row as u32), self.rows.transactions[row]);
            order[starts[stream as usize] + apply_rank as usize] =
                InOrder { place, stream, transaction, commit, apply_rank };
        }
        for (at, one) in self.released.iter().enumerate() {
            let (place, stream, apply_rank) = (Place::Released(at as u32), one.stream, one.apply_rank);
            order[starts[stream as usize] + apply_rank as usize] =
                InOrder { place, stream, transaction: one.prev, commit: one.cur, apply_rank };
        }
        // A part that is not the last ends where it begins; the last comes behind it.
        for at in (1..order.len()).rev() {
            if order[at - 1].commit == order[at - 1].transaction {
                order[at - 1].commit = order[at].commit;
            }
        }
        order
    }

    /// Index into [`Poll::streams`] of each name; [`NO_STREAM`] for names without an outcome.
    fn streams_of(&self, names: &[&str]) -> Vec<u32> {
        let numbers: HashMap<&str, u32> =
            self.streams.iter().enumerate().map(|(at, one)| (&*one.stream, at as u32)).collect();
        names.iter().map(|name| numbers.get(name).copied().unwrap_or(NO_STREAM)).collect()
    }
}
