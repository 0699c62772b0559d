//! The rules of exactly-once processing, as pure functions over facts: no file, no clock, no store.
//!
//! [`decide`] judges every row of a batch by the table of rules R0 to R16, and tells which rows it
//! leaves undecided. The caller asks the trigger's resolver about those, once. [`Decided::resolve`]
//! applies the answers by the table of steps S1 to S7.

mod columns;
mod decide;
mod decided;
mod facts;
mod outcome;
mod reason;
mod resolve;
mod trigger;
mod verdicts;

#[cfg(test)]
mod tests;

pub use crate::key::Copy;
pub use crate::types::HistoryState;
pub use crate::types::duration::{duration_text, parse_duration_us};
pub use columns::{Facts, decide, settle};
pub use decide::{Decision, DecisionTable, RowFacts, decide_row};
pub use decided::{Decided, Undecided};
pub use facts::{CountClass, KeyClass, count_class};
pub use outcome::{Acknowledge, Action, Outcome, Status};
pub use reason::{Reason, Step};
pub use resolve::Answer;
pub use trigger::{Expiry, InBatch, Kind, ProcessingMode, Settings, Trigger};
