//! Compaction of value files: merging small ones, and folding later entries into the others.

use crate::format::names::FileKind;

use crate::Result;
use crate::format::manifest::{Manifest, ValueFileEntry};
use crate::memtable::values::ValueMemtable;
use crate::segment::values::run::{GONE, ValueRun};
use crate::store::values::{Class, MOST_BYTES, MOST_ROWS, Placed, Runs};
use crate::store::view::View;
use crate::store::{KeySpace, Maintained, Progress};

/// Number of files of later entries, or of one partition, from which they are compacted.
const MOST_ALIKE: usize = 4;
/// File numbers that one merge may use for each part of the key range.
const FILES_A_PART: u64 = 20;

/// Files to merge.
struct Group {
    files: Vec<Placed>,
    /// Whether these are only some of the later files: then removed entries have to stay as removed
    /// ones.
    is_of_later: bool,
}

impl KeySpace {
    /// Compact value files where it pays; with `all`, as far as possible.
    pub(in crate::store) fn maintain_value_files(
        &self,
        all: bool,
        progress: Progress,
        done: &mut Maintained,
    ) -> Result<()> {
        let mut before = None;
        while self.read(|view| Ok(view.is_some_and(|view| view.value_group(all).is_some())))? {
            // A group that compaction does not reduce is left alone: else it would be compacted
            // forever.
            let left = self.read(|view| Ok(view.map(View::values_to_do)))?;
            if before.is_some() && left >= before {
                break;
            }
            before = left;
            // Reserve the numbers first: files that are sealed after the group is chosen get later
            // ones.
            let parts =
                self.read(|view| Ok(view.and_then(|view| view.value_group(all)).map_or(0, |group| group.parts())))?;
            let first = self.reserve((parts + 1) * FILES_A_PART)?;
            let Some(group) = self.read(|view| Ok(view.and_then(|view| view.value_group(all))))? else { break };
            if group.parts() > parts + 1 || !self.merge_values(&group, first, progress, done)? {
                break;
            }
        }
        Ok(())
    }

    fn merge_values(&self, group: &Group, first: u64, progress: Progress, done: &mut Maintained) -> Result<bool> {
        let mut next_file = first;
        let mut written: Vec<ValueFileEntry> = Vec::new();
        let parts = group.parts();
        for part in 0..parts {
            let merged = group.read(part, parts)?;
            let mut runs = Runs::of(&merged.rows);
            for row in &merged.rows {
                match (group.is_of_later, row.flags & GONE != 0) {
                    (true, _) => runs.later().push_from(&merged, row),
                    (false, false) => runs.plain(&merged, row),
                    (false, true) => {}
                }
            }
            written.extend(self.write_runs(runs, &mut next_file, FileKind::New)?);
            progress(
                written.iter().map(|entry| entry.rows).sum(),
                total(group.files.iter().map(|file| file.entry.rows)),
            )?;
        }
        done.merged.0 += group.files.len() as u64;
        done.merged.1 += written.len() as u64;
        done.rewritten += written.iter().map(|entry| entry.rows).sum::<u64>();
        let files: Vec<_> = written.iter().map(|entry| (FileKind::Values, entry.id)).collect();
        let is_there = |manifest: &Manifest| group.files.iter().all(|placed| manifest.values.contains(&placed.entry));
        let publish = |manifest: &mut Manifest| {
            manifest.values.retain(|entry| !group.files.iter().any(|placed| placed.entry.id == entry.id));
            manifest.values.extend(&written);
        };
        self.publish_compacted(Self::value_settings(), &files, is_there, publish)
    }
}

impl Group {
    /// Number of parts of the key range in which the group is merged, each in bounded memory.
    fn parts(&self) -> u64 {
        let rows = total(self.files.iter().map(|placed| placed.segment.header().rows));
        let bytes = total(self.files.iter().map(|placed| placed.segment.file_bytes()));
        rows.div_ceil(MOST_ROWS as u64).max(bytes.div_ceil(MOST_BYTES as u64)).max(1)
    }

    /// The newest entry of each id of one part; entries that are gone are included as removed ones.
    fn read(&self, part: u64, parts: u64) -> Result<ValueRun> {
        let mut newest = ValueMemtable::default();
        // In look-up order, so that the first entry counts.
        for placed in &self.files {
            let places = placed.segment.start_of(part, parts)?..placed.segment.start_of(part + 1, parts)?;
            let mut older = ValueRun::default();
            for place in places {
                if !placed.read(place, &mut older)? {
                    placed.read_gone(place, &mut older)?;
                }
            }
            newest.apply_older(&older);
        }
        Ok(newest.run)
    }
}

impl Placed {
    /// Append an entry that is gone as a removed one.
    pub(in crate::store) fn read_gone(&self, place: u32, run: &mut ValueRun) -> Result<()> {
        let mut scratch = Vec::new();
        let key = self.segment.key(place, &mut scratch)?;
        run.push(key, self.segment.text(place, &mut scratch)?, i64::MIN, GONE, &[]);
        Ok(())
    }
}

impl View {
    /// Whether maintenance of the values is due.
    pub(in crate::store) fn is_value_maintenance_due(&self) -> bool {
        self.value_group(false).is_some()
    }

    /// Whether there is anything to compact, or a global filter to build.
    pub(super) fn is_compaction_worth(&self, all: bool) -> bool {
        self.value_group(all).is_some() || !self.merge_groups(all).is_empty() || self.global_filter_group(all).1 > 0
    }

    /// The files to compact next.
    fn value_group(&self, all: bool) -> Option<Group> {
        let rows = |is_later: bool| {
            let entries = self.manifest.values.iter().filter(|entry| entry.is_later == is_later);
            total(entries.map(|entry| entry.rows))
        };
        let (plain, later) = (rows(false), rows(true));
        let fold = || Some(Group { files: self.values.clone(), is_of_later: false });
        if later > 0 && (all || later.saturating_mul(2) >= plain) {
            return fold();
        }
        let is_marked = |placed: &Placed| placed.entry.purged_upto > i64::MIN;
        if all && self.values.iter().any(is_marked) {
            return fold();
        }
        let of_later: Vec<Placed> = self.values.iter().filter(|placed| placed.entry.is_later).cloned().collect();
        if of_later.len() >= MOST_ALIKE {
            // Only neighbours in age, the newest first: the merged file takes their place between
            // older and newer ones.
            return Some(Group { files: tier(of_later, 2), is_of_later: true });
        }
        self.alike(if all { 2 } else { MOST_ALIKE })
    }

    /// The amounts that maintenance of values reduces: later entries, then files that a purge
    /// marked, then files.
    fn values_to_do(&self) -> (u64, usize, usize) {
        let files = &self.manifest.values;
        let later = total(files.iter().filter(|entry| entry.is_later).map(|entry| entry.rows));
        (later, files.iter().filter(|entry| entry.purged_upto > i64::MIN).count(), files.len())
    }

    /// Small files of one class, if there are `least` of them.
    fn alike(&self, least: usize) -> Option<Group> {
        let mut classes: std::collections::BTreeMap<Class, Vec<Placed>> = std::collections::BTreeMap::new();
        let is_small = |placed: &&Placed| {
            let (rows, bytes) = (placed.entry.rows, placed.entry.bytes);
            !placed.entry.is_later && rows < MOST_ROWS as u64 / 2 && bytes < MOST_BYTES as u64 / 2
        };
        for placed in self.values.iter().filter(is_small) {
            classes.entry(Class::of_file(&placed.entry)).or_default().push(placed.clone());
        }
        let mut files = classes.into_values().find(|files| files.len() >= least)?;
        files.sort_by_key(|placed| placed.entry.rows);
        Some(Group { files: tier(files, least.min(2)), is_of_later: false })
    }
}

/// A sum of numbers from a manifest, which may have any value.
pub(in crate::store) fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// The first files, at least `least`, while the next is not much larger than the sum of those
/// before it.
fn tier(files: Vec<Placed>, least: usize) -> Vec<Placed> {
    let mut sum = 0u64;
    let mut taken = Vec::new();
    for placed in files {
        if taken.len() >= least && placed.entry.rows > sum.saturating_mul(2) {
            break;
        }
        sum = sum.saturating_add(placed.entry.rows);
        taken.push(placed);
    }
    taken
}
