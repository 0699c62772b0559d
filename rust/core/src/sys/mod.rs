//! Services of the machine: threads, those of the background, the clock, memory, buffers that a
//! thread keeps, prefetching, limits on open files, interrupts.

pub mod background;
pub(crate) mod buffer;
pub(crate) mod descriptors;
pub mod interrupt;
pub(crate) mod memory;
pub(crate) mod prefetch;
pub(crate) mod scratch;
pub(crate) mod threads;
pub mod time;
