//! Compaction of segments, and which of them the next global filter covers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{LEAST_UNCOVERED, MOST_UNCOVERED, Maintained};
use crate::Result;
use crate::format::manifest::{GlobalFilterEntry, Manifest, SegmentEntry};
use crate::format::names::FileKind;
use crate::segment::format::{MOST_ENTRIES, Mark, Stamp};
use crate::segment::global::GlobalFilter;
use crate::segment::merge::Merge;
use crate::segment::run::Stamps;
use crate::segment::settle::{Coarse, bounded};
use crate::segment::target::Target;
use crate::segment::writer::{Expected, SegmentWriter};
use crate::segment::{Segment, global};
use crate::store::publish::entry_of;
use crate::store::publish_beside::Change;
use crate::store::view::{Covered, View};
use crate::store::{KeySpace, SpaceSettings};
use crate::types::Ending;

/// Entries up to which a global filter is built again together with the segments outside it.
/// Above, there are several, each at most half as large as the one before.
const ONE_FILTER: u64 = 16 << 20;
/// UUIDs that are merged at a time, about, or texts that take as much memory: it does not grow with
/// a segment.
const MOST_IN_PART: usize = if cfg!(feature = "small") { 1 << 8 } else { 1 << 14 };
/// Number of small segments in the present partition from which they are compacted.
const MOST_SMALL: usize = 4;

impl KeySpace {
    /// Compact the segments of `group` into new ones, from number `first` on.
    pub(super) fn merge_segments(
        &self,
        group: &[Arc<Segment>],
        first: u64,
        done: &mut Maintained,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let gone: Vec<u64> = group.iter().map(|segment| segment.header().id).collect();
        let written = self.write_merged(group, &gone, first, progress)?;
        done.merged.0 += gone.len() as u64;
        done.merged.1 += written.len() as u64;
        done.rewritten += written.iter().map(|entry| entry.entries).sum::<u64>();
        let files: Vec<_> = written.iter().map(|entry| (FileKind::Segment, entry.id)).collect();
        let is_there =
            |manifest: &Manifest| gone.iter().all(|id| manifest.segments.iter().any(|entry| entry.id == *id));
        let publish = |manifest: &mut Manifest| {
            manifest.segments.retain(|entry| !gone.contains(&entry.id));
            manifest.segments.extend(&written);
        };
        let change = Change { files: &files, is_due: &is_there, ..Change::of_manifest(&publish) };
        self.publish_beside(SpaceSettings::STORED, &change).map(drop)
    }

    /// Write what is left of the entries of `group`, whose ids are `sources`, into new files from
    /// number `first` on.
    fn write_merged(
        &self,
        group: &[Arc<Segment>],
        sources: &[u64],
        first: u64,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Vec<SegmentEntry>> {
        let outcomes = self.read(|view| view.map_or(Ok(HashMap::new()), View::foldable))?;
        let files = Merge::parts_of(group, MOST_ENTRIES);
        let (expected, coarse) = expected_of(group, files, &outcomes)?;
        let translate = |stamp| {
            let stamp = folded(&outcomes, stamp)?;
            Some(coarse.as_ref().map_or(stamp, |coarse| coarse.rounded(stamp)))
        };
        let parts = Merge::small_parts_of(group, MOST_IN_PART).div_ceil(files);
        let mut merge = Merge::in_parts(group, files * parts);
        let mut written: Vec<SegmentEntry> = Vec::new();
        for id in first..first + files {
            let path = FileKind::New.path(&self.directory, id);
            let target = Target { sources, ..self.segment_at(&path, id) };
            let mut file: Option<SegmentWriter> = None;
            for _ in 0..parts {
                let Some(mut run) = merge.next(translate)? else { break };
                progress(run.len() as u64)?;
                run.settle_part(group.len());
                if run.is_empty() {
                    continue;
                }
                let file = match &mut file {
                    Some(file) => file,
                    None => file.insert(SegmentWriter::create(target, expected)?),
                };
                file.push(&run)?;
            }
            if let Some(file) = file {
                let (header, sum, bytes) = file.finish()?;
                written.push(entry_of(&header, sum, bytes));
            }
        }
        Ok(written)
    }

    pub(in crate::store) fn build_global_filter(
        &self,
        group: &[Arc<Segment>],
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let id = self.reserve(1)?;
        let path = FileKind::New.path(&self.directory, id);
        self.is_covering.store(true, Ordering::Relaxed);
        let built = global::build(&*self.env.system, &path, id, self.env.history, group, progress);
        self.is_covering.store(false, Ordering::Relaxed);
        let sum = built?;
        let ids: Vec<u64> = group.iter().map(|segment| segment.header().id).collect();
        let entries = group.iter().map(|segment| segment.header().entries()).sum();
        let publish = |manifest: &mut Manifest| {
            for global_filter in &mut manifest.global_filters {
                let covered = global_filter.segments.iter_mut().filter(|segment| ids.contains(segment));
                covered.for_each(|segment| *segment = 0);
            }
            manifest.global_filters.push(GlobalFilterEntry { id, sum, entries, segments: ids.clone() });
        };
        let files = [(FileKind::GlobalFilter, id)];
        let warm = GlobalFilter::open_verified(
            &*self.env.system,
            &path,
            &FileKind::GlobalFilter.path(&self.directory, id),
            self.env.history,
        )?;
        let change = Change { files: &files, warm: Some(warm), ..Change::of_manifest(&publish) };
        self.publish_beside(SpaceSettings::STORED, &change).map(drop)
    }
}

/// What each of `files` files that segments are compacted to will hold, and how stamps are rounded
/// if they are many.
fn expected_of(
    group: &[Arc<Segment>],
    files: u64,
    outcomes: &HashMap<u64, Ending>,
) -> Result<(Expected, Option<Coarse>)> {
    let mut stamps = Stamps::default();
    for segment in group {
        for stamp in segment.stamps()?.into_iter().filter_map(|stamp| folded(outcomes, stamp)) {
            stamps.index(stamp);
        }
    }
    let (stamps, coarse) = bounded(&stamps);
    let headers = || group.iter().map(|segment| segment.header());
    let expected = Expected {
        uuids: headers().map(|header| header.uuids).sum::<u64>() / files,
        texts: headers().map(|header| header.texts).sum::<u64>() / files,
        stamps,
    };
    Ok((expected, coarse))
}

/// A stamp after the outcome of its claim is applied; none when nothing is left of the entry.
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

impl View {
    /// Whether enough segments or entries are outside the global filter for building it to pay.
    pub(super) fn are_many_uncovered(&self) -> bool {
        let entries: u64 = self.uncovered.iter().map(|segment| segment.header().entries()).sum();
        self.uncovered.len() > MOST_UNCOVERED || entries >= self.due_uncovered()
    }

    /// Entries outside the global filter from which on it is built.
    pub(in crate::store) fn due_uncovered(&self) -> u64 {
        let covered: u64 = self.manifest.global_filters.iter().map(|entry| entry.entries).sum();
        LEAST_UNCOVERED.max(covered / 3)
    }

    /// The outcomes that may be folded into entries. Outcomes in the log are left out, because they
    /// may not be durable yet. So are claims of which single keys were released, because the record
    /// of that may be in another file.
    fn foldable(&self) -> Result<HashMap<u64, Ending>> {
        let mut outcomes: HashMap<u64, Ending> =
            self.manifest.outcomes.iter().map(|entry| (entry.claim, entry.outcome)).collect();
        if outcomes.is_empty() {
            return Ok(outcomes);
        }
        let mut released = self.memtable.released_claims();
        released.extend(self.frozen.iter().flat_map(|frozen| frozen.memtable.released_claims()));
        for segment in &self.segments {
            released
                .extend(segment.stamps()?.iter().filter(|stamp| stamp.mark == Mark::Released).map(|stamp| stamp.claim));
        }
        outcomes.retain(|claim, _| !released.contains(claim));
        Ok(outcomes)
    }

    /// Groups of segments that are worth compacting, each of one time partition.
    pub(super) fn merge_groups(&self, all: bool) -> Vec<Vec<Arc<Segment>>> {
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

    /// The segments that the next global filter should cover, and the number of their entries: the
    /// segments without a filter, and those of smaller filters, so that there are never more than a
    /// few filters.
    pub(in crate::store) fn global_filter_group(&self, all: bool) -> (Vec<Arc<Segment>>, u64) {
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
            if all || entries_of(&segments) <= ONE_FILTER.max(2 * entries_of(&group)) {
                group.extend(segments);
            }
        }
        let entries = entries_of(&group);
        (group, entries)
    }
}
