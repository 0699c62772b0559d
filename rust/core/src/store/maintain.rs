//! Maintenance: compaction of small segments, building the global filter, garbage collection.
//!
//! Compaction and building filters happen outside the lock, under names that no manifest knows
//! (`new-…`); only publishing needs the lock. Interrupted at any moment, maintenance leaves such
//! files behind and nothing else; the next maintenance collects them.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use super::lock::Lock;
use super::publish::entry_of;
use super::staged::is_staged_name;
use super::view::{Covered, View};
use super::{KeySpace, SpaceSettings};
use crate::format::manifest::{GlobalFilterEntry, Manifest, SegmentEntry};
use crate::format::names::{FileKind, MAINTENANCE_LOCK};
use crate::segment::Segment;
use crate::segment::format::{MOST_ENTRIES, Mark, Stamp};
use crate::segment::global;
use crate::segment::merge::Merge;
use crate::segment::writer;
use crate::store::Writer;
use crate::types::Ending;
use crate::{Error, Result};

/// Number of segments outside the global filter from which maintenance is due.
const MOST_UNCOVERED: usize = 6;
/// Number from which writers wait for it.
const TOO_MANY_UNCOVERED: usize = 32;
/// So many small segments in the partition that is being written, and they are put together.
const MOST_SMALL: usize = 4;

/// What maintenance did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Segments that were put together, and how many they became.
    pub merged: (u64, u64),
    /// Entries rewritten by that.
    pub rewritten: u64,
    /// Entries in newly built rolled-up filters.
    pub rolled_up: u64,
}

/// Hears of progress: entries done, entries in all. An error from it stops the work, which does no
/// harm.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> Result<()>;

impl KeySpace {
    /// Whether maintenance is due.
    pub(crate) fn is_maintenance_due(&self) -> bool {
        let is_due = |view: &View| view.uncovered.len() > MOST_UNCOVERED || view.is_value_maintenance_due();
        self.present().as_ref().is_some_and(is_due)
    }

    /// Whether so much has piled up that every look-up feels it.
    pub(crate) fn is_maintenance_overdue(&self) -> bool {
        self.present().as_ref().is_some_and(|view| view.uncovered.len() > TOO_MANY_UNCOVERED)
    }

    /// Put small segments together and roll filters up, as far as it pays; with `all`, as far as it
    /// goes.
    pub(crate) fn maintain(&self, all: bool, progress: Progress) -> Result<Maintained> {
        let mut done = Maintained::default();
        if self.env.read_only {
            return Err(Error::ReadOnly(self.directory.clone()));
        }
        if !self.exists()? {
            return Ok(done);
        }
        // One at a time; whoever comes second has nothing to do.
        let lock = Lock::open(&*self.env.system, &self.directory.join(MAINTENANCE_LOCK))?;
        let Some(_guard) = lock.take(std::time::Duration::ZERO, || {})? else { return Ok(done) };
        self.run_maintenance(all, progress, &mut done).inspect_err(|error| self.note(error))?;
        Ok(done)
    }

    fn run_maintenance(&self, all: bool, progress: Progress, done: &mut Maintained) -> Result<()> {
        self.collect_orphans()?;
        self.maintain_value_files(all, progress, done)?;
        let groups = self.read(|view| Ok(view.map_or(Vec::new(), |view| view.merge_groups(all))))?;
        let global_filter_work = |view: Option<&View>| Ok(view.map_or(0, |view| view.global_filter_group(all).1));
        let merging: u64 = groups.iter().flatten().map(|segment| segment.header().entries()).sum();
        let mut so_far = 0;
        for group in groups {
            let total = merging + self.read(global_filter_work)?;
            self.merge(&group, done, &mut |entries| {
                so_far += entries;
                progress(so_far, total)
            })?;
        }
        let (group, entries) =
            self.read(|view| Ok(view.map_or((Vec::new(), 0), |view| view.global_filter_group(all))))?;
        if !group.is_empty() {
            self.build_global_filter(&group, &mut |entries_done| {
                so_far += entries_done;
                progress(so_far, merging + entries)
            })?;
            done.rolled_up += entries;
        }
        Ok(())
    }

    /// Reserve file numbers, so that no other writer uses them.
    pub(super) fn reserve(&self, count: u64) -> Result<u64> {
        self.write(SpaceSettings::STORED, |writer| {
            let Some(mut manifest) = writer.space.present().as_ref().map(View::same_log_successor) else {
                return Err(Error::State("the key space is not there".into()));
            };
            let first = manifest.next_file;
            manifest.next_file += count;
            writer.publish(&manifest)?;
            Ok(first)
        })
    }

    fn merge(
        &self,
        group: &[Arc<Segment>],
        done: &mut Maintained,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut merge = Merge::new(group, MOST_ENTRIES);
        let outcomes = self.read(|view| view.map_or(Ok(HashMap::new()), View::foldable))?;
        let first = self.reserve(merge.parts())?;
        let mut written: Vec<(SegmentEntry, PathBuf)> = Vec::new();
        for id in first.. {
            let Some(mut run) = merge.next(|stamp| folded(&outcomes, stamp))? else { break };
            progress(run.len() as u64)?;
            if run.is_empty() {
                continue;
            }
            run.settle();
            let path = FileKind::New.path(&self.directory, id);
            let (header, sum, bytes) = writer::write(self.segment_at(&path, id), &run)?;
            written.push((entry_of(&header, sum, bytes), path));
        }
        let gone: Vec<u64> = group.iter().map(|segment| segment.header().id).collect();
        done.merged.0 += gone.len() as u64;
        done.merged.1 += written.len() as u64;
        done.rewritten += written.iter().map(|(entry, _)| entry.entries).sum::<u64>();
        self.write(SpaceSettings::STORED, |writer| {
            let Some(mut manifest) = writer.space.present().as_ref().map(View::same_log_successor) else {
                return Ok(());
            };
            let is_there = |id: &u64| manifest.segments.iter().any(|entry| entry.id == *id);
            if !gone.iter().all(is_there) {
                // A purge came in between. The work was for nothing; its files go with the next
                // maintenance.
                return Ok(());
            }
            for (entry, path) in &written {
                writer.adopt(path, &FileKind::Segment.path(&writer.space.directory, entry.id))?;
                manifest.segments.push(*entry);
            }
            manifest.segments.retain(|entry| !gone.contains(&entry.id));
            forget_dropped(&mut manifest);
            writer.publish(&manifest)
        })
    }

    pub(super) fn build_global_filter(
        &self,
        group: &[Arc<Segment>],
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let id = self.reserve(1)?;
        let path = FileKind::New.path(&self.directory, id);
        let sum = global::build(&*self.env.system, &path, id, self.env.history, group, progress)?;
        let ids: Vec<u64> = group.iter().map(|segment| segment.header().id).collect();
        let entries = group.iter().map(|segment| segment.header().entries()).sum();
        self.write(SpaceSettings::STORED, |writer| {
            let Some(mut manifest) = writer.space.present().as_ref().map(View::same_log_successor) else {
                return Ok(());
            };
            writer.adopt(&path, &FileKind::GlobalFilter.path(&writer.space.directory, id))?;
            for global_filter in &mut manifest.global_filters {
                global_filter
                    .segments
                    .iter_mut()
                    .filter(|segment| ids.contains(segment))
                    .for_each(|segment| *segment = 0);
            }
            manifest.global_filters.push(GlobalFilterEntry { id, sum, entries, segments: ids });
            forget_dropped(&mut manifest);
            writer.publish(&manifest)
        })
    }

    /// Collect what an interrupted maintenance or publication left behind.
    fn collect_orphans(&self) -> Result<()> {
        let names = self.env.system.names(&self.directory)?;
        for name in names.iter().filter(|name| FileKind::New.has(name) && !is_staged_name(name)) {
            let path = self.directory.join(name);
            self.env.system.remove_at(&path)?;
        }
        self.collect_orphaned_parts()?;
        super::pin::collect_forgotten(&self.env, &self.directory, &names, crate::sys::time::now_us())?;
        self.collect_staged(&names)
    }
}

impl Writer<'_> {
    /// Give a finished file the name that the next manifest uses.
    pub(super) fn adopt(&mut self, from: &std::path::Path, to: &std::path::Path) -> Result<()> {
        self.space.env.system.link_at(from, to)?;
        self.space.env.system.remove_at(from)
    }
}

/// A stamp with the outcome of its claim folded in; none when nothing is left of the entry.
fn folded(outcomes: &HashMap<u64, Ending>, mut stamp: Stamp) -> Option<Stamp> {
    if stamp.mark == Mark::Open {
        match outcomes.get(&stamp.claim) {
            Some(Ending::Completed) => stamp.mark = Mark::Completed,
            Some(Ending::Released) => return None,
            None => {}
        }
    }
    Some(stamp)
}

/// Filters cover only segments that are there, and go when they cover none.
pub(super) fn forget_dropped(manifest: &mut Manifest) {
    let there: Vec<u64> = manifest.segments.iter().map(|entry| entry.id).collect();
    for global_filter in &mut manifest.global_filters {
        global_filter.segments.iter_mut().filter(|id| !there.contains(id)).for_each(|id| *id = 0);
    }
    manifest.global_filters.retain(|global_filter| global_filter.segments.iter().any(|id| *id != 0));
    // An outcome has served once no segment holds open entries of that time.
    let holds_open = |time: i64| {
        let mut segments = manifest.segments.iter().filter(|entry| entry.open > 0);
        segments.any(|entry| (entry.min_started_at..=entry.max_started_at).contains(&time))
    };
    manifest.outcomes.retain(|entry| holds_open(entry.started_at));
}

impl View {
    /// The next manifest over the same log: its frames stay where they are.
    pub(super) fn same_log_successor(&self) -> Manifest {
        let mut manifest = self.manifest.clone();
        manifest.number += 1;
        manifest.log.proven = manifest.log.proven.max(self.proven());
        manifest
    }

    /// As [`View::same_log_successor`], with numbers of claims above those of the log's frames, for
    /// a manifest that begins one.
    pub(super) fn next_of_same_log(&self) -> Manifest {
        let mut manifest = self.same_log_successor();
        manifest.next_sequence = manifest.next_sequence.max(self.memtable.next_sequence);
        manifest
    }

    /// The outcomes that may be folded into entries: only those of the manifest, as those of the
    /// log may not be durable yet; and none of a claim of which single keys were released, as what
    /// says so may stand elsewhere.
    fn foldable(&self) -> Result<HashMap<u64, Ending>> {
        let mut outcomes: HashMap<u64, Ending> =
            self.manifest.outcomes.iter().map(|entry| (entry.claim, entry.outcome)).collect();
        if outcomes.is_empty() {
            return Ok(outcomes);
        }
        let of_log = self.memtable.entries().map(|(_, _, stamp)| stamp);
        let mut released: Vec<u64> =
            of_log.filter(|stamp| stamp.mark == Mark::Released).map(|stamp| stamp.claim).collect();
        for segment in &self.segments {
            released
                .extend(segment.stamps()?.iter().filter(|stamp| stamp.mark == Mark::Released).map(|stamp| stamp.claim));
        }
        outcomes.retain(|claim, _| !released.contains(claim));
        Ok(outcomes)
    }

    /// Groups of segments that are worth putting together: each of one time partition.
    fn merge_groups(&self, all: bool) -> Vec<Vec<Arc<Segment>>> {
        let width = self.manifest.partition_us;
        let mut partitions: BTreeMap<i64, Vec<Arc<Segment>>> = BTreeMap::new();
        for segment in &self.segments {
            let header = segment.header();
            let partition = header.min_started_at.div_euclid(width);
            let is_one_partition = header.max_started_at.div_euclid(width) == partition;
            if is_one_partition && header.entries() < MOST_ENTRIES as u64 / 2 {
                partitions.entry(partition).or_default().push(segment.clone());
            }
        }
        let newest = partitions.keys().next_back().copied();
        let is_worth = |(partition, group): &(i64, Vec<Arc<Segment>>)| {
            group.len() >= if all || Some(*partition) != newest { 2 } else { MOST_SMALL }
        };
        partitions.into_iter().filter(is_worth).map(|(_, group)| group).collect()
    }

    /// The segments that the next rolled-up filter should cover, and their entries: those that have
    /// none, and with them filters that are smaller than what comes together, so that there are
    /// never more than a few.
    pub(super) fn global_filter_group(&self, all: bool) -> (Vec<Arc<Segment>>, u64) {
        let entries_of =
            |segments: &[Arc<Segment>]| segments.iter().map(|segment| segment.header().entries()).sum::<u64>();
        let least = if all { 1 } else { 2 };
        if self.uncovered.len() < least {
            return (Vec::new(), 0);
        }
        let mut group = self.uncovered.clone();
        let live = |covered: &Covered| covered.segments.iter().flatten().cloned().collect::<Vec<_>>();
        let mut covered: Vec<_> = self.covered.iter().map(live).collect();
        covered.sort_by_key(|segments| entries_of(segments));
        for segments in covered {
            if all || entries_of(&segments) <= 2 * entries_of(&group) {
                group.extend(segments);
            }
        }
        let entries = entries_of(&group);
        (group, entries)
    }
}
