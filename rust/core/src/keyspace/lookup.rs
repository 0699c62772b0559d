//! Looking a batch up in a view: filters first, then exactly, then what all entries of a key together mean.

use super::view::View;
use crate::Result;
use crate::key::{Form, Key};
use crate::rules::HistoryState;
use crate::segment::Wanted;
use crate::segment::format::{Mark, Stamp};

/// So many rows that filters let through are looked up together: enough for every segment, few enough for a cache.
const TOGETHER: usize = 1 << 14;

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

/// What one part of a look-up found, apart from the states.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) processing: Vec<InProgress>,
    pub(crate) rests_on_log: bool,
    pub(crate) filter_positives: u64,
}

/// The text of a row whose form is text, by the row's number.
pub(crate) type TextOf<'a> = &'a (dyn Fn(u32) -> &'a [u8] + Sync);

/// Gathers what is found.
#[derive(Debug)]
struct Findings<'a> {
    view: &'a View,
    /// Entries that began at or before this time count no more.
    expired: i64,
    states: &'a mut [HistoryState],
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

/// Rows that a filter let through, with what it takes to look them up exactly.
#[derive(Debug, Default)]
struct Survivors {
    rows: Vec<u32>,
    keys: Vec<Key>,
    forms: Vec<Form>,
}

impl Survivors {
    /// Add rows of a chunk by their places in it.
    fn add(&mut self, chunk: &Wanted, first_row: u32, places: &[u32]) {
        self.rows.extend(places.iter().map(|place| first_row + place));
        self.keys.extend(places.iter().map(|place| chunk.keys[*place as usize]));
        self.forms.extend(places.iter().map(|place| chunk.forms[*place as usize]));
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.keys.clear();
        self.forms.clear();
    }
}

/// A look-up under way, chunk by chunk.
#[derive(Debug)]
pub(crate) struct LookUp<'a> {
    findings: Findings<'a>,
    of_covered: Vec<Survivors>,
    of_uncovered: Vec<Survivors>,
    /// What one filter let through of the present chunk.
    passed: Vec<u32>,
    filter_positives: u64,
}

impl View {
    /// Before the first chunk of a batch of as many rows as there are `states`, all of them absent. Entries that began at or
    /// before `expired` do not count.
    pub(crate) fn look_up<'a>(&'a self, states: &'a mut [HistoryState], expired: i64) -> LookUp<'a> {
        let none = |count: usize| std::iter::repeat_with(Survivors::default).take(count).collect();
        let findings = Findings { view: self, expired, states, others: Vec::new(), rests_on_log: false };
        let (of_covered, of_uncovered) = (none(self.covered.len()), none(self.uncovered.len()));
        LookUp { findings, of_covered, of_uncovered, passed: Vec::new(), filter_positives: 0 }
    }

    /// All of it, for a small batch.
    pub(crate) fn lookup(&self, wanted: &Wanted, expired: i64) -> Result<LookedUp> {
        let mut states = vec![HistoryState::Absent; wanted.keys.len()];
        let mut look_up = self.look_up(&mut states, expired);
        look_up.see(wanted, 0)?;
        let Found { processing, rests_on_log, filter_positives } = look_up.finish(wanted.text)?;
        Ok(LookedUp { states, processing, rests_on_log, filter_positives })
    }
}

impl LookUp<'_> {
    /// See a chunk whose first row is `first_row` of the batch: ask the log, and the filters. Nearly all rows end here, at one
    /// cache line each.
    pub(crate) fn see(&mut self, chunk: &Wanted, first_row: u32) -> Result<()> {
        let Self { findings, of_covered, of_uncovered, passed, filter_positives } = self;
        let view = findings.view;
        view.tail.find(chunk, first_row, &mut |row, stamp| {
            findings.rests_on_log = true;
            findings.add(row, stamp);
        });
        for (covered, survivors) in view.covered.iter().zip(of_covered) {
            passed.clear();
            covered.rollup.may_contain(chunk, 0, passed)?;
            *filter_positives += passed.len() as u64;
            survivors.add(chunk, first_row, passed);
        }
        for (segment, survivors) in view.uncovered.iter().zip(of_uncovered) {
            passed.clear();
            segment.may_contain(chunk, 0, passed)?;
            *filter_positives += passed.len() as u64;
            survivors.add(chunk, first_row, passed);
        }
        Ok(())
    }

    /// Whether so many rows are waiting to be looked up exactly that it should be done now.
    pub(crate) fn is_full(&self) -> bool {
        self.of_covered.iter().chain(&self.of_uncovered).any(|survivors| survivors.rows.len() >= TOGETHER)
    }

    /// Look up exactly what was let through so far.
    pub(crate) fn confirm(&mut self, text: TextOf) -> Result<()> {
        let Self { findings, of_covered, of_uncovered, .. } = self;
        let view = findings.view;
        for (covered, survivors) in view.covered.iter().zip(of_covered) {
            let Survivors { rows, keys, forms } = survivors;
            let text = |at: u32| text(rows[at as usize]);
            let wanted = Wanted { keys, forms, text: &text };
            let candidates = covered.rollup.candidates(&wanted)?;
            for group in candidates.chunk_by(|a, b| a.slot == b.slot) {
                let Some(Some(segment)) = covered.segments.get(group[0].slot as usize) else { continue };
                let places: Vec<u32> = group.iter().map(|candidate| candidate.row).collect();
                segment.find(&wanted, &places, &mut |at, stamp| findings.add(rows[at as usize], stamp))?;
            }
            survivors.clear();
        }
        for (segment, survivors) in view.uncovered.iter().zip(of_uncovered) {
            let Survivors { rows, keys, forms } = survivors;
            let text = |at: u32| text(rows[at as usize]);
            let places: Vec<u32> = (0..rows.len() as u32).collect();
            let wanted = Wanted { keys, forms, text: &text };
            segment.find(&wanted, &places, &mut |at, stamp| findings.add(rows[at as usize], stamp))?;
            survivors.clear();
        }
        Ok(())
    }

    /// After the last chunk.
    pub(crate) fn finish(mut self, text: TextOf) -> Result<Found> {
        self.confirm(text)?;
        let (processing, rests_on_log) = self.findings.finish();
        Ok(Found { processing, rests_on_log, filter_positives: self.filter_positives })
    }
}

impl Findings<'_> {
    /// A key is completed if any of its claims is; else processing if any claim is neither completed nor released.
    fn finish(mut self) -> (Vec<InProgress>, bool) {
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
        (processing, self.rests_on_log)
    }
}
