//! One row at a time: the table of rules against a slow reading of it, for every combination.

use super::{all_settings, settings};
use crate::protocols::trigger::rules::{
    CountClass, Decision, DecisionTable, KeyClass, Kind, RowFacts, Settings, count_class, decide_row,
};
use crate::types::HistoryState;

/// The first table of the rules, condition by condition. A question mark stands for "ask the
/// resolver".
fn slow_reading(s: &Settings, f: RowFacts) -> &'static str {
    let has_key = f.key == KeyClass::Usable;
    let is_down = f.history == HistoryState::Unavailable;
    if !s.detect_duplicates {
        return "R0";
    }
    if !f.eligible {
        return "R1";
    }
    if f.count == CountClass::OverMax && (s.kind == Kind::Jms || s.max_redelivery_count.is_some()) {
        return "R2";
    }
    if s.use_history && f.key == KeyClass::Absent {
        return if s.resolver { "R3?" } else { "R3" };
    }
    if s.use_history && f.key == KeyClass::TooLong {
        return if s.resolver { "R4?" } else { "R4" };
    }
    if s.use_history && has_key && is_down && s.suspend {
        return "R5";
    }
    if s.use_history && has_key && is_down && !s.suspend && s.resolver {
        return "R6?";
    }
    if s.use_history && has_key && is_down && !s.suspend && !s.resolver {
        return "R7";
    }
    if s.use_history && f.history == HistoryState::Absent {
        return "R8";
    }
    if s.use_history && f.history == HistoryState::Completed {
        return "R9";
    }
    if s.use_history && f.history == HistoryState::Processing && s.resolver {
        return "R10?";
    }
    if s.use_history && f.history == HistoryState::Processing && !s.resolver {
        return "R11";
    }
    if f.count == CountClass::First {
        return "R12";
    }
    // Without a maximum every count above the first came before.
    if f.count == CountClass::Again || f.count == CountClass::OverMax {
        return if s.resolver { "R13?" } else { "R14" };
    }
    if s.resolver { "R15?" } else { "R16" }
}

fn spelt(decision: Decision) -> String {
    match decision {
        Decision::Decided(outcome) => outcome.rule().to_owned(),
        Decision::Undecided(reason) => format!("{}?", reason.rule()),
    }
}

#[test]
fn the_rules_agree_with_a_slow_reading_for_every_combination() {
    for settings in all_settings() {
        for facts in RowFacts::all() {
            assert_eq!(spelt(decide_row(&settings, facts)), slow_reading(&settings, facts), "{settings:?} {facts:?}");
        }
    }
}

#[test]
fn fact_table_agrees_with_the_rules_for_every_combination() {
    for settings in all_settings() {
        let table = DecisionTable::new(&settings);
        for facts in RowFacts::all() {
            assert_eq!(table.get(facts), decide_row(&settings, facts), "{settings:?} {facts:?}");
        }
    }
}

#[test]
fn facts_are_told_apart_by_their_bits() {
    let bits: std::collections::HashSet<u8> = RowFacts::all().map(RowFacts::bits).collect();
    assert_eq!(bits.len(), 2 * 4 * 3 * 4);
}

#[test]
fn what_is_said_not_to_be_needed_changes_nothing() {
    for settings in all_settings() {
        for facts in RowFacts::all() {
            let mut blind = facts;
            if !settings.needs_history() {
                (blind.key, blind.history) = (KeyClass::Absent, HistoryState::Unavailable);
            }
            if !settings.needs_counts() {
                blind.count = CountClass::Undefined;
            }
            assert_eq!(decide_row(&settings, blind), decide_row(&settings, facts), "{settings:?} {facts:?}");
        }
    }
}

#[test]
fn with_the_history_a_count_of_zero_never_makes_a_document_new() {
    let facts =
        RowFacts { eligible: true, count: CountClass::First, key: KeyClass::Usable, history: HistoryState::Completed };
    assert_eq!(spelt(decide_row(&settings(), facts)), "R9");
}

#[test]
fn messaging_counts_redeliveries_from_zero() {
    let class = |count| count_class(Kind::Messaging, i64::MAX, count);
    assert_eq!([None, Some(i64::MIN), Some(-2), Some(-1)].map(class), [CountClass::Undefined; 4]);
    assert_eq!(class(Some(0)), CountClass::First);
    assert_eq!([1, 3, i64::MAX - 1].map(|count| class(Some(count))), [CountClass::Again; 3]);
    let limited = |count| count_class(Kind::Messaging, 3, Some(count));
    assert_eq!([0, 1, 2, 3, 4].map(limited)[2..], [CountClass::Again, CountClass::OverMax, CountClass::OverMax]);
}

#[test]
fn jms_counts_deliveries_from_one_to_a_maximum() {
    let class = |count| count_class(Kind::Jms, 3, count);
    assert_eq!([None, Some(i64::MIN), Some(-1), Some(0)].map(class), [CountClass::Undefined; 4]);
    assert_eq!(class(Some(1)), CountClass::First);
    assert_eq!(class(Some(2)), CountClass::Again);
    assert_eq!([3, 4, i64::MAX].map(|count| class(Some(count))), [CountClass::OverMax; 3]);
    assert_eq!(count_class(Kind::Jms, 1, Some(1)), CountClass::OverMax);
}
