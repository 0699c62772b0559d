//! Settings of the receiving side.

/// How a receiver waits for missing messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Polls to wait for a missing message before a resend is requested.
    pub patience: u32,
    /// The receiver polls once and stops: a missing message is requested at once.
    pub batch_mode: bool,
    /// A new message of the stream starts the wait again, even if it is not the missing one.
    pub reset_patience: bool,
    /// A stream without a given `log_received` starts at the lowest `prev` that arrives with
    /// sequence number 0.
    pub first_contact: bool,
    /// Maximum number of messages of one stream that are held after a poll, at least 1; the highest
    /// `prev` is dropped first.
    pub held_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { patience: 1, batch_mode: false, reset_patience: true, first_contact: false, held_limit: 1 << 20 }
    }
}
