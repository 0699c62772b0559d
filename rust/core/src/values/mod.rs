//! Value spaces: durable maps from ids to values, the store's third kind of record beside
//! `processing` and `completed`.
//!
//! A space is a directory like a trigger's: the same turn, log, manifests, pages and pins. A change
//! of many entries is one frame, so it is there whole or not at all. Entries of the log are held in
//! memory, the newest of each id; segments are of two kinds. *Plain* ones hold entries of ids that
//! stood in no segment when they were written, so that no two plain ones share an id; they are
//! divided by when their entries may go, and a purge drops them whole. *Later* ones hold entries
//! (and removals) of ids that stood in segments before; they are asked first, newest first, until
//! upkeep folds them in.

mod columns;
pub(crate) mod format;
pub(crate) mod recent;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod segment;
mod space;
pub(crate) mod writer;

pub use crate::keyspace::values::{Snapshot, ValueCursor, ValueStatistics};
pub use columns::{Found, Id, Ids};
pub(crate) use columns::{id_text, text_of};
pub use run::{MOST_ID_BYTES, MOST_VALUE_BYTES};
pub use space::{Ending, Entries, Entry, EntryBatch, FOREVER, LastTransaction, Room, Values, Work};
