//! The state of one stream's receiving side: the durable row, and the part that a crash may lose.

use super::held::Runs;

/// The durable part of a stream's receiving side; the first five are columns of the status table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverState {
    /// Everything up to this log offset is applied (L).
    pub log_received: u64,
    /// The epoch: how often this side went back and asked for a resend (rr).
    pub rereceive_count: u64,
    /// The last confirmation that was handed out (K); never above `log_received`.
    pub confirm_received: u64,
    /// How many messages were applied, each part counting as one.
    pub receive_count: u64,
    /// When the last message was applied, in microseconds since 1970 UTC; 0 is never.
    pub time_received: i64,
    /// Up to here a batch is being applied (A); equal to `log_received` when none is.
    pub applying_upto: u64,
}

impl ReceiverState {
    /// A stream of which everything up to `log_received` is already there.
    pub fn starting_at(log_received: u64) -> Self {
        Self { log_received, confirm_received: log_received, applying_upto: log_received, ..Self::default() }
    }

    /// The range of offsets (after the first, up to the second) that may or may not have been
    /// applied before a crash.
    pub fn in_doubt(&self) -> Option<(u64, u64)> {
        (self.applying_upto > self.log_received).then_some((self.log_received, self.applying_upto))
    }
}

/// The state that is not durable: after a crash a stream starts again with
/// [`Volatile::after_start`].
#[derive(Clone, Debug, Default)]
pub(super) struct Volatile {
    /// The next expected part of the transaction after L; equal to the number of buffered parts.
    pub(super) next: u64,
    /// Messages that cannot be applied yet.
    pub(super) held: Runs,
    /// Number of messages held by other processes, which decide the stream's polls for this one.
    pub(super) held_elsewhere: u64,
    /// Polls left before a resend is requested; none when nothing is missing.
    pub(super) patience: Option<u32>,
    /// A message came of a later epoch, which this side cannot join.
    pub(super) future: bool,
    /// A resend was requested and no message of its epoch came yet.
    pub(super) outstanding: bool,
    /// Polls in a row that brought only stale messages while a request was outstanding.
    pub(super) stale_polls: u32,
}

impl Volatile {
    /// After a start it is unknown whether the request for the present epoch was heard. Assuming
    /// that it was not costs at most one repeated request, which the sender ignores. Epoch 0 is
    /// never requested.
    pub(super) fn after_start(durable: &ReceiverState) -> Self {
        Self { outstanding: durable.rereceive_count > 0, ..Self::default() }
    }

    /// Whether the end of a poll concerns this stream even when nothing arrived.
    pub(super) fn needs_attention(&self, durable: &ReceiverState) -> bool {
        !self.held.is_empty() || self.future || durable.log_received > durable.confirm_received
    }
}
