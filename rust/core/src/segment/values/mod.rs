//! Files of entries with values: immutable, sorted by key (docs/format.md, "Values").

pub(crate) mod columns;
pub(crate) mod format;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod segment;
pub(crate) mod writer;
