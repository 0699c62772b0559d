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

/// The treatment of a pending id: sending began, and it is unknown whether the message arrived.
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

/// The policy of the channel, or one for each row where single ids were decided.
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

/// The result so far of a row that was to be processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Attempt {
    /// Not tried yet.
    #[default]
    Open,
    /// Delivered.
    Done,
    /// It certainly was not delivered (receiver), or its unit of work was rolled back (sender).
    Failed,
    /// It is unknown whether it was delivered.
    Unknown,
}

/// The facts of each row that both directions need.
#[derive(Clone, Copy, Debug)]
pub struct MapperBatch<'a> {
    /// Quality of service.
    pub qos: &'a [Qos],
    /// The first row of the batch with the same id, which may be the row itself; [`NO_ID`] without
    /// an id.
    pub first_copies: &'a [u32],
    /// The queue of each [`Qos::InOrder`] row, as a number below `queue_count`; values of other
    /// rows are ignored.
    pub queues: &'a [u32],
    /// Number of queues.
    pub queue_count: usize,
    /// The results of the rows so far; none before the first attempt.
    pub attempts: Option<&'a [Attempt]>,
}

/// How earlier rows affect a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// An earlier row of its queue failed, is in doubt or waits.
    pub(super) queue_stopped: bool,
    /// An earlier row of the batch has the same id and is processed.
    pub(super) id_taken: bool,
    /// An earlier row of the batch has the same id and waits.
    id_waits: bool,
}

impl MapperBatch<'_> {
    /// Checks for equal lengths, valid queues, and first copies that do not come later.
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

    /// Decides row by row; `after` tells how an attempt changes a rule. A row does not replace an
    /// earlier one of its id that waits, nor, if it was not to be processed before the first
    /// attempt, one that failed: its caller was told otherwise. It is `held`. What was tried is not
    /// undone by a failure before it in its queue, so it keeps the rule of its attempt.
    pub(super) fn decide(
        &self,
        held: Rule,
        decide: impl Fn(usize, Standing) -> Rule,
        after: impl Fn(Rule, Attempt) -> Rule,
    ) -> Vec<Rule> {
        let decide = |row: usize, standing: Standing| match decide(row, standing) {
            rule if standing.id_waits && rule.is_processed() && self.qos[row] != Qos::BestEffort => held,
            rule => rule,
        };
        let first = self.pass(decide);
        let Some(attempts) = self.attempts else { return first };
        self.pass(|row, standing| {
            if first[row].is_processed() && attempts[row] != Attempt::Open {
                return after(first[row], attempts[row]);
            }
            match decide(row, standing) {
                rule if rule.is_processed() && !first[row].is_processed() => held,
                rule => rule,
            }
        })
    }

    /// One pass, which tracks the ids that are taken or wait, and the queues that have stopped.
    fn pass(&self, decide: impl Fn(usize, Standing) -> Rule) -> Vec<Rule> {
        let rows = self.qos.len();
        let (mut taken, mut waiting) = (vec![false; rows], vec![false; rows]);
        let mut stopped = vec![false; self.queue_count];
        let mut rules = Vec::with_capacity(rows);
        for row in 0..rows {
            let in_order = self.qos[row] == Qos::InOrder;
            let first = self.first_copies[row] as usize;
            let standing = Standing {
                queue_stopped: in_order && stopped[self.queues[row] as usize],
                id_taken: taken.get(first).copied().unwrap_or(false),
                id_waits: waiting.get(first).copied().unwrap_or(false),
            };
            let rule = decide(row, standing);
            if rule.takes_id() {
                taken[first] = true;
            }
            if let Some(waits) = waiting.get_mut(first).filter(|_| rule.is_held()) {
                *waits = true;
            }
            if in_order && rule.stops_queue() {
                stopped[self.queues[row] as usize] = true;
            }
            rules.push(rule);
        }
        rules
    }
}
