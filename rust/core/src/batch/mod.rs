//! What a batch says about itself, before any history is asked.

mod copies;

pub use copies::{Copy, SameText, Sieve, copies, copies_among};
