//! The union filter: where a handle looks up many rows beside what was written since the global
//! filter was built, one filter in memory covers both.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::KeySpace;
use super::view::View;
use super::young::each_keys;
use crate::Result;
use crate::memtable::UnionFilter;
use crate::segment::Segment;
use crate::segment::global::GlobalFilter;

/// Bytes of a global filter for each row that pays for copying them.
const BYTES_A_ROW: usize = 32;
/// Keys for each row that pays for putting them in.
const KEYS_A_ROW: usize = 2;

/// What a union is built over, outside the lock.
struct Parts {
    global_filter: Arc<GlobalFilter>,
    segments: Vec<Arc<Segment>>,
}

impl View {
    /// The global filter, where there is one, and the young filter is asked beside it.
    fn single_global(&self) -> Option<&Arc<GlobalFilter>> {
        let [covered] = &self.covered[..] else { return None };
        self.young.is_active().then_some(&covered.global_filter)
    }

    /// The filter over all that is neither asked by itself nor gone.
    pub(super) fn union_filter(&self) -> Option<&UnionFilter> {
        self.young.union_with(self.single_global()?.sum())
    }

    /// Let go of a union that is out of use.
    pub(super) fn keep_union(&mut self) {
        let global_filter = self.single_global().map(|global_filter| global_filter.sum());
        self.young.keep_union_with(global_filter);
    }

    /// Rows that pay for building the union; none where there is one, or can be none.
    fn rows_to_unite(&self) -> Option<usize> {
        let bytes = self.single_global()?.filter_bytes();
        let can_be = bytes <= UnionFilter::MOST_BYTES && self.union_filter().is_none();
        can_be.then(|| bytes as usize / BYTES_A_ROW + self.young.len() / KEYS_A_ROW)
    }

    fn parts(&self) -> Option<Parts> {
        Some(Parts { global_filter: self.single_global()?.clone(), segments: self.joined.clone() })
    }

    /// Take a union that holds the keys of these segments, if the young filter still covers no
    /// others.
    fn take_union(&mut self, mut union: UnionFilter, held: &BTreeSet<u64>) {
        if !self.joined.iter().all(|segment| held.contains(&segment.header().id)) {
            return;
        }
        if let Some(frozen) = &self.frozen {
            union.insert(frozen.memtable.keys_from(0));
        }
        union.insert(self.memtable.keys_from(0));
        self.young.unite(union);
        self.keep_union();
    }
}

impl Parts {
    fn united(&self) -> Result<Option<UnionFilter>> {
        let Some(mut union) = UnionFilter::over(&self.global_filter)? else { return Ok(None) };
        for segment in &self.segments {
            each_keys(segment, |keys| union.insert(keys.iter().copied()))?;
        }
        Ok(Some(union))
    }
}

impl KeySpace {
    /// Before `rows` are looked up: build the union once that pays.
    pub(super) fn unite_if_due(&self, rows: usize) {
        let rows = self.asked.rows.load(Ordering::Relaxed) + rows as u64;
        let wanted = self.present().as_ref().and_then(View::rows_to_unite);
        let asked = rows.saturating_sub(self.asked.rows_at_union.load(Ordering::Relaxed));
        if wanted.is_some_and(|wanted| asked < wanted as u64) {
            return;
        }
        self.asked.rows_at_union.store(rows, Ordering::Relaxed);
        let parts = self.present().as_ref().filter(|_| wanted.is_some()).and_then(View::parts);
        let Some(parts) = parts else { return };
        // What cannot be read is asked by itself, and tells then what is wrong.
        if let Ok(Some(union)) = parts.united() {
            let held = parts.segments.iter().map(|segment| segment.header().id).collect();
            self.change_present(|view| view.take_union(union, &held));
        }
    }
}
