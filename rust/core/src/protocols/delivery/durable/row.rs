//! The rows of streams in the store.
//!
//! Keys are text: `i:` and the stream's name for a receiving side; `t:` and an application's name
//! for its last batch; `o:`, the length of the publisher's name in bytes, `:`, the publisher and
//! the subscriber for a sending side.
//!
//! | bytes of a value | content |
//! |---|---|
//! | 0-55 | the state, as `codec.rs` has it; for an application kind 3, its last batch (signed), and 1 once that has ended |
//! | 56-63 | generation: how often the row was written, so that a row that came back to an old value is still known |
//! | 64-71 | the transaction that wrote it, hashed; 0 for none |

use super::store::Exchange;
use crate::protocols::delivery::codec::{CodecError, ENCODED_LEN, Encoded};
use crate::{Error, Result};

/// Bytes of a row's value.
pub(super) const ROW_LEN: usize = ENCODED_LEN + 16;
pub(super) const RECEIVING: &str = "i:";
pub(super) const SENDING: &str = "o:";
const APPLICATION: &str = "t:";

/// A state, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row<S> {
    pub(super) state: S,
    pub(super) generation: u64,
    pub(super) transaction: u64,
}

impl<S: Encoded + Copy> Row<S> {
    /// The row that follows `row`, or the first one.
    pub(super) fn after(row: Option<&Self>, state: S, transaction: u64) -> Self {
        Self { state, generation: row.map_or(0, |row| row.generation) + 1, transaction }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ROW_LEN);
        bytes.extend_from_slice(&self.state.to_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.transaction.to_le_bytes());
        bytes
    }

    pub(super) fn decode(what: &str, bytes: &[u8]) -> Result<Self> {
        let wrong =
            |error: CodecError| Error::State(format!("{what}: {error}; a newer dochistory may have written it"));
        if bytes.len() != ROW_LEN {
            return Err(wrong(CodecError::Length(bytes.len())));
        }
        let (state, stamp) = bytes.split_at(ENCODED_LEN);
        let state = S::from_bytes(state).map_err(wrong)?;
        Ok(Self { state, generation: number(stamp), transaction: number(&stamp[8..]) })
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
}

/// The change of one row to `new`.
pub(super) fn exchange<S: Encoded + Copy>(key: String, old: Option<&Row<S>>, new: Option<&Row<S>>) -> Exchange {
    Exchange { key, expected: old.map(Row::encode), new: new.map(Row::encode) }
}

pub(super) fn receiving_key(stream: &str) -> String {
    format!("{RECEIVING}{stream}")
}

pub(super) fn application_key(application: &str) -> String {
    format!("{APPLICATION}{application}")
}

/// The prefix of all keys of a publisher's subscribers.
pub(super) fn publisher_prefix(publisher: &str) -> String {
    format!("{SENDING}{}:{publisher}", publisher.len())
}

pub(super) fn sending_key(publisher: &str, subscriber: &str) -> String {
    format!("{}{subscriber}", publisher_prefix(publisher))
}

/// Publisher and subscriber of a sending side's key.
pub(super) fn names_of(key: &str) -> Result<(String, String)> {
    let split = || {
        let (length, names) = key.strip_prefix(SENDING)?.split_once(':')?;
        names.split_at_checked(length.parse().ok()?)
    };
    let (publisher, subscriber) = split().ok_or_else(|| foreign(key))?;
    Ok((publisher.to_owned(), subscriber.to_owned()))
}

/// The stream of a receiving side's key.
pub(super) fn stream_of(key: &str) -> Result<String> {
    key.strip_prefix(RECEIVING).map(str::to_owned).ok_or_else(|| foreign(key))
}

fn foreign(key: &str) -> Error {
    Error::State(format!("the row {key:?} is no stream's; a newer dochistory may have written it"))
}
