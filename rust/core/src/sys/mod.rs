//! What the machine gives: threads, the clock, memory that a thread keeps, lines fetched ahead.

pub(crate) mod descriptors;
pub mod interrupt;
pub(crate) mod prefetch;
pub(crate) mod scratch;
pub(crate) mod threads;
pub mod time;
