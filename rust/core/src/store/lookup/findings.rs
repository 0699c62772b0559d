//! What look-ups found, and how the entries of a key are combined.

use super::survivors::{BLOCK, Block, Survivor, TextOf, each_block};
use crate::Result;
use crate::segment::Wanted;
use crate::segment::format::{Mark, Stamp};
use crate::segment::sort;
use crate::store::view::View;
use crate::types::HistoryState;

/// What part of a block has passed segments' filters before it is narrowed: to copy a row costs
/// less than to ask a filter about it.
const NARROWED: usize = 16;

/// A key that an open claim has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InProgress {
    /// Row of the batch.
    pub row: u32,
    /// An open claim.
    pub claim: u64,
    /// When its service began, in microseconds since 1970.
    pub started_at: i64,
}

/// The history's states for a batch.
#[derive(Debug, Default)]
pub(crate) struct LookedUp {
    /// One state a row.
    pub(crate) states: Vec<HistoryState>,
    /// The open claims, sorted by row, then by claim; including those of a row that another claim
    /// completed.
    pub(crate) processing: Vec<InProgress>,
    /// The rows that were released by themselves, with the claim.
    pub(crate) released: Vec<(u32, u64)>,
    /// Whether an answer rests on the log rather than on a segment alone.
    pub(crate) rests_on_log: bool,
    /// Whether entries were found that no longer count.
    pub(crate) has_expired: bool,
    /// Number of rows that passed a filter and had to be looked up exactly.
    pub(crate) filter_positives: u64,
}

impl LookedUp {
    /// Add the results of another part of the batch.
    pub(crate) fn add(&mut self, part: Self) {
        self.processing.extend(part.processing);
        self.released.extend(part.released);
        self.rests_on_log |= part.rests_on_log;
        self.has_expired |= part.has_expired;
        self.filter_positives += part.filter_positives;
    }
}

/// Collects results.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    pub(super) view: &'a View,
    /// Entries that began at or before this time no longer count.
    expired: i64,
    states: &'a mut [HistoryState],
    /// Open and released entries, which must be compared with each other.
    others: Vec<(u32, Stamp)>,
    pub(super) rests_on_log: bool,
    has_expired: bool,
}

impl<'a> Findings<'a> {
    pub(super) fn new(view: &'a View, states: &'a mut [HistoryState], expired: i64) -> Self {
        Self { view, expired, states, others: Vec::new(), rests_on_log: false, has_expired: false }
    }

    pub(super) fn is_completed(&self, row: u32) -> bool {
        self.states[row as usize] == HistoryState::Completed
    }

    #[inline]
    pub(super) fn add(&mut self, row: u32, stamp: Stamp) {
        if stamp.started_at <= self.expired {
            self.has_expired = true;
            return;
        }
        if stamp.mark == Mark::Completed {
            self.states[row as usize] = HistoryState::Completed;
        } else {
            self.others.push((row, stamp));
        }
    }

    /// Ask the log and the frozen log; `row_of` tells the rows by their places.
    pub(super) fn ask_memory(&mut self, wanted: &Wanted, row_of: impl Fn(u32) -> u32) {
        self.view.find_in_memory(wanted, &mut |place, stamp, is_in_log| {
            self.rests_on_log |= is_in_log;
            self.add(row_of(place), stamp);
        });
    }

    /// Ask them about survivors, `most` at a time: their entries stand in the order of their rows,
    /// and not in that of keys as in files.
    pub(super) fn ask_memtables(&mut self, survivors: &[Survivor], most: usize, text: TextOf) -> Result<()> {
        each_block(survivors, most, text, |wanted, rows| {
            self.ask_memory(wanted, |at| rows[at as usize]);
            Ok(())
        })
    }

    /// Ask the segments that the young filter covers. Where one answer decides, a row that is
    /// completed is not looked for any further.
    pub(super) fn ask_joined(&mut self, sorted: &mut Vec<Survivor>, text: TextOf, decides: bool) -> Result<()> {
        let joined = &self.view.joined;
        if joined.is_empty() {
            return Ok(());
        }
        if decides {
            sorted.retain(|survivor| !self.is_completed(survivor.row));
        }
        sort::roughly_by_key(sorted, |survivor| survivor.key);
        let (mut block, mut places) = (Block::default(), Vec::new());
        for survivors in sorted.chunks(BLOCK) {
            block.fill(survivors);
            let mut passed = 0;
            for segment in joined {
                block.look(text, |wanted, rows| {
                    places.clear();
                    segment.may_contain(wanted, 0, &mut places)?;
                    segment.find(wanted, &places, &mut |at, stamp| self.add(rows[at as usize], stamp))
                })?;
                passed += places.len();
                if decides && passed > block.rows.len() / NARROWED {
                    block.retain(|row| !self.is_completed(row));
                    passed = 0;
                }
            }
        }
        Ok(())
    }

    /// A key is completed if any of its claims is; else processing if any claim is neither
    /// completed nor released.
    pub(super) fn finish(mut self) -> LookedUp {
        self.keep_strongest();
        let mut released = Vec::new();
        for (row, stamp) in &mut self.others {
            let written = stamp.mark;
            if written == Mark::Released {
                released.push((*row, stamp.claim));
            }
            stamp.mark = self.view.memtable.effective(*stamp);
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
        processing.sort_unstable_by_key(|entry| (entry.row, entry.claim));
        let (rests_on_log, has_expired) = (self.rests_on_log, self.has_expired);
        LookedUp { processing, released, rests_on_log, has_expired, ..LookedUp::default() }
    }

    /// Of each claim only the strongest mark of a key counts: an end of the key itself outweighs
    /// the end of its claim. Nearly all rows have one entry, which needs no comparison.
    fn keep_strongest(&mut self) {
        let mut seen = Rows::of(self.states.len());
        let again: Vec<u32> = self.others.iter().map(|(row, _)| *row).filter(|row| seen.put(*row)).collect();
        if again.is_empty() {
            return;
        }
        let mut several = Rows::of(self.states.len());
        for row in again {
            several.put(row);
        }
        let others = std::mem::take(&mut self.others).into_iter();
        let (mut compared, others): (Vec<_>, Vec<_>) = others.partition(|(row, _)| several.holds(*row));
        self.others = others;
        compared.sort_unstable_by_key(|(row, stamp)| (*row, stamp.claim, std::cmp::Reverse(stamp.mark)));
        compared.dedup_by_key(|(row, stamp)| (*row, stamp.claim));
        self.others.append(&mut compared);
    }
}

/// Rows of a batch, a bit each.
struct Rows(Vec<u64>);

impl Rows {
    fn of(rows: usize) -> Self {
        Self(vec![0; rows.div_ceil(64)])
    }

    /// Put a row in; answers whether it was there.
    fn put(&mut self, row: u32) -> bool {
        let was_there = self.holds(row);
        self.0[row as usize / 64] |= 1 << (row % 64);
        was_there
    }

    fn holds(&self, row: u32) -> bool {
        self.0[row as usize / 64] & (1 << (row % 64)) != 0
    }
}
