//! Streams whose durable rows a store keeps: the receiving side ([`Inbox`]), the sending side
//! ([`Outbox`]), and what both look like in a table ([`status`]).

mod commit;
mod inbox;
pub(crate) mod mend;
mod merge;
mod outbox;
mod plan;
mod reading;
mod row;
mod shard;
mod status;
mod store;
mod transaction;
mod values;

pub use inbox::{Inbox, Opening, Receiving, Settings, Taken};
pub use outbox::{Built, Outbox, Transactions};
pub use shard::{DecidedShard, decide_shard};
pub use status::{Status as StreamStatus, status};
pub use store::{Exchange, KeyAndValue, Overtaken, Rows};
