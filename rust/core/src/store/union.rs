//! The union filter: where a handle looks up many rows beside what was written since the global
//! filter was built, one filter in memory covers both.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::KeySpace;
use super::view::{Covered, View};
use super::young::{LARGE, each_keys, entries_of};
use crate::Result;
use crate::memtable::UnionFilter;
use crate::segment::Segment;

/// Bytes of a global filter for each row that pays for copying them.
const BYTES_A_ROW: usize = 32;
/// Keys for each row that pays for putting them in.
const KEYS_A_ROW: usize = 2;
/// Rows of a look-up that pays for room for many more keys. It is more than `begin` looks up with a
/// union: that of a writer stays small.
const MANY: usize = 4 * LARGE;
/// Maximum size in bytes of a global filter that is copied for calls with fewer rows.
const MOST_FOR_FEW: u64 = 12 << 20;

/// What a union is built over, outside the lock.
struct Parts {
    covered: Covered,
    /// How often each block of the global filter is copied.
    times: u64,
    joined: Vec<Arc<Segment>>,
}

impl View {
    /// The global filter and its segments, if there is one.
    fn single_covered(&self) -> Option<&Covered> {
        let [covered] = &self.covered[..] else { return None };
        Some(covered)
    }

    /// The segments that a union has to hold: all that are not asked by themselves.
    fn united(&self) -> impl Iterator<Item = u64> {
        let covered = self.covered.iter().flat_map(|covered| covered.segments.iter().flatten());
        covered.chain(&self.joined).map(|segment| segment.header().id)
    }

    /// Let go of the union where it lacks keys, or is of no use. One that holds all keys of some
    /// segments holds those of what they were compacted to.
    pub(super) fn keep_union(&mut self) {
        let Some(mut union) = self.union.take() else { return };
        let mut headers: Vec<_> = self.segments.iter().map(|segment| segment.header()).collect();
        headers.sort_by_key(|header| header.id);
        for header in headers {
            let sources = &header.sources;
            if !sources.is_empty() && sources.iter().all(|source| union.holds(*source)) {
                union.hold(header.id);
            }
        }
        // Compaction may leave none for a while.
        let is_good = self.covered.len() <= 1 && !union.is_overfull() && self.united().all(|id| union.holds(id));
        self.union = is_good.then_some(union);
    }

    /// Put the keys of a segment that joined the young filter into the union, too.
    pub(super) fn add_to_union(&mut self, segment: &Arc<Segment>) {
        let Some(union) = &mut self.union else { return };
        if each_keys(segment, |keys| union.insert(keys.iter().copied())).is_ok() {
            union.hold(segment.header().id);
        }
    }

    /// How often a union that is to be built copies each block, and the rows that pay for it; none
    /// where there is a good one, or can be none. Room for many more keys is for calls with many
    /// rows.
    fn union_due(&self, is_large: bool) -> Option<(u64, usize)> {
        let covered = self.single_covered()?;
        let (entries, bytes) = (covered.global_filter.entries(), covered.global_filter.filter_bytes());
        let written: usize = self.joined.iter().map(|segment| entries_of(segment)).sum();
        let newer = (self.entries_in_memory() + written) as u64;
        let times = if is_large { UnionFilter::times(entries, bytes, newer) } else { 1 };
        let is_due = match &self.union {
            Some(union) => union.is_outgrown_by(entries, times, newer),
            None => self.young.is_active(),
        };
        let most = if is_large { UnionFilter::MOST_BYTES } else { MOST_FOR_FEW };
        if !is_due || bytes > most || UnionFilter::would_be_overfull(entries, times, newer) {
            return None;
        }
        let pays = (bytes * times) as usize / BYTES_A_ROW + newer as usize / KEYS_A_ROW;
        Some((times, pays))
    }

    fn parts(&self, times: u64) -> Option<Parts> {
        Some(Parts { covered: self.single_covered()?.clone(), times, joined: self.joined.clone() })
    }

    /// Take a union of segments, and put in what is in memory.
    fn take_union(&mut self, mut union: UnionFilter) {
        if let Some(frozen) = &self.frozen {
            union.insert(frozen.memtable.keys_from(0));
        }
        union.insert(self.memtable.keys_from(0));
        let before = self.union.replace(union);
        self.keep_union();
        if self.union.is_none() {
            // Others came meanwhile; the one before may hold them.
            self.union = before;
            self.keep_union();
        }
    }
}

impl Parts {
    fn united(&self) -> Result<Option<UnionFilter>> {
        let held = self.covered.segments.iter().flatten().map(|segment| segment.header().id).collect();
        let Some(mut union) = UnionFilter::over(&self.covered.global_filter, held, self.times)? else {
            return Ok(None);
        };
        for segment in &self.joined {
            each_keys(segment, |keys| union.insert(keys.iter().copied()))?;
            union.hold(segment.header().id);
        }
        Ok(Some(union))
    }
}

impl KeySpace {
    /// Before `rows` are looked up: build the union once that pays.
    pub(super) fn unite_if_due(&self, rows: usize) {
        let is_large = rows >= MANY;
        let rows = self.asked.rows.load(Ordering::Relaxed) + rows as u64;
        let due = self.present().as_ref().and_then(|view| view.union_due(is_large));
        let asked = rows.saturating_sub(self.asked.rows_at_union.load(Ordering::Relaxed));
        if due.as_ref().is_some_and(|(_, pays)| asked < *pays as u64) {
            return;
        }
        self.asked.rows_at_union.store(rows, Ordering::Relaxed);
        let parts = due.and_then(|(times, _)| self.present().as_ref()?.parts(times));
        // What cannot be read is asked by itself, and tells then what is wrong.
        if let Some(Ok(Some(union))) = parts.map(|parts| parts.united()) {
            self.change_present(|view| view.take_union(union));
        }
    }
}
