//! Maintenance: compaction of small segments, building the global filter, garbage collection.
//!
//! Compaction and building filters happen outside the lock, under names that no manifest names
//! (`new-…`); only publishing needs the lock. Maintenance that fails removes them; one that dies
//! leaves only such files behind, and the next maintenance collects them.

mod segments;
mod values;

pub(super) use values::total;

use std::cell::Cell;
use std::time::Duration;

use crate::Result;
use crate::format::manifest::Manifest;
use crate::format::names::{FileKind, MAINTENANCE_LOCK};
use crate::segment::format::MOST_ENTRIES;
use crate::segment::merge::Merge;
use crate::store::lock::Lock;
use crate::store::publish_beside::Change;
use crate::store::view::View;
use crate::store::{KeySpace, SpaceSettings};

/// Number of segments outside the global filter from which maintenance is due.
const MOST_UNCOVERED: usize = 12;
/// Entries in them from which it is due; more where the global filter is larger.
const LEAST_UNCOVERED: u64 = 3 << 19;
/// Number of segments outside the global filter from which writers wait for maintenance.
const TOO_MANY_UNCOVERED: usize = 64;

/// How long maintenance leaves objects in a bucket that no state needs any more: others may be
/// reading them.
const GRACE: Duration = Duration::from_secs(15 * 60);

/// The result of maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Segments that were compacted, and the number of segments that they became.
    pub merged: (u64, u64),
    /// Entries rewritten by compaction.
    pub rewritten: u64,
    /// Entries in newly built global filters.
    pub rolled_up: u64,
}

/// Progress callback: `(done, total)` entries. An error from it stops the work, which does no harm.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> Result<()>;

/// How long maintenance waits for one that runs already. (The lock of one that died is free.)
fn patience(all: bool) -> Duration {
    if all { Duration::MAX } else { Duration::ZERO }
}

impl KeySpace {
    /// Whether maintenance is due.
    pub(crate) fn is_maintenance_due(&self) -> bool {
        let is_due = |view: &View| view.are_many_uncovered() || view.is_value_maintenance_due();
        self.present().as_ref().is_some_and(is_due)
    }

    /// How far maintenance is behind: segments outside the global filter beyond those that it
    /// allows.
    pub(crate) fn maintenance_debt(&self) -> u32 {
        let beyond = |view: &View| view.uncovered.len().saturating_sub(TOO_MANY_UNCOVERED) as u32;
        self.present().as_ref().map_or(0, beyond)
    }

    /// Compact small segments and build the global filter where it pays; with `all`, as far as
    /// possible, and after maintenance that runs already.
    pub(crate) fn maintain(&self, all: bool, progress: Progress) -> Result<Maintained> {
        let mut done = Maintained::default();
        if self.env.read_only {
            return Err(crate::Error::ReadOnly(self.env.place()));
        }
        if !self.exists()? {
            return Ok(done);
        }
        // One maintenance at a time; a second one has nothing to do, unless it is to do all.
        let lock = Lock::open(&*self.env.system, &self.directory.join(MAINTENANCE_LOCK))?;
        let Some(_guard) = lock.take(patience(all), || {})? else { return Ok(done) };
        // Nothing depends on a file that could not be written: the handle stays good. Where another
        // maintenance works beside this one, the files may be its own.
        self.run_maintenance(all, progress, &mut done).inspect_err(|error| {
            if !matches!(error, crate::Error::Fenced { .. }) {
                drop(self.collect_failed());
            }
        })?;
        self.collect_objects(GRACE)?;
        Ok(done)
    }

    /// [`KeySpace::maintain`] until nothing is due, or nothing can be done about it. Perhaps nobody
    /// writes any more, and no call comes for what was written meanwhile.
    pub(crate) fn maintain_while_due(&self, progress: Progress) -> Result<()> {
        while self.maintain(false, progress)? != Maintained::default() && self.is_maintenance_due() {}
        Ok(())
    }

    fn run_maintenance(&self, all: bool, progress: Progress, done: &mut Maintained) -> Result<()> {
        self.seal_frozen_within(patience(all))?;
        self.collect_orphans()?;
        let is_work = |view: Option<&View>| Ok(view.is_some_and(|view| view.is_compaction_worth(all)));
        let _announced = match self.mirror.as_deref() {
            Some(mirror) if self.read(is_work)? => match mirror.announce()? {
                // Another handle maintains the space. Correctness does not depend on that, so a
                // caller that wants all of it done does not wait.
                None if !all => return self.renew_young(),
                announced => announced,
            },
            _ => None,
        };
        self.maintain_value_files(all, progress, done)?;
        let groups = self.read(|view| Ok(view.map_or(Vec::new(), |view| view.merge_groups(all))))?;
        let global_filter_work = |view: Option<&View>| Ok(view.map_or(0, |view| view.global_filter_group(all).1));
        let merging: u64 = groups.iter().flatten().map(|segment| segment.header().entries()).sum();
        let mut so_far = 0;
        let parts: Vec<u64> = groups.iter().map(|group| Merge::parts_of(group, MOST_ENTRIES)).collect();
        let mut first = if parts.is_empty() { 0 } else { self.reserve(parts.iter().sum())? };
        for (group, parts) in groups.iter().zip(parts) {
            let total = merging + self.read(global_filter_work)?;
            self.merge_segments(group, first, done, &mut |entries| {
                so_far += entries;
                progress(so_far, total)
            })?;
            first += parts;
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
        self.renew_young()
    }

    /// Reserve file numbers, so that no other writer uses them.
    pub(super) fn reserve(&self, count: u64) -> Result<u64> {
        let first = Cell::new(0);
        let reserve = |manifest: &mut Manifest| {
            first.set(manifest.next_file);
            manifest.next_file += count;
        };
        self.publish_beside(SpaceSettings::STORED, &Change::of_manifest(&reserve))?;
        Ok(first.get())
    }

    /// Publish `files`, which were made outside the lock, by the `change` of the manifest. Answers
    /// false and publishes nothing where `is_due` no longer holds, because a purge came in between:
    /// the files then go with the next maintenance.
    fn publish_compacted(
        &self,
        settings: SpaceSettings,
        files: &[(FileKind, u64)],
        is_due: impl Fn(&Manifest) -> bool,
        change: impl Fn(&mut Manifest),
    ) -> Result<bool> {
        self.publish_beside(settings, &Change { files, is_due: &is_due, ..Change::of_manifest(&change) })
    }
}
