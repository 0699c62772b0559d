//! Guaranteed delivery for Python: columns of messages in, decisions and messages to apply out.

mod arrivals;
mod columns;
mod held_rows;
mod inbox;
mod offsets;
mod open;
mod outbox;
mod poll;
mod rows;
mod shards;
mod shared;
mod status;

pub(crate) use inbox::GuaranteedDelivery;
pub(crate) use outbox::DeliveryOutbox;
pub(crate) use poll::DeliveryPoll;
