//! What no global filter covers yet (the log, the frozen log before it, and the segments written
//! since) under one filter in memory, so that a miss there costs one line.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::KeySpace;
use super::view::View;
use crate::Result;
use crate::key::Key;
use crate::memtable::YoungFilter;
use crate::segment::Segment;
use crate::segment::format::SegmentHeader;
use crate::segment::merge::KeyCursor;
use crate::wal::frame::Frame;

/// Rows of a look-up for which it pays to read first what was written since, and not to index it.
pub(super) const LARGE: usize = if cfg!(feature = "small") { 64 } else { 1 << 16 };

impl View {
    /// Apply a frame of the log.
    pub(super) fn apply(&mut self, frame: &Frame, end: u64) {
        let before = self.memtable.len();
        self.memtable.apply(frame, end);
        let added = self.memtable.len() - before;
        if added == 0 {
            return;
        }
        if !self.is_lazy && added < LARGE {
            self.memtable.index_pending();
        }
        if let Some(union) = &mut self.union {
            union.insert(self.memtable.keys_from(before));
        }
        if self.young_takes(added) {
            self.young.insert(self.memtable.keys_from(before));
        } else {
            self.build_young();
        }
    }

    /// Put in what was read of the frozen log since.
    pub(super) fn complete_young(&mut self) {
        let (Some(first), Some(frozen)) = (self.lacks_young.take(), self.frozen.clone()) else { return };
        let missing = frozen.memtable.keys_from(first);
        if let Some(union) = &mut self.union {
            union.insert(frozen.memtable.keys_from(first));
        }
        if self.young_takes(missing.len()) {
            self.young.insert(missing);
        } else {
            self.build_young();
        }
    }

    /// Whether the young filter takes `count` more keys. Where many rows are looked up at a time,
    /// what an overfull one lets pass costs them more than to build it again.
    fn young_takes(&self, count: usize) -> bool {
        let takes = if self.is_lazy { YoungFilter::has_room } else { YoungFilter::takes };
        self.young.is_active() && takes(&self.young, count)
    }

    /// Entries in memory: of the log, and of the frozen log before it.
    pub(crate) fn entries_in_memory(&self) -> usize {
        self.memtable.len() + self.frozen.as_ref().map_or(0, |frozen| frozen.memtable.len())
    }

    /// Build the young filter over the log and the segments that have joined it.
    pub(super) fn build_young(&mut self) {
        self.build_young_over(self.joined.clone());
    }

    /// Build the young filter over the log and `segments`, as many as it has room for.
    fn build_young_over(&mut self, mut segments: Vec<Arc<Segment>>) {
        let mut keys = self.entries_in_memory();
        segments.retain(|segment| {
            let fits = keys + entries_of(segment) <= YoungFilter::MOST;
            keys += if fits { entries_of(segment) } else { 0 };
            fits
        });
        // Its memory is not kept while the next one is made.
        self.young = YoungFilter::default();
        let mut young = YoungFilter::for_keys(keys, self.is_lazy);
        young.insert(self.memtable.keys_from(0));
        if let Some(frozen) = &self.frozen {
            young.insert(frozen.memtable.keys_from(0));
        }
        for segment in segments.iter().filter(|_| young.is_active()).cloned().collect::<Vec<_>>() {
            // One that cannot be read is asked by itself, and tells then what is wrong.
            if add_keys(&mut young, &segment).is_ok() {
                young.cover(segment.header().id);
            }
        }
        (self.young, self.lacks_young) = (young, None);
        self.sort_uncovered();
    }

    /// Divide the uncovered segments into those that the young filter covers and the others.
    pub(super) fn sort_uncovered(&mut self) {
        let Self { uncovered, young, joined, apart, .. } = self;
        // A filter that holds all keys of some segments holds those of what they were compacted to.
        let mut headers: Vec<_> = uncovered.iter().map(|segment| segment.header()).collect();
        headers.sort_by_key(|header| header.id);
        for SegmentHeader { id, sources, .. } in headers {
            if !young.covers(*id) && !sources.is_empty() && sources.iter().all(|source| young.covers(*source)) {
                young.cover(*id);
            }
        }
        (*joined, *apart) = uncovered.iter().cloned().partition(|segment| young.covers(segment.header().id));
        // The first that are asked are likely to know most.
        joined.sort_by_key(|segment| std::cmp::Reverse(entries_of(segment)));
        self.keep_union();
    }

    /// A segment that holds nothing but entries of a log that ended.
    pub(super) fn hold_written(&mut self, segment: u64) {
        self.young.cover(segment);
        if let Some(union) = &mut self.union {
            union.hold(segment);
        }
    }

    /// Segments that hold nothing but entries of the log that ended.
    pub(super) fn cover_written(&mut self, segments: &[u64]) {
        for id in segments {
            self.hold_written(*id);
        }
        self.sort_uncovered();
    }

    /// Rows from which on it pays to let the segments join that are asked one by one: a row asks
    /// each of them, which takes as long as reading one of its keys. None without such segments.
    pub(super) fn rows_to_join(&self) -> Option<usize> {
        let entries = self.apart.iter().map(|segment| entries_of(segment));
        let joining: Vec<usize> = entries.filter(|entries| *entries <= YoungFilter::MOST / 2).collect();
        joining.iter().sum::<usize>().checked_div(joining.len())
    }

    /// Let the segments that are asked one by one join the young filter.
    fn join(&mut self) {
        let apart = std::mem::take(&mut self.apart);
        if !self.young.has_room(apart.iter().map(|segment| entries_of(segment)).sum()) {
            self.build_young_over(self.joined.iter().cloned().chain(apart).collect());
            return;
        }
        for segment in apart {
            // As above.
            if add_keys(&mut self.young, &segment).is_ok() {
                self.young.cover(segment.header().id);
                self.add_to_union(&segment);
            }
        }
        self.sort_uncovered();
    }
}

impl KeySpace {
    /// Call `look`, which looks `rows` up. A large look-up reads before it what was written since,
    /// and indexes it only where it has cost as much so far to look without an index.
    pub(super) fn prepared<T>(&self, rows: usize, look: impl FnOnce() -> Result<T>) -> Result<T> {
        if rows < LARGE {
            self.index_pending();
            self.join_if_due(rows);
            self.unite_if_due(rows);
            return look();
        }
        self.change_present(|view| {
            if view.memtable.is_index_due() {
                view.index_pending();
            }
            view.is_lazy = true;
        });
        {
            let _in_use = self.files.enter();
            // The look-up itself tells what is wrong.
            drop(self.refresh());
        }
        self.join_if_due(rows);
        self.unite_if_due(rows);
        let found = look();
        self.change_present(|view| view.is_lazy = false);
        found
    }

    /// Before `rows` are looked up: let segments join the young filter once that pays.
    fn join_if_due(&self, rows: usize) {
        let rows = self.asked.rows.load(Ordering::Relaxed) + rows as u64;
        let wanted = self.present().as_ref().and_then(View::rows_to_join);
        let asked = rows.saturating_sub(self.asked.rows_at_join.load(Ordering::Relaxed));
        if wanted.is_none_or(|wanted| asked >= wanted as u64) {
            self.asked.rows_at_join.store(rows, Ordering::Relaxed);
            if wanted.is_some() {
                self.change_present(View::join);
            }
        }
    }

    /// Index the entries in memory, for a look-up of a few keys.
    pub(super) fn index_pending(&self) {
        if self.present().as_ref().is_some_and(View::has_pending) {
            self.change_present(View::index_pending);
        }
    }

    pub(super) fn change_present(&self, change: impl FnOnce(&mut View)) {
        if let Some(view) = self.files.view.write().unwrap_or_else(PoisonError::into_inner).as_mut() {
            change(view);
        }
    }
}

pub(super) fn entries_of(segment: &Segment) -> usize {
    segment.header().entries() as usize
}

/// Put the keys of a segment into a filter.
pub(super) fn add_keys(young: &mut YoungFilter, segment: &Arc<Segment>) -> Result<()> {
    each_keys(segment, |keys| young.insert(keys.iter().copied()))
}

/// Pass the keys of a segment, many at a time.
pub(super) fn each_keys(segment: &Arc<Segment>, mut take: impl FnMut(&[Key])) -> Result<()> {
    for mut cursor in KeyCursor::both(segment) {
        cursor.take_many(|_| true, &mut take)?;
    }
    Ok(())
}
