//! The table of rules R0 to R16 for one row, and the same table by all combinations of facts.

use super::facts::{CountClass, KeyClass};
use super::outcome::Outcome;
use super::reason::Reason;
use super::trigger::Settings;
use crate::types::HistoryState;

/// The facts of one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFacts {
    /// Whether it is guaranteed (messaging) or persistent (JMS).
    pub eligible: bool,
    /// The class of its count.
    pub count: CountClass,
    /// Whether it has a key.
    pub key: KeyClass,
    /// The state of the key in the history.
    pub history: HistoryState,
}

impl RowFacts {
    /// Every combination of facts.
    pub fn all() -> impl Iterator<Item = Self> {
        [false, true].into_iter().flat_map(|eligible| {
            CountClass::ALL.into_iter().flat_map(move |count| {
                KeyClass::ALL.into_iter().flat_map(move |key| {
                    HistoryState::ALL.into_iter().map(move |history| Self { eligible, count, key, history })
                })
            })
        })
    }

    /// The facts in one byte below [`COMBINATIONS`].
    pub(super) const fn bits(self) -> u8 {
        history_bits(self.key, self.history) | count_bits(self.count) | eligible_bits(self.eligible)
    }
}

/// How many values [`RowFacts::bits`] can take, rounded up to a power of two.
const COMBINATIONS: usize = 128;

#[inline]
pub(super) const fn history_bits(key: KeyClass, history: HistoryState) -> u8 {
    history as u8 | (key as u8) << 2
}

#[inline]
pub(super) const fn count_bits(count: CountClass) -> u8 {
    (count as u8) << 4
}

#[inline]
pub(super) const fn eligible_bits(eligible: bool) -> u8 {
    (eligible as u8) << 6
}

/// The decision of the rules for one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A verdict.
    Decided(Outcome),
    /// Ask the resolver.
    Undecided(Reason),
}

/// The rules for one row, as if it were alone in its batch: the first that matches wins.
pub fn decide_row(settings: &Settings, facts: RowFacts) -> Decision {
    if !settings.detect_duplicates {
        Decision::Decided(Outcome::R0)
    } else if !facts.eligible {
        Decision::Decided(Outcome::R1)
    } else if facts.count == CountClass::OverMax && settings.most_deliveries().is_some() {
        Decision::Decided(Outcome::R2)
    } else if settings.use_history {
        by_history(settings, facts)
    } else {
        by_count(settings, facts)
    }
}

/// Rules R3 to R11: the history is used, and the count never matters.
fn by_history(settings: &Settings, facts: RowFacts) -> Decision {
    match (facts.key, facts.history) {
        (KeyClass::Absent, _) => ask_or(settings, Reason::R3, Outcome::R3),
        (KeyClass::TooLong, _) => ask_or(settings, Reason::R4, Outcome::R4),
        (KeyClass::Usable, HistoryState::Unavailable) if settings.suspend => Decision::Decided(Outcome::R5),
        (KeyClass::Usable, HistoryState::Unavailable) => ask_or(settings, Reason::R6, Outcome::R7),
        (KeyClass::Usable, HistoryState::Absent) => Decision::Decided(Outcome::R8),
        (KeyClass::Usable, HistoryState::Completed) => Decision::Decided(Outcome::R9),
        (KeyClass::Usable, HistoryState::Processing) => ask_or(settings, Reason::R10, Outcome::R11),
    }
}

/// Rules R12 to R16: without a history only the count decides.
fn by_count(settings: &Settings, facts: RowFacts) -> Decision {
    match facts.count {
        CountClass::First => Decision::Decided(Outcome::R12),
        CountClass::Again | CountClass::OverMax => ask_or(settings, Reason::R13, Outcome::R14),
        CountClass::Undefined => ask_or(settings, Reason::R15, Outcome::R16),
    }
}

/// Leaves the row to the resolver, if the trigger has one.
fn ask_or(settings: &Settings, reason: Reason, without_resolver: Outcome) -> Decision {
    if settings.resolver { Decision::Undecided(reason) } else { Decision::Decided(without_resolver) }
}

/// The rules under one trigger's settings, by all combinations of facts.
#[derive(Clone, Debug)]
pub struct DecisionTable {
    pub(super) settings: Settings,
    by_bits: [Outcome; COMBINATIONS],
}

impl DecisionTable {
    /// Asks [`decide_row`] about every combination.
    pub fn new(settings: &Settings) -> Self {
        // Some bit patterns are no combination. If one is looked up after all, it must neither run
        // nor drop a document.
        let mut by_bits = [Outcome::R11; COMBINATIONS];
        // `for_each` is faster than `for`, which asks nested iterators for each next value: every
        // small batch pays for this.
        RowFacts::all().for_each(|facts| {
            by_bits[usize::from(facts.bits())] = match decide_row(settings, facts) {
                Decision::Decided(outcome) => outcome,
                Decision::Undecided(reason) => Outcome::unanswered(reason),
            };
        });
        Self { settings: *settings, by_bits }
    }

    /// The decision for one row.
    pub fn get(&self, facts: RowFacts) -> Decision {
        let outcome = self.outcome(facts.bits());
        outcome.unanswered_reason().map_or(Decision::Decided(outcome), Decision::Undecided)
    }

    #[inline]
    pub(super) fn outcome(&self, bits: u8) -> Outcome {
        self.by_bits[usize::from(bits) % COMBINATIONS]
    }
}
