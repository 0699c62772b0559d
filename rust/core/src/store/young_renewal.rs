//! Building the young filter again beside the calls that use it, as part of maintenance: what it
//! holds of segments that are gone is forgotten, and it has room for the logs to come. Where it
//! only lacks segments, a copy of it takes them in. Copying holds writers up, for a few megabytes.

use std::sync::Arc;

use super::KeySpace;
use super::frozen::Frozen;
use super::limits::most_in_memtable;
use super::view::View;
use super::young::{add_keys, entries_of};
use crate::Result;
use crate::format::manifest::FrozenLog;
use crate::key::Key;
use crate::memtable::YoungFilter;
use crate::segment::Segment;

/// Keys of the log that are put in while writers wait.
const STEP: usize = 1 << 12;

/// A filter in the making.
pub(super) struct Renewal {
    young: YoungFilter,
    /// The segments to put in.
    pub(super) segments: Vec<Arc<Segment>>,
    /// Logs that it holds as a whole.
    frozen: Vec<FrozenLog>,
    /// A log of which it holds the first entries, and how many.
    log: (u64, usize),
}

/// What a renewal has to put in next.
enum Missing {
    Frozen(Arc<Frozen>),
    Keys(Vec<Key>),
}

impl Renewal {
    /// How many of a log's entries it holds.
    fn known(&self, log: u64) -> usize {
        if self.log.0 == log { self.log.1 } else { 0 }
    }

    fn holds(&self, frozen: &Frozen) -> bool {
        self.frozen.iter().any(|held| held.id == frozen.log.id)
    }

    fn add_frozen(&mut self, frozen: &Frozen) {
        self.young.insert(frozen.memtable.keys_from(self.known(frozen.log.id)));
        self.frozen.push(frozen.log);
    }
}

impl View {
    /// A filter to take the place of the young one, if that has little room, holds much that is
    /// gone, or lacks segments.
    pub(super) fn young_renewal(&self) -> Option<Renewal> {
        let (segments, live) = self.segments_that_fit();
        let is_stale = self.young.len() > 2 * live + most_in_memtable();
        let lacking: Vec<_> =
            segments.iter().filter(|segment| !self.young.covers(segment.header().id)).cloned().collect();
        let missing: usize = lacking.iter().map(|segment| entries_of(segment)).sum();
        let is_good = !is_stale && self.young.has_room(missing + most_in_memtable());
        if !self.young.is_active() || is_good && lacking.is_empty() {
            return None;
        }
        if is_good && self.lacks_young.is_none() {
            let frozen = self.frozen.iter().map(|frozen| frozen.log).collect();
            let log = (self.log.id, self.memtable.len());
            return Some(Renewal { young: self.young.copy(), segments: lacking, frozen, log });
        }
        // More room would be cold memory for each row that is looked up.
        let more = (live / 2).min(YoungFilter::MOST.saturating_sub(live)).max(4 * most_in_memtable());
        let young = YoungFilter::with_capacity(live + more);
        Some(Renewal { young, segments, frozen: Vec::new(), log: (self.log.id, 0) })
    }

    /// The segments for which the young filter has room beside the log, and the entries of all.
    fn segments_that_fit(&self) -> (Vec<Arc<Segment>>, usize) {
        let mut live = self.entries_in_memory();
        let mut segments = self.uncovered.clone();
        segments.retain(|segment| {
            let fits = live + entries_of(segment) <= YoungFilter::MOST;
            live += if fits { entries_of(segment) } else { 0 };
            fits
        });
        (segments, live)
    }

    /// What a renewal lacks of the entries in memory; none where that is little.
    fn missing_in(&self, renewal: &Renewal) -> Option<Missing> {
        if let Some(frozen) = self.frozen.as_ref().filter(|frozen| !renewal.holds(frozen)) {
            return Some(Missing::Frozen(frozen.clone()));
        }
        let keys = self.memtable.keys_from(renewal.known(self.log.id));
        if keys.len() < STEP { None } else { Some(Missing::Keys(keys.take(STEP).collect())) }
    }

    /// Take a new young filter, with the last keys in memory.
    fn take_young(&mut self, mut renewal: Renewal) {
        if let Some(frozen) = self.frozen.as_ref().filter(|frozen| !renewal.holds(frozen)) {
            renewal.add_frozen(frozen);
        }
        renewal.young.insert(self.memtable.keys_from(renewal.known(self.log.id)));
        // Segments of logs that it holds, which were written meanwhile.
        for segment in &self.uncovered {
            let id = segment.header().id;
            if !renewal.young.covers(id) && renewal.frozen.iter().any(|log| log.reserves(id)) {
                renewal.young.cover(id);
            }
        }
        (self.young, self.lacks_young) = (renewal.young, None);
        self.sort_uncovered();
    }
}

impl KeySpace {
    /// Build the young filter again where that pays. Writers wait only for the last keys.
    pub(crate) fn renew_young(&self) -> Result<()> {
        if self.is_pinned {
            return Ok(());
        }
        let planned = self.present().as_ref().and_then(View::young_renewal);
        let Some(mut renewal) = planned.filter(|renewal| renewal.young.is_active()) else { return Ok(()) };
        for segment in std::mem::take(&mut renewal.segments) {
            // One that cannot be read is asked by itself, and tells then what is wrong.
            if add_keys(&mut renewal.young, &segment).is_ok() {
                renewal.young.cover(segment.header().id);
            }
        }
        loop {
            let log = self.present().as_ref().map(|view| (view.log.id, view.missing_in(&renewal)));
            match log {
                Some((_, Some(Missing::Frozen(frozen)))) => renewal.add_frozen(&frozen),
                Some((log, Some(Missing::Keys(keys)))) => {
                    renewal.log = (log, renewal.known(log) + keys.len());
                    renewal.young.insert(keys.into_iter());
                }
                Some((_, None)) | None => break,
            }
        }
        self.change(|slot| {
            if let Some(view) = slot {
                view.take_young(renewal);
            }
            Ok(())
        })
    }
}
