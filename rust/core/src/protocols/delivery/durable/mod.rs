//! Streams whose durable rows a store keeps: the receiving side ([`Inbox`]), the sending side
//! ([`Outbox`]), and what both look like in a table ([`status`]).

mod commit;
mod gather;
mod inbox;
pub(crate) mod mend;
mod outbox;
mod portion;
mod reading;
mod row;
mod share;
mod status;
mod store;
mod transaction;
mod values;

pub use inbox::{Inbox, Opening, Receiving, Settings, Taken};
pub use outbox::{Built, Outbox, Transactions};
pub use portion::{Portion, decide_portion};
pub use status::{Status as StreamStatus, status};
pub use store::{Exchange, KeyAndValue, Overtaken, Rows};
