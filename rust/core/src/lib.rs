//! The engine of dochistory: the rules, the document history store, and the columnar path that
//! joins both.
#![deny(unsafe_code)]

pub mod batch;
mod bytes;
pub mod columns;
pub mod delivery;
pub mod engine;
pub mod error;
pub mod filter;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
pub mod history;
pub mod interrupt;
pub mod io;
pub mod key;
mod keyspace;
mod log;
mod manifest;
pub mod mapper;
#[cfg(feature = "testing")]
pub mod measuring;
mod pages;
mod prefetch;
pub mod repair;
mod rollup;
pub mod rules;
mod scratch;
mod segment;
mod tail;
mod threads;
pub mod time;
mod transaction;
pub mod values;

pub use error::{Error, Result};
pub use keyspace::{
    Finished, InProgress, Maintained, PartitionStatistics, Pin, Progress, Purge, Purged, SpaceStatistics,
};
pub use transaction::{BatchRows, OnOtherRows, OnReplay, Replay, Replays, Transaction};
