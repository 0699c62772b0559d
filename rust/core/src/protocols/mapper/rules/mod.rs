//! The rules of the message id mapper: the treatment of a message of an asynchronous adapter, by
//! the map's entry for it.
//!
//! Pure functions over columns of facts. [`decide_receiver`] is the direction that sends messages
//! out (rules M1 to M8), [`decide_sender`] the direction that takes messages in (N1 to N5). The
//! facts include what has already happened to the rows of the batch. So after a failure the same
//! function, called again, tells which rows must now wait or may now go.

mod facts;
mod outcome;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use facts::{Attempt, MapperBatch, NO_ID, Policies, Policy, Qos};
pub use outcome::{Action, Audit, Change, MapperOutcome, Rule, Status};
pub use receiver::{ReceiverFacts, decide_receiver};
pub use sender::{SenderFacts, decide_sender};
