//! Ways to make tests meet what chance never brings: a simulated disk that loses power, hostile
//! bytes, counts of work.

pub mod fuzzing;
#[cfg(feature = "testing")]
pub mod measuring;
pub mod simulated;
