//! The sending side of a stream: its state, and how messages, confirmations and resend requests
//! change it.
//!
//! Every function returns the new state. The state must be durable before the message leaves: a
//! message that leaves first can be confirmed before its sender remembers it, and that is an alarm.
//! The split of a transaction into parts must depend on the transaction only, because parts that
//! were sent before a crash carry the same identity as the same parts after it.

use super::header::{MAX_EPOCH, PartHeader};
use crate::Error;

/// The durable sending state, columns of the status table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderState {
    /// Offset of the last COMMIT that was sent.
    pub log_sent: u64,
    /// Offset of the last COMMIT that is ready to send.
    pub log_send: u64,
    /// Offset that the receiver has confirmed; never above `log_sent`.
    pub confirm_sent: u64,
    /// How many messages were sent, each part counting as one.
    pub send_count: u64,
    /// The epoch: how often the receiver asked for a resend.
    pub resend_count: u64,
    /// When the last message was sent, in microseconds since 1970 UTC; 0 is never.
    pub time_sent: i64,
}

/// What a confirmation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// It moved `confirm_sent`.
    Advanced(SenderState),
    /// It was known.
    Ignored,
}

/// What a resend request did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// Drop what was built and not sent, and send again from `log_sent`.
    Restart(SenderState),
    /// It was heard before.
    Ignored,
}

/// Why the sending side cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no such commit to send.
    #[error("a message up to {cur} was asked for, but what is to be sent lies after {log_sent} and up to {log_send}")]
    NothingToSend {
        /// The requested end.
        cur: u64,
        /// The last sent offset.
        log_sent: u64,
        /// The last offset to send.
        log_send: u64,
    },
    /// The receiver confirms an offset that this side never sent.
    #[error(
        "the receiver has everything up to {offset}, but only {log_sent} was sent: this side was restored to an older state; extract the subscription again"
    )]
    Restored {
        /// What the receiver says it has.
        offset: u64,
        /// What this side remembers.
        log_sent: u64,
    },
    /// A resend request that no receiver makes.
    #[error(
        "a resend under epoch {epoch} was asked for, and the highest is 2147483647: the request is damaged; nothing is changed"
    )]
    Epoch {
        /// The epoch that was asked for.
        epoch: u64,
    },
    /// The requested offset is no longer in the log.
    #[error("a resend from {from} was asked for, but the log begins at {log_start}: extract the subscription again")]
    Truncated {
        /// Where the resend has to start.
        from: u64,
        /// Where the log starts.
        log_start: u64,
    },
}

impl SenderState {
    /// A stream whose receiver has everything up to `offset`.
    pub fn starting_at(offset: u64) -> Self {
        Self { log_sent: offset, log_send: offset, confirm_sent: offset, ..Self::default() }
    }

    /// There are commits up to `offset` to send.
    #[must_use]
    pub fn offer(self, offset: u64) -> Self {
        Self { log_send: self.log_send.max(offset), ..self }
    }

    /// Whether there is something to send.
    pub fn has_to_send(&self) -> bool {
        self.log_send > self.log_sent
    }

    /// The message that ends with the commit at `cur`: a whole one with `seq` 0, else the last
    /// part.
    pub fn message(self, cur: u64, seq: u32, now: i64) -> Result<(PartHeader, Self), SendError> {
        if cur <= self.log_sent || cur > self.log_send {
            return Err(SendError::NothingToSend { cur, log_sent: self.log_sent, log_send: self.log_send });
        }
        let header = PartHeader { resend_count: self.resend_count, prev: self.log_sent, cur, seq };
        Ok((header, Self { log_sent: cur, send_count: self.send_count + 1, time_sent: now, ..self }))
    }

    /// Part `seq`, not the last, of the transaction after `log_sent`, which only the last part
    /// moves.
    pub fn part(self, seq: u32, now: i64) -> Result<(PartHeader, Self), SendError> {
        if !self.has_to_send() {
            return Err(SendError::NothingToSend {
                cur: self.log_sent,
                log_sent: self.log_sent,
                log_send: self.log_send,
            });
        }
        let header = PartHeader { resend_count: self.resend_count, prev: self.log_sent, cur: self.log_sent, seq };
        Ok((header, Self { send_count: self.send_count + 1, time_sent: now, ..self }))
    }

    /// The receiver says that it has everything up to `offset`.
    pub fn confirm(self, offset: u64) -> Result<Confirmation, SendError> {
        if offset > self.log_sent {
            return Err(SendError::Restored { offset, log_sent: self.log_sent });
        }
        if offset <= self.confirm_sent {
            return Ok(Confirmation::Ignored);
        }
        Ok(Confirmation::Advanced(Self { confirm_sent: offset, ..self }))
    }

    /// The receiver asks for everything after `from` under `epoch`; `log_start` is the oldest
    /// offset of the log.
    pub fn resend(self, epoch: u64, from: u64, log_start: u64) -> Result<Resend, SendError> {
        if epoch <= self.resend_count {
            return Ok(Resend::Ignored);
        }
        if epoch > MAX_EPOCH {
            return Err(SendError::Epoch { epoch });
        }
        if from > self.log_sent {
            return Err(SendError::Restored { offset: from, log_sent: self.log_sent });
        }
        if from < log_start {
            return Err(SendError::Truncated { from, log_start });
        }
        let offset = self.confirm_sent.max(from);
        Ok(Resend::Restart(Self { resend_count: epoch, confirm_sent: offset, log_sent: offset, ..self }))
    }
}

/// Up to here the log may be truncated: every subscriber has it. None without subscribers.
pub fn truncation_point<'a>(subscribers: impl IntoIterator<Item = &'a SenderState>) -> Option<u64> {
    subscribers.into_iter().map(|subscriber| subscriber.confirm_sent).min()
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NothingToSend { .. } | SendError::Epoch { .. } => Self::State(error.to_string()),
            SendError::Restored { .. } => Self::Restored(error.to_string()),
            SendError::Truncated { .. } => Self::Truncated(error.to_string()),
        }
    }
}
