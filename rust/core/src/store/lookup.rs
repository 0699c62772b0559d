//! Looking a batch up in a view: first filter, then look up exactly, then combine all entries of a
//! key.

use super::view::View;
use crate::Result;
use crate::key::{Form, Key};
use crate::segment::Wanted;
use crate::segment::format::{Mark, Stamp};
use crate::segment::sort;
use crate::types::HistoryState;

/// Number of rows that pass a filter before they are looked up: enough that neighbours in the order
/// of keys are on the same pages.
const TOGETHER: usize = 1 << 19;

/// Number of these rows that are looked up at a time: few enough that they stay in the cache from
/// the index to the segments.
const BLOCK: usize = 1 << 13;

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
        self.rests_on_log |= part.rests_on_log;
        self.has_expired |= part.has_expired;
        self.filter_positives += part.filter_positives;
    }
}

/// The text of a row whose form is text, by the row's number.
pub(crate) type TextOf<'a> = &'a (dyn Fn(u32) -> &'a [u8] + Sync);

/// Collects results.
#[derive(Debug)]
struct Findings<'a> {
    view: &'a View,
    /// Entries that began at or before this time no longer count.
    expired: i64,
    states: &'a mut [HistoryState],
    /// Open and released entries, which must be compared with each other.
    others: Vec<(u32, Stamp)>,
    rests_on_log: bool,
    has_expired: bool,
}

impl Findings<'_> {
    fn is_completed(&self, row: u32) -> bool {
        self.states[row as usize] == HistoryState::Completed
    }

    #[inline]
    fn add(&mut self, row: u32, stamp: Stamp) {
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
}

/// A row that passed a filter, with the fields for its exact look-up.
#[derive(Clone, Copy, Debug, Default)]
struct Survivor {
    key: Key,
    row: u32,
    form: Form,
}

/// Some survivors as columns.
#[derive(Debug, Default)]
struct Block {
    rows: Vec<u32>,
    keys: Vec<Key>,
    forms: Vec<Form>,
}

impl Block {
    fn fill(&mut self, survivors: &[Survivor]) {
        self.rows.clear();
        self.rows.extend(survivors.iter().map(|survivor| survivor.row));
        self.keys.clear();
        self.keys.extend(survivors.iter().map(|survivor| survivor.key));
        self.forms.clear();
        self.forms.extend(survivors.iter().map(|survivor| survivor.form));
    }

    fn look<T>(&self, text: TextOf, look: impl FnOnce(&Wanted, &[u32]) -> T) -> T {
        let Self { rows, keys, forms } = self;
        look(&Wanted { keys, forms, text: &|at| text(rows[at as usize]) }, rows)
    }

    /// Keep some rows only.
    fn retain(&mut self, mut keeps: impl FnMut(u32) -> bool) {
        let mut kept = 0;
        for at in 0..self.rows.len() {
            if keeps(self.rows[at]) {
                (self.rows[kept], self.keys[kept], self.forms[kept]) = (self.rows[at], self.keys[at], self.forms[at]);
                kept += 1;
            }
        }
        self.rows.truncate(kept);
        self.keys.truncate(kept);
        self.forms.truncate(kept);
    }
}

/// Passes survivors, `most` at a time.
fn each_block(
    survivors: &[Survivor],
    most: usize,
    text: TextOf,
    mut look: impl FnMut(&Wanted, &[u32]) -> Result<()>,
) -> Result<()> {
    let mut block = Block::default();
    for survivors in survivors.chunks(most) {
        block.fill(survivors);
        block.look(text, &mut look)?;
    }
    Ok(())
}

/// Passes all survivors block by block, in the order in which files hold their keys, and forgets
/// them.
fn each_sorted_block(
    survivors: &mut Vec<Survivor>,
    text: TextOf,
    look: impl FnMut(&Wanted, &[u32]) -> Result<()>,
) -> Result<()> {
    let mut sorted = std::mem::take(survivors);
    sort::roughly_by_key(&mut sorted, |survivor| survivor.key);
    each_block(&sorted, BLOCK, text, look)
}

/// A row of a chunk by its place there.
fn of_place(chunk: &Wanted, first_row: u32, place: u32) -> Survivor {
    Survivor { key: chunk.keys[place as usize], row: first_row + place, form: chunk.forms[place as usize] }
}

/// A row of a block by its place there.
fn of_block(block: &Wanted, rows: &[u32], place: u32) -> Survivor {
    Survivor { row: rows[place as usize], ..of_place(block, 0, place) }
}

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
        let (others, rests_on_log, has_expired) = (Vec::new(), false, false);
        let findings = Findings { view: self, expired, states, others, rests_on_log, has_expired };
        let (of_covered, of_young, of_apart) = (none(self.covered.len()), Vec::new(), none(self.apart.len()));
        let (of_union, narrows, decides, passed) = (Vec::new(), true, false, Vec::new());
        LookUp { findings, of_union, narrows, decides, of_covered, of_young, of_apart, passed, filter_positives: 0 }
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
        let Self { findings, of_union, narrows, of_covered, of_young, of_apart, passed, .. } = self;
        let view = findings.view;
        let union = view.union.as_ref().filter(|_| *narrows);
        if let Some(union) = union {
            passed.clear();
            union.may_contain(chunk, passed)?;
            of_union.extend(passed.iter().map(|place| of_place(chunk, first_row, *place)));
            *narrows = passed.len() <= chunk.keys.len() / 2;
        } else if view.young.is_active() {
            passed.clear();
            view.young.may_contain(chunk, passed)?;
            of_young.extend(passed.iter().map(|place| of_place(chunk, first_row, *place)));
        } else {
            view.find_in_memory(chunk, &mut |place, stamp, is_in_log| {
                findings.rests_on_log |= is_in_log;
                findings.add(first_row + place, stamp);
            });
        }
        for (covered, survivors) in view.covered.iter().zip(of_covered).filter(|_| union.is_none()) {
            passed.clear();
            covered.global_filter.may_contain(chunk, 0, passed)?;
            survivors.extend(passed.iter().map(|place| of_place(chunk, first_row, *place)));
        }
        for (segment, survivors) in view.apart.iter().zip(of_apart) {
            passed.clear();
            segment.may_contain(chunk, 0, passed)?;
            survivors.extend(passed.iter().map(|place| of_place(chunk, first_row, *place)));
        }
        Ok(())
    }

    /// Whether enough rows wait to be looked up exactly.
    pub(crate) fn is_full(&self) -> bool {
        let each = self.of_covered.iter().chain(&self.of_apart).chain([&self.of_young, &self.of_union]);
        each.into_iter().any(|survivors| survivors.len() >= TOGETHER)
    }

    /// Ask the parts of the union filter about the rows that passed it.
    fn part_union(&mut self, text: TextOf) -> Result<()> {
        let Self { findings, of_union, of_covered, of_young, passed, .. } = self;
        let view = findings.view;
        each_block(of_union, BLOCK, text, |wanted, rows| {
            let of = |place: &u32| of_block(wanted, rows, *place);
            if view.young.is_active() {
                passed.clear();
                view.young.may_contain(wanted, passed)?;
                of_young.extend(passed.iter().map(of));
            } else {
                of_young.extend((0..wanted.keys.len() as u32).map(|place| of(&place)));
            }
            for (covered, survivors) in view.covered.iter().zip(&mut *of_covered) {
                passed.clear();
                covered.global_filter.may_contain(wanted, 0, passed)?;
                survivors.extend(passed.iter().map(of));
            }
            Ok(())
        })?;
        of_union.clear();
        Ok(())
    }

    /// Look up the rows exactly that passed so far.
    pub(crate) fn confirm(&mut self, text: TextOf) -> Result<()> {
        self.part_union(text)?;
        let Self { findings, decides, of_covered, of_young, of_apart, filter_positives, .. } = self;
        let view = findings.view;
        let each = of_covered.iter().chain(&*of_apart).chain([&*of_young]);
        *filter_positives += each.map(|rows| rows.len() as u64).sum::<u64>();
        let mut places = Vec::new();
        // Entries in memory stand in the order of their rows, files in that of keys. Those without
        // an index are read once for all rows.
        let most = if view.has_pending() { TOGETHER } else { BLOCK };
        each_block(of_young, most, text, |wanted, rows| {
            view.find_in_memory(wanted, &mut |at, stamp, is_in_log| {
                findings.rests_on_log |= is_in_log;
                findings.add(rows[at as usize], stamp);
            });
            Ok(())
        })?;
        findings.ask_joined(of_young, text, *decides)?;
        for (covered, survivors) in view.covered.iter().zip(of_covered) {
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
        }
        for (segment, survivors) in view.apart.iter().zip(of_apart) {
            each_sorted_block(survivors, text, |wanted, rows| {
                places.clear();
                places.extend(0..rows.len() as u32);
                segment.find(wanted, &places, &mut |at, stamp| findings.add(rows[at as usize], stamp))
            })?;
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

impl Findings<'_> {
    /// Ask the segments that the young filter covers, and forget the survivors. Where one answer
    /// decides, a row that is completed is not looked for any further.
    fn ask_joined(&mut self, survivors: &mut Vec<Survivor>, text: TextOf, decides: bool) -> Result<()> {
        let joined = &self.view.joined;
        let mut sorted = std::mem::take(survivors);
        if joined.is_empty() {
            return Ok(());
        }
        if decides {
            sorted.retain(|survivor| !self.is_completed(survivor.row));
        }
        sort::roughly_by_key(&mut sorted, |survivor| survivor.key);
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
    fn finish(mut self) -> LookedUp {
        let key_first = |(row, stamp): &(u32, Stamp)| (*row, stamp.claim, std::cmp::Reverse(stamp.mark));
        self.others.sort_unstable_by_key(key_first);
        // Of each claim only the strongest mark of this key counts, which now comes first: an end
        // of the key itself outweighs the end of its claim.
        self.others.dedup_by_key(|(row, stamp)| (*row, stamp.claim));
        for (row, stamp) in &mut self.others {
            let written = stamp.mark;
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
        let (rests_on_log, has_expired) = (self.rests_on_log, self.has_expired);
        LookedUp { processing, rests_on_log, has_expired, ..LookedUp::default() }
    }
}
