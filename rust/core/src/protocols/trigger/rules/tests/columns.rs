//! Whole columns: every layout of counts and flags, and batches written in parts.

use super::settings;
use crate::columns::{CountColumn, FlagColumn, Validity};
use crate::protocols::trigger::rules::{DecisionTable, Facts, KeyClass, Kind, Outcome, Settings, decide, settle};
use crate::types::HistoryState;

fn by_counts(kind: Kind, rows: usize, count: CountColumn<'_>, eligible: FlagColumn<'_>) -> Vec<&'static str> {
    let settings = Settings { kind, use_history: false, resolver: true, max_delivery_count: 3, ..settings() };
    let facts = Facts { rows, eligible, count, key_classes: &[], history: &[], copies: &[] };
    decide(&settings, &facts).outcomes.into_iter().map(Outcome::rule).collect()
}

#[test]
fn counts_of_every_width_are_read() {
    let expected = ["R15>S7", "R12", "R13>S7", "R13>S7"];
    let all = Validity::all();
    let columns = [
        CountColumn::I8(&[-1, 0, 1, 3], all),
        CountColumn::I16(&[-1, 0, 1, 3], all),
        CountColumn::I32(&[-1, 0, 1, 3], all),
        CountColumn::I64(&[-1, 0, 1, 3], all),
    ];
    for column in columns {
        assert_eq!(by_counts(Kind::Messaging, 4, column, FlagColumn::Absent), expected);
    }
}

#[test]
fn jms_counts_reach_their_maximum() {
    let counts = CountColumn::I32(&[0, 1, 2, 3, 4], Validity::all());
    let rules = by_counts(Kind::Jms, 5, counts, FlagColumn::Absent);
    assert_eq!(rules, ["R15>S7", "R12", "R13>S7", "R2", "R2"]);
}

#[test]
fn a_null_count_is_undefined() {
    for kind in [Kind::Messaging, Kind::Jms] {
        let counts = CountColumn::I32(&[7, 7], Validity::new(&[0b100], 1));
        let rules = by_counts(kind, 2, counts, FlagColumn::Absent);
        assert_eq!(rules[0], "R15>S7");
        assert_ne!(rules[1], "R15>S7");
    }
}

#[test]
fn an_absent_count_is_undefined() {
    assert_eq!(by_counts(Kind::Jms, 1, CountColumn::Absent, FlagColumn::Absent), ["R15>S7"]);
}

#[test]
fn a_document_is_eligible_unless_its_flag_says_no() {
    let eligible = FlagColumn::Bits { bits: &[0b1000], offset: 2, validity: Validity::new(&[0b011], 0) };
    let rules = by_counts(Kind::Messaging, 3, CountColumn::Absent, eligible);
    assert_eq!(rules, ["R1", "R15>S7", "R15>S7"]);
}

#[test]
fn jms_looks_at_its_maximum_before_the_history() {
    let settings = Settings { kind: Kind::Jms, max_delivery_count: 3, ..settings() };
    let facts = Facts {
        rows: 2,
        eligible: FlagColumn::Absent,
        count: CountColumn::I64(&[2, 3], Validity::all()),
        key_classes: &[KeyClass::Usable, KeyClass::Absent],
        history: &[HistoryState::Completed, HistoryState::Unavailable],
        copies: &[],
    };
    assert_eq!(decide(&settings, &facts).outcomes, [Outcome::R9, Outcome::R2]);
}

#[test]
fn a_batch_may_be_written_in_parts() {
    let settings = Settings { kind: Kind::Jms, max_delivery_count: 3, resolver: true, ..settings() };
    let rows = 3333;
    let key_classes: Vec<_> = (0..rows).map(|row| KeyClass::ALL[row % 3]).collect();
    let history: Vec<_> = (0..rows).map(|row| HistoryState::ALL[row / 3 % 3]).collect();
    let counts: Vec<i16> = (0..rows).map(|row| (row / 9 % 5) as i16).collect();
    let flags: Vec<u8> = (0..=rows / 8).map(|byte| 0xff ^ (byte % 7) as u8).collect();
    let nulls: Vec<u8> = (0..=rows / 8).map(|byte| 0xff ^ (byte % 5) as u8).collect();
    let facts = Facts {
        rows,
        eligible: FlagColumn::Bits { bits: &flags, offset: 0, validity: Validity::all() },
        count: CountColumn::I16(&counts, Validity::new(&nulls, 0)),
        key_classes: &key_classes,
        history: &history,
        copies: &[],
    };
    let table = DecisionTable::new(&settings);
    let mut outcomes = vec![Outcome::R0; rows];
    for (part, slice) in outcomes.chunks_mut(1500).enumerate() {
        table.write(&facts, part * 1500, slice);
    }
    assert_eq!(settle(&settings, outcomes, &[]), decide(&settings, &facts));
}

#[test]
fn without_detection_no_column_is_read() {
    let facts = Facts {
        rows: 2,
        eligible: FlagColumn::Bits { bits: &[], offset: 0, validity: Validity::all() },
        count: CountColumn::I8(&[], Validity::all()),
        key_classes: &[],
        history: &[],
        copies: &[],
    };
    let off = Settings { detect_duplicates: false, ..settings() };
    assert_eq!(decide(&off, &facts).outcomes, [Outcome::R0, Outcome::R0]);
}

#[test]
fn an_empty_batch_has_no_outcome() {
    let facts = Facts {
        rows: 0,
        eligible: FlagColumn::Absent,
        count: CountColumn::Absent,
        key_classes: &[],
        history: &[],
        copies: &[],
    };
    let decided = decide(&settings(), &facts);
    assert!(decided.outcomes.is_empty() && decided.undecided.is_empty());
}
