//! Services of the machine: threads, the clock, buffers that a thread keeps, prefetching, limits on
//! open files, interrupts.

pub(crate) mod descriptors;
pub mod interrupt;
pub(crate) mod prefetch;
pub(crate) mod scratch;
pub(crate) mod threads;
pub mod time;
