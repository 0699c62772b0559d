//! The entries in parts of the key range: putting them into segments takes no copy of all of them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{AT_A_TIME, Memtable, fill};
use crate::key::Key;
use crate::segment::run::{EntryRun, Runs, Stamps};
use crate::sys::background::make_way;

/// What the entries of one time partition come to.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    pub(crate) uuids: u64,
    pub(crate) texts: u64,
    pub(crate) stamps: Stamps,
}

impl Memtable {
    /// What the entries of each time partition of `width` come to.
    pub(crate) fn outlines(&self, width: i64) -> BTreeMap<i64, Outline> {
        let mut outlines: BTreeMap<i64, Outline> = BTreeMap::new();
        // Most entries belong to the same partition as the one before.
        let (mut last, mut outline) = (None, Outline::default());
        for (number, (_, text, stamp)) in self.entries().enumerate() {
            if number.is_multiple_of(AT_A_TIME) {
                make_way();
            }
            let partition = stamp.started_at.div_euclid(width);
            if last != Some(partition) {
                if let Some(last) = last.replace(partition) {
                    outlines.insert(last, std::mem::take(&mut outline));
                }
                outline = outlines.remove(&partition).unwrap_or_default();
            }
            match text {
                None => outline.uuids += 1,
                Some(_) => outline.texts += 1,
            }
            outline.stamps.index(stamp);
        }
        outlines.extend(last.map(|last| (last, outline)));
        outlines
    }

    /// The entries of some time partitions of `width` in part `part` of `parts` equal parts of the
    /// key range: a run for each partition.
    pub(crate) fn part_runs(
        &self,
        width: i64,
        partitions: &RangeInclusive<i64>,
        part: u64,
        parts: u64,
    ) -> Vec<(i64, EntryRun)> {
        let within = |key: Key| (u128::from(key.hi) * u128::from(parts)) >> 64 == u128::from(part);
        let mut runs = Runs::new(width);
        let entries = self.entries_within(within);
        fill(&mut runs, entries.filter(|(_, _, stamp)| partitions.contains(&stamp.started_at.div_euclid(width))));
        runs.into_parts()
    }
}
