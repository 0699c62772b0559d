//! What segments have to keep of a log: its entries, each with its present stamp.

use std::collections::BTreeSet;

use super::{Memtable, MemtableEntry, folded};
use crate::key::Key;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::{EntryRun, HeldTexts, Runs};
use crate::sys::background::make_way;
use crate::types::Ending;

/// Entries that are put into runs at a time.
pub(super) const AT_A_TIME: usize = 1 << 13;

impl Memtable {
    /// Each entry that a segment has to keep, with its text and its present stamp.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Key, Option<&[u8]>, Stamp)> {
        let outcomes: Vec<_> = self.claims.iter().map(|claim| self.outcomes.get(&claim.number)).collect();
        let settled = move |(at, entry): (u32, &'_ MemtableEntry)| {
            let stamp = self.settled(at, entry, outcomes[entry.claim() as usize])?;
            Some((entry.key, self.texts.of(entry), stamp))
        };
        (0..).zip(&self.entries).filter_map(settled)
    }

    /// The claims of the entries that are released and that a segment has to keep.
    pub(crate) fn released_claims(&self) -> Vec<u64> {
        if !self.has_released {
            return Vec::new();
        }
        let released = self.entries().filter(|(_, _, stamp)| stamp.mark == Mark::Released);
        released.map(|(_, _, stamp)| stamp.claim).collect()
    }

    /// The present stamp of the entry of this number, unless nothing is left of it.
    pub(super) fn settled_stamp(&self, at: u32, entry: &MemtableEntry) -> Option<Stamp> {
        self.settled(at, entry, self.outcomes.get(&self.claims[entry.claim() as usize].number))
    }

    /// The same, with the outcome of its claim. A release of an entry that began here leaves
    /// nothing. The release of a sealed entry must be remembered, and so must what a claim left
    /// out.
    pub(super) fn settled(&self, at: u32, entry: &MemtableEntry, outcome: Option<&(Ending, i64)>) -> Option<Stamp> {
        let mut stamp = self.stamp(entry);
        stamp.mark = folded(stamp.mark, outcome);
        let is_gone = stamp.mark == Mark::Released && self.claims[entry.claim() as usize].has_begun(at);
        (!is_gone).then_some(stamp)
    }

    /// The texts of the entries.
    pub(crate) fn texts(&self) -> &dyn HeldTexts {
        &self.texts
    }

    /// The entries as runs, one for each time partition of `width`, without those that began at or
    /// before `expired`.
    pub(crate) fn runs(&self, width: i64, expired: i64) -> Vec<EntryRun> {
        let mut runs = Runs::new(width);
        self.fill(&mut runs, expired);
        runs.into_list()
    }

    /// Add the entries to runs, without those that began at or before `expired`.
    pub(crate) fn fill(&self, runs: &mut Runs, expired: i64) {
        fill(runs, self.entries().filter(|(_, _, stamp)| stamp.started_at > expired));
    }

    /// Maximum number of time partitions of `width` that the entries belong to.
    pub(crate) fn partitions(&self, width: i64) -> u64 {
        let (mut found, mut last) = (BTreeSet::new(), None);
        for claim in &self.claims {
            let partition = Some(claim.started_at.div_euclid(width));
            if partition != last {
                found.extend(partition);
                last = partition;
            }
        }
        found.len() as u64
    }
}

fn fill<'a>(runs: &mut Runs, entries: impl Iterator<Item = (Key, Option<&'a [u8]>, Stamp)>) {
    for (number, (key, text, stamp)) in entries.enumerate() {
        if number.is_multiple_of(AT_A_TIME) {
            make_way();
        }
        let run = runs.of(stamp.started_at);
        match text {
            None => run.push_uuid(key, stamp),
            Some(text) => run.push_text(key, text, stamp),
        }
    }
}
