//! The message id mapper's rules: what is done with a message of an asynchronous adapter, from what
//! the map knows of it.
//!
//! Pure functions over columns of facts. [`decide_receiver`] is the sending-out direction (rules M1
//! to M8), [`decide_sender`] the taking-in direction (N1 to N5). The facts hold what has already
//! happened to the rows of the batch, so after a failure the same function, asked again, says which
//! rows must now wait or may now go.

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
