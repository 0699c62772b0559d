//! Looking a batch up in a view: filters first, then exactly, then what all entries of a key together mean.

use super::view::View;
use crate::Result;
use crate::rules::HistoryState;
use crate::segment::Wanted;
use crate::segment::format::{Mark, Stamp};

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
    /// The open claims, sorted by row, then by claim; also those of a row that another claim completed.
    pub(crate) processing: Vec<InProgress>,
    /// Whether an answer rests on the log rather than on a segment alone.
    pub(crate) rests_on_log: bool,
    /// How often a filter let a row through, and it had to be looked up exactly.
    pub(crate) filter_positives: u64,
}

/// Gathers what is found.
struct Findings<'a> {
    view: &'a View,
    /// Entries that began at or before this time count no more.
    expired: i64,
    states: Vec<HistoryState>,
    /// Open and released entries: they need to be weighed against each other.
    others: Vec<(u32, Stamp)>,
    rests_on_log: bool,
}

impl Findings<'_> {
    #[inline]
    fn add(&mut self, row: u32, stamp: Stamp) {
        if stamp.started_at <= self.expired {
            return;
        }
        if stamp.mark == Mark::Completed {
            self.states[row as usize] = HistoryState::Completed;
        } else {
            self.others.push((row, stamp));
        }
    }
}

/// What the filters of a view let through of a batch, and what its log holds of it: the first, chunk-wise step.
#[derive(Debug)]
pub(crate) struct Sifted {
    of_covered: Vec<Vec<u32>>,
    of_uncovered: Vec<Vec<u32>>,
    of_log: Vec<(u32, Stamp)>,
}

impl View {
    /// Before the first chunk.
    pub(crate) fn sifted(&self) -> Sifted {
        let none = |count: usize| vec![Vec::new(); count];
        Sifted { of_covered: none(self.covered.len()), of_uncovered: none(self.uncovered.len()), of_log: Vec::new() }
    }

    /// Sift a chunk whose first row is `first_row` of the batch. Nearly all rows end here, at one cache line each.
    pub(crate) fn sift(&self, chunk: &Wanted, first_row: u32, sifted: &mut Sifted) -> Result<()> {
        self.tail.find(chunk, first_row, &mut |row, stamp| sifted.of_log.push((row, stamp)));
        for (covered, survivors) in self.covered.iter().zip(&mut sifted.of_covered) {
            covered.rollup.may_contain(chunk, first_row, survivors)?;
        }
        for (segment, survivors) in self.uncovered.iter().zip(&mut sifted.of_uncovered) {
            segment.may_contain(chunk, first_row, survivors)?;
        }
        Ok(())
    }

    /// The second step: look up exactly what was let through. Entries that began at or before `expired` do not count.
    pub(crate) fn confirm(&self, wanted: &Wanted, sifted: &Sifted, expired: i64) -> Result<LookedUp> {
        let states = vec![HistoryState::Absent; wanted.keys.len()];
        let rests_on_log = !sifted.of_log.is_empty();
        let mut findings = Findings { view: self, expired, states, others: Vec::new(), rests_on_log };
        for (row, stamp) in &sifted.of_log {
            findings.add(*row, *stamp);
        }
        for (covered, survivors) in self.covered.iter().zip(&sifted.of_covered) {
            let candidates = covered.rollup.candidates(wanted, survivors)?;
            for group in candidates.chunk_by(|a, b| a.slot == b.slot) {
                let Some(Some(segment)) = covered.segments.get(group[0].slot as usize) else { continue };
                let rows: Vec<u32> = group.iter().map(|candidate| candidate.row).collect();
                segment.find(wanted, &rows, &mut |row, stamp| findings.add(row, stamp))?;
            }
        }
        for (segment, survivors) in self.uncovered.iter().zip(&sifted.of_uncovered) {
            segment.find(wanted, survivors, &mut |row, stamp| findings.add(row, stamp))?;
        }
        let let_through = sifted.of_covered.iter().chain(&sifted.of_uncovered).map(|rows| rows.len() as u64).sum();
        Ok(LookedUp { filter_positives: let_through, ..findings.finish() })
    }

    /// Both steps, for a small batch.
    pub(crate) fn lookup(&self, wanted: &Wanted, expired: i64) -> Result<LookedUp> {
        let mut sifted = self.sifted();
        self.sift(wanted, 0, &mut sifted)?;
        self.confirm(wanted, &sifted, expired)
    }
}

impl Findings<'_> {
    /// A key is completed if any of its claims is; else processing if any claim is neither completed nor released.
    fn finish(mut self) -> LookedUp {
        let key_first = |(row, stamp): &(u32, Stamp)| (*row, stamp.claim, std::cmp::Reverse(stamp.mark));
        self.others.sort_unstable_by_key(key_first);
        // Of each claim only the strongest mark of this key counts, which now stands first: what was said of the key itself
        // outweighs what became of its claim as a whole.
        self.others.dedup_by_key(|(row, stamp)| (*row, stamp.claim));
        for (row, stamp) in &mut self.others {
            let written = stamp.mark;
            stamp.mark = self.view.tail.effective(*stamp);
            // The outcome of a sealed claim may come from the log.
            self.rests_on_log |= written != stamp.mark;
            if stamp.mark == Mark::Completed {
                self.states[*row as usize] = HistoryState::Completed;
            }
        }
        let mut processing: Vec<InProgress> = Vec::new();
        for (row, stamp) in self.others {
            if stamp.mark == Mark::Open {
                let state = &mut self.states[row as usize];
                if *state != HistoryState::Completed {
                    *state = HistoryState::Processing;
                }
                processing.push(InProgress { row, claim: stamp.claim, started_at: stamp.started_at });
            }
        }
        LookedUp { states: self.states, processing, rests_on_log: self.rests_on_log, filter_positives: 0 }
    }
}
