//! The engine of dochistory: the rules, the document history store, and the columnar path that
//! joins both.
//!
//! The modules from the bottom up; each imports only from the modules before it (`tests/imports.rs`
//! checks that): `sys`, `io`, `format`, `columns`, `key`, `filter`, `segment`,
//! `wal`, `memtable`, `objects`, `store`, `history`, `protocols`.
#![deny(unsafe_code)]

pub mod columns;
pub mod error;
pub mod filter;
mod format;
pub mod history;
pub mod io;
pub mod key;
mod memtable;
pub mod objects;
pub mod protocols;
pub mod repair;
mod segment;
mod store;
mod sys;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod types;
mod wal;

pub use error::{Error, Result};
pub use store::{Finished, InProgress, Maintained, PartitionStatistics, Pin, Progress, Purge, Purged, SpaceStatistics};
pub use sys::{background, interrupt, time};
pub use types::transaction::{BatchRows, OnOtherRows, OnReplay, Replay, Replays, Transaction};
