//! What a batch says about itself, before any history is asked.

mod copies;

pub use copies::{Candidates, Copy, NO_TAG, SameText, Seen, Suspected, Tag, alike, copies, copies_among, write_tags};
