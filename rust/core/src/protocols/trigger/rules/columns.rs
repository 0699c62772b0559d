//! The rules over a whole batch: one pass a column of facts, then one look-up a row.

use super::decide::{DecisionTable, count_bits, eligible_bits, history_bits};
use super::decided::{Decided, SEARCH_ROWS, Undecided};
use super::facts::{CountClass, KeyClass, count_class};
use super::outcome::Outcome;
use super::resolve::{settle_copies, suspend_later_rows};
use super::trigger::{Kind, Settings};
use crate::columns::{CountColumn, FlagColumn, Validity};
use crate::key::Copy;
use crate::types::HistoryState;

/// The facts of a batch of documents, as columns.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Number of rows; all columns have this length, unless noted.
    pub rows: usize,
    /// `guaranteed` or `persistent`; absent and null mean true.
    pub eligible: FlagColumn<'a>,
    /// The redelivery or delivery count.
    pub count: CountColumn<'a>,
    /// May be empty unless [`Settings::needs_history`].
    pub key_classes: &'a [KeyClass],
    /// May be empty unless [`Settings::needs_history`].
    pub history: &'a [HistoryState],
    /// All later copies of a usable key, by row in rising order.
    pub copies: &'a [Copy],
}

/// Rows that go through all passes in one chunk, so that their facts stay in the nearest cache.
const CHUNK_ROWS: usize = 1024;

/// Judges a batch: every row by itself, then the copies of a key, then the suspension of the
/// trigger.
pub fn decide(settings: &Settings, facts: &Facts<'_>) -> Decided {
    let mut outcomes = vec![Outcome::R0; facts.rows];
    DecisionTable::new(settings).write(facts, 0, &mut outcomes);
    settle(settings, outcomes, facts.copies)
}

/// The part of [`decide`] that needs all rows: for callers that let [`DecisionTable::write`] fill
/// `outcomes` in parts.
pub fn settle(settings: &Settings, mut outcomes: Vec<Outcome>, copies: &[Copy]) -> Decided {
    settle_copies(settings, &mut outcomes, copies);
    suspend_later_rows(&mut outcomes);
    let undecided = undecided(&outcomes);
    Decided { outcomes, undecided }
}

fn undecided(outcomes: &[Outcome]) -> Vec<Undecided> {
    let mut found = Vec::new();
    for (number, chunk) in outcomes.chunks(SEARCH_ROWS).enumerate() {
        if !Outcome::any_needs_look(chunk) {
            continue;
        }
        let rows = (number * SEARCH_ROWS) as u32..;
        let waiting = rows.zip(chunk).filter_map(|(row, outcome)| Some((row, outcome.unanswered_reason()?)));
        found.extend(waiting.map(|(row, reason)| Undecided { row, reason }));
    }
    found
}

impl DecisionTable {
    /// Judges the rows from `first_row` on, each as if it were alone, up to the length of
    /// `outcomes`. Undecided rows get the outcome of step S7. Parts of one batch may be written in
    /// any order and by several threads; [`settle`] then does the rest.
    pub fn write(&self, facts: &Facts<'_>, first_row: usize, outcomes: &mut [Outcome]) {
        if !self.settings.detect_duplicates {
            outcomes.fill(Outcome::R0);
            return;
        }
        let mut start = first_row;
        for chunk in outcomes.chunks_mut(CHUNK_ROWS) {
            self.write_chunk(facts, start, chunk);
            start += chunk.len();
        }
    }

    /// Collects the facts of a few rows as bits, one pass for each column that matters, and looks
    /// their outcomes up.
    fn write_chunk(&self, facts: &Facts<'_>, start: usize, outcomes: &mut [Outcome]) {
        let mut buffer = [0; CHUNK_ROWS];
        let bits = &mut buffer[..outcomes.len()];
        if self.settings.needs_history() {
            let rows = start..start + bits.len();
            let states = facts.key_classes[rows.clone()].iter().zip(&facts.history[rows]);
            for (bits, (&key, &history)) in bits.iter_mut().zip(states) {
                *bits = history_bits(key, history);
            }
        }
        if self.settings.needs_counts() {
            add_counts(&self.settings, &facts.count, start, bits);
        }
        add_eligible(&facts.eligible, start, bits);
        for (outcome, &bits) in outcomes.iter_mut().zip(bits.iter()) {
            *outcome = self.outcome(bits);
        }
    }
}

fn add_eligible(eligible: &FlagColumn<'_>, start: usize, bits: &mut [u8]) {
    match eligible {
        FlagColumn::Absent => bits.iter_mut().for_each(|bits| *bits |= eligible_bits(true)),
        FlagColumn::Bits { .. } => {
            for (row, bits) in (start..).zip(bits) {
                *bits |= eligible_bits(eligible.get(row).unwrap_or(true));
            }
        }
    }
}

fn add_counts(settings: &Settings, counts: &CountColumn<'_>, start: usize, bits: &mut [u8]) {
    match *counts {
        CountColumn::Absent => bits.iter_mut().for_each(|bits| *bits |= count_bits(CountClass::Undefined)),
        CountColumn::I8(values, nulls) => add_typed_counts(settings, values, nulls, start, bits),
        CountColumn::I16(values, nulls) => add_typed_counts(settings, values, nulls, start, bits),
        CountColumn::I32(values, nulls) => add_typed_counts(settings, values, nulls, start, bits),
        CountColumn::I64(values, nulls) => add_typed_counts(settings, values, nulls, start, bits),
    }
}

fn add_typed_counts<T>(settings: &Settings, values: &[T], nulls: Validity<'_>, start: usize, bits: &mut [u8])
where
    T: std::marker::Copy + Into<i64>,
{
    let values = &values[start..start + bits.len()];
    let most = settings.most_deliveries().unwrap_or(i64::MAX);
    // The kind is a constant inside each loop, and without nulls there is no branch on the row:
    // both can be vectorised.
    match (settings.kind, nulls.is_all()) {
        (Kind::Messaging, true) => {
            for (bits, &count) in bits.iter_mut().zip(values) {
                *bits |= count_bits(count_class(Kind::Messaging, most, Some(count.into())));
            }
        }
        (Kind::Jms, true) => {
            for (bits, &count) in bits.iter_mut().zip(values) {
                *bits |= count_bits(count_class(Kind::Jms, most, Some(count.into())));
            }
        }
        (kind, false) => {
            for ((row, bits), &count) in (start..).zip(bits).zip(values) {
                let count = nulls.is_valid(row).then(|| count.into());
                *bits |= count_bits(count_class(kind, most, count));
            }
        }
    }
}
