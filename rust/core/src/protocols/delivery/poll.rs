//! The outcome of a poll, which has no effect until it is committed.

use std::collections::HashMap;
use std::sync::Arc;

use super::decision::{Decision, Reason, Status};
use super::state::{ReceiverState, Volatile};

/// The apply rank of a message that this poll does not apply.
pub const NOT_APPLIED: u32 = u32::MAX;

/// One outcome a message, in the order of the columns that came in.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Why; decision and status follow from it.
    pub reasons: Vec<Reason>,
    /// `prev`, which groups the parts of a transaction; 0 where the header cannot be used.
    pub transactions: Vec<u64>,
    /// The place in the order of application within the stream, released messages counted in, or
    /// [`NOT_APPLIED`].
    pub apply_ranks: Vec<u32>,
}

impl Rows {
    /// Number of messages.
    pub fn len(&self) -> usize {
        self.reasons.len()
    }

    /// What was decided about `row` when it arrived.
    pub fn decision(&self, row: usize) -> Decision {
        self.reasons[row].decision()
    }

    /// How `row` stands at the end of the poll.
    pub fn status(&self, row: usize) -> Status {
        self.reasons[row].status()
    }

    /// Whether `row` is held or buffered after the poll: to be handed out with a later one.
    pub fn is_kept(&self, row: usize) -> bool {
        match self.status(row) {
            Status::Held => true,
            Status::New => self.apply_rank(row).is_none(),
            // A message that waits until its range in doubt is settled.
            Status::InDoubt => self.reasons[row] == Reason::InDoubtRange,
            Status::Duplicate => false,
        }
    }

    /// Where `row` comes in the order of application.
    pub fn apply_rank(&self, row: usize) -> Option<u32> {
        Some(self.apply_ranks[row]).filter(|&rank| rank != NOT_APPLIED)
    }
}

/// A stream that had messages in this poll, or that waits for some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamOutcome {
    /// Its name.
    pub stream: Arc<str>,
    /// L once the poll is committed.
    pub log_received: u64,
    /// The epoch once the poll is committed.
    pub rereceive_count: u64,
    /// Send this confirmation after the commit.
    pub confirm: Option<u64>,
    /// Send this request after the commit: the epoch to resend under, and the offset to resend
    /// from.
    pub resend: Option<(u64, u64)>,
    /// Polls left before a resend is requested; none when nothing is missing.
    pub patience: Option<u32>,
    /// Messages held after the poll.
    pub held: u64,
    /// Parts buffered after the poll.
    pub buffered_parts: u64,
}

/// A message of an earlier poll, held or buffered until now, that this poll applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// Index into [`Poll::streams`].
    pub stream: u32,
    /// The message's `prev`.
    pub prev: u64,
    /// The message's `cur`.
    pub cur: u64,
    /// The message's part number.
    pub seq: u32,
    /// Its place in the order of application within the stream.
    pub apply_rank: u32,
}

/// A message of an earlier poll, held or buffered until now, that is dropped without being applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Index into [`Poll::streams`].
    pub stream: u32,
    /// The message's `prev`.
    pub prev: u64,
    /// The message's part number.
    pub seq: u32,
}

/// A stream whose durable state changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Index into [`Poll::streams`].
    pub stream: u32,
    /// The state to make durable before any message is applied: the old one, with `applying_upto`
    /// ahead.
    pub applying: ReceiverState,
    /// The state to make durable once the messages are applied. Its `confirm_received` is still the
    /// old one: a crash between this write and the confirmation makes the next poll send the
    /// confirmation.
    pub after: ReceiverState,
}

/// A stream's state as the commit will set it.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// Its number in the table; none for a stream that the commit adds.
    pub(super) known: Option<u32>,
    pub(super) durable: ReceiverState,
    pub(super) volatile: Volatile,
}

/// What [`receive`](super::receive) decided. Dropping it leaves the table as it was.
#[derive(Clone, Debug)]
pub struct Poll {
    /// One outcome a message.
    pub rows: Rows,
    /// One outcome a stream; nothing of it may be sent before the commit.
    pub streams: Vec<StreamOutcome>,
    /// Messages of earlier polls to be applied now.
    pub released: Vec<Released>,
    /// Messages of earlier polls that need not be kept any longer.
    pub dropped: Vec<Dropped>,
    /// The states to make durable.
    pub changes: Vec<Change>,
    /// One for each of `streams`.
    pub(super) pending: Vec<Pending>,
    /// The state of the table that this poll started from.
    pub(super) version: u64,
}

impl Poll {
    /// Where each known stream of this poll stands after it.
    pub(super) fn ends(&self) -> HashMap<u32, u64> {
        self.pending.iter().filter_map(|one| Some((one.known?, one.durable.log_received))).collect()
    }
}
