//! Tools for tests of rare events: a simulated disk that loses power, hostile bytes, counts of
//! work.

pub mod fuzzing;
#[cfg(feature = "testing")]
pub mod measuring;
pub mod simulated;
