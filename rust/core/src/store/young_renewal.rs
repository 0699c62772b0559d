//! Building the young filter again beside the calls that use it, as part of maintenance: what it
//! holds of segments that are gone is forgotten, and it has room for the logs to come. Where it
//! only lacks segments, a copy of it takes them in. To copy a few megabytes holds writers up.
//!
//! One filter is built at a time: maintenance and the thread that renews would have two.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

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
/// Full memtables that are likely to be written while a global filter is built, and before it.
const MEMTABLES_BESIDE: usize = 8;

/// What is to be done. No memory is asked for while the view is held.
pub(super) struct Plan {
    /// Keys for which there is to be room.
    capacity: usize,
    /// Whether the filter is good but for the segments that it lacks.
    pub(super) is_copy: bool,
    /// The segments to put in.
    pub(super) segments: Vec<Arc<Segment>>,
}

/// A filter in the making.
pub(super) struct Renewal {
    young: YoungFilter,
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
    /// How a filter is made that takes the place of the young one, if that has little room, holds
    /// much that is gone, or lacks segments. One for which there is room still can wait until a
    /// global filter, which is being built, leaves little for it.
    pub(super) fn young_renewal(&self, is_covering: bool) -> Option<Plan> {
        let (segments, live) = self.segments_that_fit();
        let is_stale = self.young.len() > 2 * live + most_in_memtable();
        let lacking: Vec<_> =
            segments.iter().filter(|segment| !self.young.covers(segment.header().id)).cloned().collect();
        let missing: usize = lacking.iter().map(|segment| entries_of(segment)).sum();
        let can_wait = is_covering && self.young.fits(missing + 2 * most_in_memtable());
        let is_good = !is_stale && self.young.has_room(missing + most_in_memtable()) || can_wait;
        if !self.young.is_active() || is_good && lacking.is_empty() {
            return None;
        }
        if is_good && self.lacks_young.is_none() {
            return Some(Plan { capacity: self.young.capacity(), is_copy: true, segments: lacking });
        }
        Some(Plan { capacity: self.room_for_young(live), is_copy: false, segments })
    }

    /// Begin with an empty filter; none where it cannot be a copy any more.
    fn renewal_with(&self, mut young: YoungFilter, is_copy: bool) -> Option<Renewal> {
        if !is_copy {
            return Some(Renewal { young, frozen: Vec::new(), log: (self.log.id, 0) });
        }
        let is_whole = self.lacks_young.is_none() && young.take_all_of(&self.young);
        let frozen = self.frozen.iter().map(|frozen| frozen.log).collect();
        is_whole.then(|| Renewal { young, frozen, log: (self.log.id, self.memtable.len()) })
    }

    /// Keys for which a new young filter has room: as many as there are likely to be until a global
    /// filter covers them, so that it is not built again before. More room would be cold memory for
    /// each row that is looked up.
    fn room_for_young(&self, live: usize) -> usize {
        let coming = MEMTABLES_BESIDE * most_in_memtable();
        let more = (live / 2).min(YoungFilter::MOST.saturating_sub(live)).max(coming / 2);
        let due = (self.due_uncovered() as usize + coming).min(YoungFilter::MOST);
        due.max(live + more)
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

    /// Take a new young filter, with the last keys in memory; answers the one before.
    fn take_young(&mut self, mut renewal: Renewal) -> YoungFilter {
        if let Some(frozen) = self.frozen.as_ref().filter(|frozen| !renewal.holds(frozen)) {
            renewal.add_frozen(frozen);
        }
        renewal.young.insert(self.memtable.keys_from(renewal.known(self.log.id)));
        // Also those that were written or compacted meanwhile, from which other segments come.
        for log in &renewal.frozen {
            log.reserved().for_each(|id| renewal.young.cover(id));
        }
        let before = std::mem::replace(&mut self.young, renewal.young);
        self.lacks_young = None;
        self.sort_uncovered();
        before
    }
}

impl KeySpace {
    /// Build the young filter again where that pays. Writers wait only for the last keys.
    pub(crate) fn renew_young(&self) -> Result<()> {
        if self.is_pinned {
            return Ok(());
        }
        let _alone = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        self.renewal().map_or(Ok(()), |renewal| self.take_renewal(renewal))
    }

    /// A filter to take the place of the young one, with nearly all that it is to hold; none where
    /// that does not pay.
    pub(super) fn renewal(&self) -> Option<Renewal> {
        let is_covering = self.is_covering.load(Ordering::Relaxed);
        let planned = self.present().as_ref().and_then(|view| view.young_renewal(is_covering));
        let Plan { capacity, is_copy, segments } = planned?;
        let young = Some(YoungFilter::with_capacity(capacity)).filter(YoungFilter::is_active)?;
        let mut renewal = self.present().as_ref()?.renewal_with(young, is_copy)?;
        for segment in segments {
            // One that cannot be read is asked by itself, and tells then what is wrong.
            if add_keys(&mut renewal.young, &segment).is_ok() {
                renewal.young.cover(segment.header().id);
            }
            self.read_into(&mut renewal);
        }
        self.read_into(&mut renewal);
        Some(renewal)
    }

    pub(super) fn take_renewal(&self, renewal: Renewal) -> Result<()> {
        // What it takes to give memory back is not done while the view is held.
        self.change(|slot| Ok(slot.as_mut().map(|view| view.take_young(renewal)))).map(drop)
    }

    /// Put in what has come into memory since.
    fn read_into(&self, renewal: &mut Renewal) {
        loop {
            let log = self.present().as_ref().map(|view| (view.log.id, view.missing_in(renewal)));
            match log {
                Some((_, Some(Missing::Frozen(frozen)))) => renewal.add_frozen(&frozen),
                Some((log, Some(Missing::Keys(keys)))) => {
                    renewal.log = (log, renewal.known(log) + keys.len());
                    renewal.young.insert(keys.into_iter());
                }
                Some((_, None)) | None => return,
            }
        }
    }
}
