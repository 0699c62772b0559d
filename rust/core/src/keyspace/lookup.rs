//! Looking a batch up in a view: filters first, then exactly, then what all entries of a key together mean.

use super::view::View;
use crate::Result;
use crate::rules::HistoryState;
use crate::segment::format::{Mark, Stamp};
use crate::segment::{Segment, Wanted};

/// A key that a claim has begun and not ended, and which claim, since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InProgress {
    /// Row of the batch.
    pub row: u32,
    /// An open claim.
    pub claim: u64,
    /// When its service began, in microseconds since 1970.
    pub started_at: i64,
}

/// What the history knows of a batch.
#[derive(Debug, Default)]
pub(crate) struct LookedUp {
    /// One state a row.
    pub(crate) states: Vec<HistoryState>,
    /// The open claims of the rows in progress, sorted by row, then by claim.
    pub(crate) processing: Vec<InProgress>,
    /// Whether an answer rests on the log rather than on a segment alone.
    pub(crate) rests_on_log: bool,
}

/// Gathers what is found.
struct Findings<'a> {
    view: &'a View,
    /// Entries that began at or before this time count no more.
    expired: i64,
    states: Vec<HistoryState>,
    /// Open and released entries: they need to be weighed against each other.
    others: Vec<(u32, Stamp)>,
    /// Rows and claims of entries that are completed because their whole claim is: a release of the key itself outweighs that.
    ended: Vec<(u32, u64)>,
    rests_on_log: bool,
}

impl Findings<'_> {
    #[inline]
    fn add(&mut self, row: u32, mut stamp: Stamp) {
        if stamp.started_at <= self.expired {
            return;
        }
        let written = stamp.mark;
        stamp.mark = self.view.tail.effective(stamp);
        // The outcome of a sealed claim comes from the log.
        self.rests_on_log |= written != stamp.mark;
        if written == Mark::Completed {
            self.states[row as usize] = HistoryState::Completed;
        } else if stamp.mark == Mark::Completed {
            self.ended.push((row, stamp.claim));
        } else {
            self.others.push((row, stamp));
        }
    }
}

impl View {
    /// The states of all rows, without entries that began at or before `expired`.
    pub(crate) fn lookup(&self, wanted: &Wanted, expired: i64) -> Result<LookedUp> {
        let states = vec![HistoryState::Absent; wanted.keys.len()];
        let mut findings =
            Findings { view: self, expired, states, others: Vec::new(), ended: Vec::new(), rests_on_log: false };
        let mut touched = false;
        self.tail.find(wanted, &mut |row, stamp| {
            touched = true;
            findings.add(row, stamp);
        });
        findings.rests_on_log |= touched;
        let mut survivors = Vec::new();
        for covered in &self.covered {
            survivors.clear();
            covered.rollup.may_contain(wanted, &mut survivors)?;
            let candidates = covered.rollup.candidates(wanted, &survivors)?;
            for group in candidates.chunk_by(|a, b| a.slot == b.slot) {
                let Some(Some(segment)) = covered.segments.get(group[0].slot as usize) else { continue };
                let rows: Vec<u32> = group.iter().map(|candidate| candidate.row).collect();
                segment.find(wanted, &rows, &mut |row, stamp| findings.add(row, stamp))?;
            }
        }
        for segment in &self.uncovered {
            search(segment, wanted, &mut findings)?;
        }
        Ok(findings.finish())
    }
}

/// One segment: its filter, then the keys themselves.
fn search(segment: &Segment, wanted: &Wanted, findings: &mut Findings) -> Result<()> {
    let mut candidates = Vec::new();
    segment.may_contain(wanted, None, &mut candidates)?;
    segment.find(wanted, &candidates, &mut |row, stamp| findings.add(row, stamp))
}

impl Findings<'_> {
    /// A key is completed if any of its claims is; else processing if any claim is neither completed nor released.
    fn finish(mut self) -> LookedUp {
        self.others.sort_unstable_by_key(|(row, stamp)| (*row, stamp.claim, std::cmp::Reverse(stamp.mark)));
        // Of each claim only the strongest mark counts, which now stands first.
        self.others.dedup_by_key(|(row, stamp)| (*row, stamp.claim));
        for (row, claim) in std::mem::take(&mut self.ended) {
            let place = self.others.binary_search_by_key(&(row, claim), |(row, stamp)| (*row, stamp.claim));
            if !place.is_ok_and(|at| self.others[at].1.mark == Mark::Released) {
                self.states[row as usize] = HistoryState::Completed;
            }
        }
        let mut processing: Vec<InProgress> = Vec::new();
        for (row, stamp) in self.others {
            let is_completed = self.states[row as usize] == HistoryState::Completed;
            if is_completed || stamp.mark != Mark::Open {
                continue;
            }
            self.states[row as usize] = HistoryState::Processing;
            processing.push(InProgress { row, claim: stamp.claim, started_at: stamp.started_at });
        }
        LookedUp { states: self.states, processing, rests_on_log: self.rests_on_log }
    }
}
