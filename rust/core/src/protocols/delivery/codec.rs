//! Durable states as bytes of fixed size, for a store to keep.
//!
//! | bytes | receiver | sender |
//! |---|---|---|
//! | 0 | version, 1 | version, 1 |
//! | 1 | kind, 1 | kind, 2 |
//! | 2-7 | zero | zero |
//! | 8-15 | `log_received` | `log_sent` |
//! | 16-23 | `rereceive_count` | `log_send` |
//! | 24-31 | `confirm_received` | `confirm_sent` |
//! | 32-39 | `receive_count` | `send_count` |
//! | 40-47 | `time_received`, signed | `resend_count` |
//! | 48-55 | `applying_upto` | `time_sent`, signed |
//!
//! The last batch of an application has kind 3: its number (signed); 0 begun, 1 committed, 2 rolled
//! back; the count of its messages and the two sums over them; 1 if these three are known.
//!
//! Numbers are little-endian. There is no checksum: the store's frames have one. A state that
//! breaks its own invariants is refused all the same.

use super::send::SenderState;
use super::state::ReceiverState;
use crate::types::Ending;
use crate::types::transaction::BatchRows;

/// Bytes of an encoded state, receiving or sending.
pub const ENCODED_LEN: usize = 56;

const VERSION: u8 = 1;
const RECEIVER: u8 = 1;
const SENDER: u8 = 2;
const BATCH: u8 = 3;
const HEAD_LEN: usize = 8;
const COMMITTED: u64 = 1;
const ROLLED_BACK: u64 = 2;

/// Why bytes are not a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Not [`ENCODED_LEN`] bytes.
    #[error("a stream state has {ENCODED_LEN} bytes, not {0}")]
    Length(usize),
    /// A version that this program does not know.
    #[error("stream state of version {0}; this program reads version 1")]
    Version(u8),
    /// A sender's state where a receiver's was asked for, or the other way round.
    #[error("stream state of kind {found} where kind {expected} belongs (1 is receiving, 2 is sending, 3 is a batch)")]
    Kind {
        /// What was asked for.
        expected: u8,
        /// What was found.
        found: u8,
    },
    /// Bytes that must be zero are not.
    #[error("a reserved byte of the stream state is not zero")]
    Reserved,
    /// Not `confirm <= log`, or a batch that is being applied ends before its beginning.
    #[error("the offsets of the stream state contradict each other")]
    Invariant,
}

impl ReceiverState {
    /// The state as bytes.
    pub fn encode(&self) -> [u8; ENCODED_LEN] {
        let numbers = [
            self.log_received,
            self.rereceive_count,
            self.confirm_received,
            self.receive_count,
            self.time_received as u64,
            self.applying_upto,
        ];
        encode(RECEIVER, numbers)
    }

    /// The state that [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let [log_received, rereceive_count, confirm_received, receive_count, time_received, applying_upto] =
            decode(RECEIVER, bytes)?;
        if confirm_received > log_received || applying_upto < log_received {
            return Err(CodecError::Invariant);
        }
        let time_received = time_received as i64;
        Ok(Self { log_received, rereceive_count, confirm_received, receive_count, time_received, applying_upto })
    }
}

impl SenderState {
    /// The state as bytes.
    pub fn encode(&self) -> [u8; ENCODED_LEN] {
        let numbers = [
            self.log_sent,
            self.log_send,
            self.confirm_sent,
            self.send_count,
            self.resend_count,
            self.time_sent as u64,
        ];
        encode(SENDER, numbers)
    }

    /// The state that [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let [log_sent, log_send, confirm_sent, send_count, resend_count, time_sent] = decode(SENDER, bytes)?;
        if confirm_sent > log_sent || log_sent > log_send {
            return Err(CodecError::Invariant);
        }
        Ok(Self { log_sent, log_send, confirm_sent, send_count, resend_count, time_sent: time_sent as i64 })
    }
}

/// A state that has a form of [`ENCODED_LEN`] bytes.
pub(super) trait Encoded: Sized {
    fn to_bytes(&self) -> [u8; ENCODED_LEN];
    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError>;
}

impl Encoded for ReceiverState {
    fn to_bytes(&self) -> [u8; ENCODED_LEN] {
        self.encode()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        Self::decode(bytes)
    }
}

impl Encoded for SenderState {
    fn to_bytes(&self) -> [u8; ENCODED_LEN] {
        self.encode()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        Self::decode(bytes)
    }
}

/// The last batch of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastBatch {
    pub(super) batch: i64,
    /// Its messages; none if an earlier version wrote it.
    pub(super) rows: Option<BatchRows>,
    /// How it ended, once it has.
    pub(super) outcome: Option<Ending>,
}

impl Encoded for LastBatch {
    fn to_bytes(&self) -> [u8; ENCODED_LEN] {
        let outcome = match self.outcome {
            None => 0,
            Some(Ending::Completed) => COMMITTED,
            Some(Ending::Released) => ROLLED_BACK,
        };
        let [count, first, second] = self.rows.unwrap_or_default().numbers();
        encode(BATCH, [self.batch as u64, outcome, count, first, second, u64::from(self.rows.is_some())])
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        let [batch, outcome, count, first, second, is_known] = decode(BATCH, bytes)?;
        let outcome = match outcome {
            COMMITTED => Some(Ending::Completed),
            ROLLED_BACK => Some(Ending::Released),
            _ => None,
        };
        let rows = (is_known == 1).then_some(BatchRows::of_numbers([count, first, second]));
        Ok(Self { batch: batch as i64, rows, outcome })
    }
}

fn encode(kind: u8, numbers: [u64; 6]) -> [u8; ENCODED_LEN] {
    let mut bytes = [0; ENCODED_LEN];
    bytes[0] = VERSION;
    bytes[1] = kind;
    for (place, number) in bytes[HEAD_LEN..].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn decode(kind: u8, bytes: &[u8]) -> Result<[u64; 6], CodecError> {
    let bytes: &[u8; ENCODED_LEN] = bytes.try_into().map_err(|_| CodecError::Length(bytes.len()))?;
    if bytes[0] != VERSION {
        return Err(CodecError::Version(bytes[0]));
    }
    if bytes[1] != kind {
        return Err(CodecError::Kind { expected: kind, found: bytes[1] });
    }
    if bytes[2..HEAD_LEN].iter().any(|&byte| byte != 0) {
        return Err(CodecError::Reserved);
    }
    let mut numbers = [0; 6];
    for (number, place) in numbers.iter_mut().zip(bytes[HEAD_LEN..].as_chunks::<8>().0) {
        *number = u64::from_le_bytes(*place);
    }
    Ok(numbers)
}
