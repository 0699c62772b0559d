//! Facts that both directions share, and the pass over the rows of a batch.

use super::outcome::Rule;
use crate::error::{Error, Result};

/// The first copy of a row without a usable id.
pub const NO_ID: u32 = u32::MAX;

/// Quality of service of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Qos {
    /// BE: never checked.
    BestEffort,
    /// EO: checked.
    ExactlyOnce,
    /// EOIO: checked, and in order within its queue.
    InOrder,
}

/// What a channel does with an id that is pending: somebody began to send it, and nobody knows
/// whether it arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Policy {
    /// Raise, and leave the message unacknowledged.
    #[default]
    Error,
    /// An administrator has seen that it did not arrive: send.
    Process,
    /// An administrator has seen that it arrived: treat as sent.
    Duplicate,
}

/// The policy of the channel, or one a row where single ids were decided.
#[derive(Clone, Copy, Debug)]
pub enum Policies<'a> {
    /// The channel's.
    All(Policy),
    /// One a row.
    Rows(&'a [Policy]),
}

impl Policies<'_> {
    #[inline]
    pub(super) fn get(&self, row: usize) -> Policy {
        match self {
            Self::All(policy) => *policy,
            Self::Rows(rows) => rows[row],
        }
    }
}

/// What came of a row of this batch that was to be processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Attempt {
    /// Not tried yet, or done.
    #[default]
    Open,
    /// It certainly was not delivered (receiver), or its unit of work was rolled back (sender).
    Failed,
    /// Nobody knows whether it was delivered.
    Unknown,
}

/// What is known of each row whatever its direction.
#[derive(Clone, Copy, Debug)]
pub struct MapperBatch<'a> {
    /// Quality of service.
    pub qos: &'a [Qos],
    /// The first row of the batch with the same id, which is the row itself where it is the first;
    /// [`NO_ID`] without one.
    pub first_copies: &'a [u32],
    /// The queue of each [`Qos::InOrder`] row, as a number below `queue_count`; other rows' values
    /// are not looked at.
    pub queues: &'a [u32],
    /// Number of queues.
    pub queue_count: usize,
    /// What came of the rows so far; none before the first is tried.
    pub attempts: Option<&'a [Attempt]>,
}

/// How a row stands because of the rows before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// An earlier row of its queue failed, is in doubt or waits.
    pub(super) queue_stopped: bool,
    /// An earlier row of the batch has the same id and is processed.
    pub(super) id_taken: bool,
}

impl MapperBatch<'_> {
    /// Equal lengths, queues that exist, and first copies that do not come later.
    pub(super) fn check(&self, lengths: &[usize]) -> Result<()> {
        let rows = self.qos.len();
        let attempts = self.attempts.map_or(rows, <[Attempt]>::len);
        let all = [self.first_copies.len(), self.queues.len(), attempts];
        if let Some(other) = all.iter().chain(lengths).find(|&&length| length != rows) {
            return Err(Error::Schema(format!("columns of {rows} and of {other} rows in one batch")));
        }
        for row in 0..rows {
            if self.qos[row] == Qos::InOrder && self.queues[row] as usize >= self.queue_count {
                return Err(Error::Schema(format!("row {row} is in order, but its queue is not among the queues")));
            }
            if self.first_copies[row] != NO_ID && self.first_copies[row] as usize > row {
                return Err(Error::Schema(format!("row {row} names a later row as its first copy")));
            }
        }
        Ok(())
    }

    /// Decides row by row; `after` says what an attempt makes of a rule. A row that was not to be
    /// processed before the first attempt does not take the place of one that failed or waits: its
    /// caller was told otherwise. It is `held`.
    pub(super) fn decide(
        &self,
        held: Rule,
        decide: impl Fn(usize, Standing) -> Rule,
        after: impl Fn(Rule, Attempt) -> Rule,
    ) -> Vec<Rule> {
        let first = self.pass(&decide);
        let Some(attempts) = self.attempts else { return first };
        self.pass(|row, standing| match decide(row, standing) {
            rule if rule.is_processed() && !first[row].is_processed() => held,
            rule => after(rule, attempts[row]),
        })
    }

    /// One pass, which remembers the ids that are taken and the queues that have stopped.
    fn pass(&self, decide: impl Fn(usize, Standing) -> Rule) -> Vec<Rule> {
        let rows = self.qos.len();
        let mut taken = vec![false; rows];
        let mut stopped = vec![false; self.queue_count];
        let mut rules = Vec::with_capacity(rows);
        for row in 0..rows {
            let in_order = self.qos[row] == Qos::InOrder;
            let first = self.first_copies[row] as usize;
            let standing = Standing {
                queue_stopped: in_order && stopped[self.queues[row] as usize],
                id_taken: taken.get(first).copied().unwrap_or(false),
            };
            let rule = decide(row, standing);
            if rule.takes_id() {
                taken[first] = true;
            }
            if in_order && rule.stops_queue() {
                stopped[self.queues[row] as usize] = true;
            }
            rules.push(rule);
        }
        rules
    }
}
