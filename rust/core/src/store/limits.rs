//! Limits of the log that tests lower, so that small histories meet every path.

use std::sync::atomic::{AtomicUsize, Ordering};

/// UUIDs of a log from which it is frozen, or what weighs as much. Two logs' entries are in memory
/// at most, until the first ones are in segments.
const MOST_UUIDS: usize = if cfg!(feature = "small") { 150 } else { 256 << 10 };
static MOST_IN_MEMTABLE: AtomicUsize = AtomicUsize::new(MOST_UUIDS);

/// Keys of a claim from which some of them are named by their places.
static FEWEST_PLACES: AtomicUsize = AtomicUsize::new(64);

/// UUIDs of a log from which it is frozen, or what weighs as much.
pub(super) fn most_in_memtable() -> usize {
    MOST_IN_MEMTABLE.load(Ordering::Relaxed)
}

/// The same from which its writer puts them into segments itself, with those of the frozen
/// log before it.
pub(super) fn too_many_in_memtable() -> usize {
    2 * most_in_memtable()
}

/// Keys of a claim from which some of them are named by their places.
pub(super) fn fewest_places() -> usize {
    FEWEST_PLACES.load(Ordering::Relaxed)
}

/// Freeze logs of a few entries, and name keys by their places in any claim.
#[cfg(feature = "testing")]
pub(crate) fn lower() {
    MOST_IN_MEMTABLE.store(12, Ordering::Relaxed);
    FEWEST_PLACES.store(2, Ordering::Relaxed);
}
