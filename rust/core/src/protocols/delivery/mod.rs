//! Guaranteed message delivery: every operation applied in the right order, none missed, none
//! applied twice.
//!
//! It is go-back-N with an epoch over transaction log offsets, so a stream (a publisher-subscriber
//! pair) keeps watermarks and no list of ids. Everything here is a pure function: columns of
//! headers and the streams' states go in, decisions and new states come out. A [`Poll`] is pending:
//! nothing counts until [`StreamTable::commit`].
//!
//! The order of one poll, for a caller that applies the messages to a store of its own:
//! 1. [`receive`] decides;
//! 2. make [`Change::applying`] of every change durable (not needed when step 3 and 4 are one
//!    transaction);
//! 3. apply the messages that have an apply rank, whole transactions, in the order of rank,
//!    released ones included;
//! 4. make [`Change::after`] of every change durable;
//! 5. [`StreamTable::commit`], and only then send the confirmations and resend requests of
//!    [`Poll::streams`].
//!
//! A header's digits carry no checksum. A caller that reads messages from a medium that can damage
//! them checks each message first, and hands in a null header for a damaged one.

mod arrivals;
mod codec;
mod columns;
mod cut;
mod decision;
mod durable;
mod end_of_poll;
mod group;
mod header;
mod held;
mod names;
mod options;
mod order;
mod poll;
mod receive;
mod row_sort;
mod send;
mod state;
mod stream;
mod table;
#[cfg(test)]
mod tests;

pub use codec::{CodecError, ENCODED_LEN};
pub use columns::{HeaderColumns, Headers, NO_STREAM};
pub use decision::{Decision, Reason, Status};
pub(crate) use durable::mend;
pub use durable::{
    Built, DecidedShard, Exchange, Inbox, KeyAndValue, Opening, Outbox, Overtaken, Receiving, Rows as StateRows,
    Settings, StreamStatus, Taken, Transactions, decide_shard, status,
};
pub use header::{BadHeader, MAX_EPOCH, MAX_JOINED_EPOCH, PartHeader};
pub use names::encode_names;
pub use options::Options;
pub use order::{InOrder, Place};
pub use poll::{Change, Dropped, NOT_APPLIED, Poll, Released, Rows, StreamOutcome};
pub use receive::{receive, receive_on};
pub use send::{Confirmation, Resend, SendError, SenderState, truncation_point};
pub use state::ReceiverState;
pub use table::StreamTable;
