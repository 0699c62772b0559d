//! Tools for tests of rare events: a simulated disk that loses power, a simulated object store
//! whose answers get lost, hostile bytes, counts of work.

pub mod fuzzing;
#[cfg(feature = "testing")]
pub mod measuring;
pub mod objects;
pub mod simulated;
