//! Looking a batch up in a view: first filter, then look up exactly, then combine all entries of a
//! key.

mod findings;
mod survivors;

pub use findings::InProgress;
pub(crate) use findings::LookedUp;

use super::view::View;
use crate::Result;
use crate::segment::Wanted;
use crate::types::HistoryState;
use findings::Findings;
use survivors::{BLOCK, Survivor, TextOf, each_block, each_sorted_block, of_block, of_place};

/// Number of rows that pass a filter before they are looked up: enough that neighbours in the order
/// of keys are on the same pages.
const TOGETHER: usize = if cfg!(feature = "small") { 1 << 7 } else { 1 << 20 };

/// A look-up in progress, chunk by chunk.
#[derive(Debug)]
pub(crate) struct LookUp<'a> {
    findings: Findings<'a>,
    /// What passed the union filter, and is not looked for in its two parts yet.
    of_union: Vec<Survivor>,
    /// Whether the union filter rules most rows out: else its parts are asked at once.
    narrows: bool,
    /// Whether the first completed entry of a key is enough, and other claims need not be told.
    decides: bool,
    of_covered: Vec<Vec<Survivor>>,
    /// What passed the young filter, and what each segment's own filter let pass that is asked by
    /// itself.
    of_young: Vec<Survivor>,
    of_apart: Vec<Vec<Survivor>>,
    /// Rows of the present chunk that passed one filter.
    passed: Vec<u32>,
    filter_positives: u64,
}

impl View {
    /// Start the look-up of a batch with the length of `states`, all of them absent. Entries that
    /// began at or before `expired` do not count. Of a key that is completed, not all open claims
    /// are told.
    pub(crate) fn decide<'a>(&'a self, states: &'a mut [HistoryState], expired: i64) -> LookUp<'a> {
        LookUp { decides: true, ..self.look_up(states, expired) }
    }

    /// The same with all open claims.
    fn look_up<'a>(&'a self, states: &'a mut [HistoryState], expired: i64) -> LookUp<'a> {
        let none = |count: usize| std::iter::repeat_with(Vec::new).take(count).collect();
        LookUp {
            findings: Findings::new(self, states, expired),
            of_union: Vec::new(),
            narrows: true,
            decides: false,
            of_covered: none(self.covered.len()),
            of_young: Vec::new(),
            of_apart: none(self.apart.len()),
            passed: Vec::new(),
            filter_positives: 0,
        }
    }

    /// The whole look-up, for a small batch.
    pub(crate) fn lookup(&self, wanted: &Wanted, expired: i64) -> Result<LookedUp> {
        let mut states = vec![HistoryState::Absent; wanted.keys.len()];
        let mut look_up = self.look_up(&mut states, expired);
        look_up.see(wanted, 0)?;
        let found = look_up.finish(wanted.text)?;
        Ok(LookedUp { states, ..found })
    }
}

impl LookUp<'_> {
    /// Filter a chunk whose first row is `first_row` of the batch. Nearly all rows end here, at one
    /// cache line of the union filter, or one of a global filter and one of the young filter each.
    pub(crate) fn see(&mut self, chunk: &Wanted, first_row: u32) -> Result<()> {
        let view = self.findings.view;
        let of = |place: u32| of_place(chunk, first_row, place);
        match view.union.as_ref().filter(|_| self.narrows) {
            Some(union) => {
                self.passed.clear();
                union.may_contain(chunk, &mut self.passed)?;
                self.of_union.extend(self.passed.iter().map(|place| of(*place)));
                self.narrows = self.passed.len() <= chunk.keys.len() / 2;
            }
            None => self.ask_parts(chunk, of)?,
        }
        for (segment, survivors) in view.apart.iter().zip(&mut self.of_apart) {
            self.passed.clear();
            segment.may_contain(chunk, 0, &mut self.passed)?;
            survivors.extend(self.passed.iter().map(|place| of(*place)));
        }
        Ok(())
    }

    /// Ask the global filters and the young filter about some rows, or the memtables where it has
    /// few keys; `of` tells the rows by their places.
    fn ask_parts(&mut self, wanted: &Wanted, of: impl Fn(u32) -> Survivor) -> Result<()> {
        let Self { findings, of_covered, of_young, passed, .. } = self;
        let view = findings.view;
        if view.young.is_active() {
            passed.clear();
            view.young.may_contain(wanted, passed)?;
            of_young.extend(passed.iter().map(|place| of(*place)));
        } else {
            findings.ask_memory(wanted, |place| of(place).row);
        }
        for (covered, survivors) in view.covered.iter().zip(of_covered) {
            passed.clear();
            covered.global_filter.may_contain(wanted, 0, passed)?;
            survivors.extend(passed.iter().map(|place| of(*place)));
        }
        Ok(())
    }

    /// Whether enough rows wait to be looked up exactly.
    pub(crate) fn is_full(&self) -> bool {
        let each = self.of_covered.iter().chain(&self.of_apart).chain([&self.of_young, &self.of_union]);
        each.into_iter().any(|survivors| survivors.len() >= TOGETHER)
    }

    /// Look up the rows exactly that passed so far.
    pub(crate) fn confirm(&mut self, text: TextOf) -> Result<()> {
        let of_union = std::mem::take(&mut self.of_union);
        each_block(&of_union, BLOCK, text, |wanted, rows| self.ask_parts(wanted, |at| of_block(wanted, rows, at)))?;
        self.confirm_covered(text)?;
        self.confirm_young(text)?;
        self.confirm_apart(text)
    }

    /// Look up what passed the global filters.
    fn confirm_covered(&mut self, text: TextOf) -> Result<()> {
        let Self { findings, of_covered, filter_positives, .. } = self;
        let mut places = Vec::new();
        for (covered, survivors) in findings.view.covered.iter().zip(of_covered) {
            *filter_positives += survivors.len() as u64;
            each_sorted_block(survivors, text, |wanted, rows| {
                let candidates = covered.global_filter.candidates(wanted)?;
                for group in candidates.chunk_by(|a, b| a.slot == b.slot) {
                    let Some(Some(segment)) = covered.segments.get(group[0].slot as usize) else { continue };
                    places.clear();
                    places.extend(group.iter().map(|candidate| candidate.row));
                    segment.find(wanted, &places, &mut |at, stamp| findings.add(rows[at as usize], stamp))?;
                }
                Ok(())
            })?;
            survivors.clear();
        }
        Ok(())
    }

    /// Look up what passed the young filter: in memory, which is likely to know what came again
    /// soon, and in the segments that it covers. Where one answer decides, and few of the first
    /// rows are completed in memory, these segments are asked first about the others.
    fn confirm_young(&mut self, text: TextOf) -> Result<()> {
        let Self { findings, decides, of_young, filter_positives, .. } = self;
        *filter_positives += of_young.len() as u64;
        let view = findings.view;
        let mut survivors = std::mem::take(of_young);
        // Entries without an index are read once for all rows.
        let most = if view.has_pending() { TOGETHER } else { BLOCK };
        let mut later = survivors.split_off(most.min(survivors.len()));
        findings.ask_memtables(&survivors, most, text)?;
        let decided = survivors.iter().filter(|survivor| findings.is_completed(survivor.row)).count();
        if *decides && decided < survivors.len() / 2 {
            findings.ask_joined(&mut later, text, true)?;
            later.retain(|survivor| !findings.is_completed(survivor.row));
            findings.ask_memtables(&later, most, text)?;
        } else {
            findings.ask_memtables(&later, most, text)?;
            survivors.append(&mut later);
        }
        findings.ask_joined(&mut survivors, text, *decides)
    }

    /// Look up what passed the filters of segments that are asked one by one.
    fn confirm_apart(&mut self, text: TextOf) -> Result<()> {
        let Self { findings, of_apart, filter_positives, .. } = self;
        let mut places = Vec::new();
        for (segment, survivors) in findings.view.apart.iter().zip(of_apart) {
            *filter_positives += survivors.len() as u64;
            each_sorted_block(survivors, text, |wanted, rows| {
                places.clear();
                places.extend(0..rows.len() as u32);
                segment.find(wanted, &places, &mut |at, stamp| findings.add(rows[at as usize], stamp))
            })?;
            survivors.clear();
        }
        Ok(())
    }

    /// After the last chunk: the open claims, and whether an answer rests on the log. The states
    /// are in the slice that the look-up was started with.
    pub(crate) fn finish(mut self, text: TextOf) -> Result<LookedUp> {
        self.confirm(text)?;
        Ok(LookedUp { filter_positives: self.filter_positives, ..self.findings.finish() })
    }
}
