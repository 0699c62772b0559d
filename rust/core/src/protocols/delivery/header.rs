//! The message header `(resend_count-prev-cur-seq)`.

use std::fmt;

/// Where a message stands in its stream.
///
/// `prev < cur` and `seq = 0` is a whole message; `prev = cur` is part `seq` of one transaction,
/// not its last; `prev < cur` and `seq > 0` is the last part. All parts share `prev`. Identity is
/// (`resend_count`, `prev`, `seq`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartHeader {
    /// How often the receiver had lost messages when this one was sent: the epoch.
    pub resend_count: u64,
    /// Log offset of the last COMMIT in the previous message.
    pub prev: u64,
    /// Log offset of the last COMMIT in this message.
    pub cur: u64,
    /// Number of the part within a transaction that spans messages.
    pub seq: u32,
}

/// Why a header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    /// There is no header, or the message was found damaged.
    #[error("there is no header")]
    Missing,
    /// Not `(digits-digits-digits-digits)`, or more than 20 digits.
    #[error("the header is not (resend_count-prev-cur-seq)")]
    Malformed,
    /// A number does not fit: 64 bits for counts and offsets, 32 bits for the sequence number.
    #[error("a number in the header is too large")]
    Overflow,
    /// The epoch is above [`MAX_EPOCH`].
    #[error("the header's epoch is too large")]
    Epoch,
    /// `cur < prev`.
    #[error("the header's last commit lies before the previous message's")]
    Backwards,
}

/// The highest epoch of a header. Each epoch stands for a resend request, so a higher number is
/// damage. A stream that joined it could never go back again.
pub const MAX_EPOCH: u64 = i32::MAX as u64;
/// The highest epoch that a stream joins: it can go back once more from there, and the messages of
/// the last epoch then come because this side asked for them.
pub const MAX_JOINED_EPOCH: u64 = MAX_EPOCH - 1;
/// An unsigned 64-bit number has at most this many digits.
const MAX_DIGITS: usize = 20;
/// With this many digits nothing can overflow.
const SAFE_DIGITS: usize = 19;

impl PartHeader {
    /// Makes a header from its four numbers.
    #[inline]
    pub fn new(resend_count: u64, prev: u64, cur: u64, seq: u32) -> Result<Self, BadHeader> {
        if cur < prev {
            return Err(BadHeader::Backwards);
        }
        if resend_count > MAX_EPOCH {
            return Err(BadHeader::Epoch);
        }
        Ok(Self { resend_count, prev, cur, seq })
    }

    /// Reads the text form. Zero padding has no meaning: numbers are compared, never text.
    #[inline]
    pub fn parse(text: &[u8]) -> Result<Self, BadHeader> {
        let mut rest = text.strip_prefix(b"(").ok_or(BadHeader::Malformed)?;
        let resend_count = number(&mut rest, b'-')?;
        let prev = number(&mut rest, b'-')?;
        let cur = number(&mut rest, b'-')?;
        let seq = number(&mut rest, b')')?;
        if !rest.is_empty() {
            return Err(BadHeader::Malformed);
        }
        Self::new(resend_count, prev, cur, u32::try_from(seq).map_err(|_| BadHeader::Overflow)?)
    }

    /// Whether this is a part of a transaction, and not its last.
    pub fn is_open_part(&self) -> bool {
        self.prev == self.cur
    }
}

impl fmt::Display for PartHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}-{:010}-{:010}-{})", self.resend_count, self.prev, self.cur, self.seq)
    }
}

/// Takes one number and the mark behind it off the front of `rest`.
#[inline]
fn number(rest: &mut &[u8], mark: u8) -> Result<u64, BadHeader> {
    let text = *rest;
    let mut value = 0_u64;
    for (digits, &byte) in text.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            if byte != mark || digits == 0 || digits > MAX_DIGITS {
                return Err(BadHeader::Malformed);
            }
            *rest = &text[digits + 1..];
            return if digits <= SAFE_DIGITS { Ok(value) } else { checked(&text[..digits]) };
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    Err(BadHeader::Malformed)
}

/// The slow path for 20 digits, which may not fit.
#[cold]
fn checked(digits: &[u8]) -> Result<u64, BadHeader> {
    digits.iter().try_fold(0_u64, |value, &byte| {
        value.checked_mul(10).and_then(|v| v.checked_add(u64::from(byte - b'0'))).ok_or(BadHeader::Overflow)
    })
}
