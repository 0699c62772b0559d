//! Where a new segment is written.

use std::path::Path;

use crate::io::FileSystem;

/// Entries that are gone through at a time.
pub(super) const AT_A_TIME: usize = 1 << 13;

/// The place of a new segment.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) system: &'a dyn FileSystem,
    pub(crate) path: &'a Path,
    pub(crate) id: u64,
    pub(crate) history: [u8; 16],
    /// The segments that all its entries come from, if they come from segments.
    pub(crate) sources: &'a [u64],
}
