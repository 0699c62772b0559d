//! Tools for tests of rare events: a simulated disk that loses power, a simulated object store
//! whose answers get lost, hostile bytes, counts of work.

pub mod fuzzing;
#[cfg(feature = "testing")]
pub mod measuring;
pub mod objects;
pub mod simulated;

/// Freeze logs of a few entries, and name keys by their places in any claim: for the whole process.
#[cfg(feature = "testing")]
pub fn lower_limits() {
    crate::store::limits::lower();
}
