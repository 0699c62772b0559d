//! Several rows: copies of a key, the resolver's answers, and suspension.

use super::settings;
use crate::columns::{CountColumn, FlagColumn};
use crate::error::Error;
use crate::protocols::trigger::rules::{
    Answer, Copy, Decided, Facts, InBatch, KeyClass, ProcessingMode, Reason, Settings, Status, Step, decide,
};
use crate::types::HistoryState;
use HistoryState::{Absent, Completed, Processing, Unavailable};

/// Judges rows given as key and state; the key "" is absent. Returns what the resolver is to be
/// asked, too.
fn judge(settings: &Settings, rows: &[(&str, HistoryState)]) -> (Decided, Vec<Copy>) {
    judge_eligible(settings, rows, FlagColumn::Absent)
}

fn judge_eligible(
    settings: &Settings,
    rows: &[(&str, HistoryState)],
    eligible: FlagColumn<'_>,
) -> (Decided, Vec<Copy>) {
    let copies = copies(rows);
    let class = |key: &str| if key.is_empty() { KeyClass::Absent } else { KeyClass::Usable };
    let key_classes: Vec<_> = rows.iter().map(|(key, _)| class(key)).collect();
    let history: Vec<_> = rows.iter().map(|(_, state)| *state).collect();
    let facts = Facts {
        rows: rows.len(),
        eligible,
        count: CountColumn::Absent,
        key_classes: &key_classes,
        history: &history,
        copies: &copies,
    };
    (decide(settings, &facts), copies)
}

fn copies(rows: &[(&str, HistoryState)]) -> Vec<Copy> {
    let first = |row: usize| rows.iter().position(|(key, _)| *key == rows[row].0).unwrap();
    (0..rows.len())
        .filter(|&row| !rows[row].0.is_empty() && first(row) != row)
        .map(|row| Copy { row: row as u32, first: first(row) as u32 })
        .collect()
}

/// Each outcome as its rule and the first letter of its status, or an exclamation mark.
fn spelt(decided: &Decided) -> Vec<String> {
    let letter = |status| match status {
        Some(Status::New) => "N",
        Some(Status::Duplicate) => "D",
        Some(Status::InDoubt) => "I",
        None => "!",
    };
    decided.outcomes.iter().map(|outcome| format!("{} {}", outcome.rule(), letter(outcome.status()))).collect()
}

fn asked(decided: &Decided) -> Vec<(u32, &'static str)> {
    decided.undecided.iter().map(|undecided| (undecided.row, undecided.reason.rule())).collect()
}

/// Judges and answers.
fn resolved(settings: &Settings, rows: &[(&str, HistoryState)], answers: &[Answer]) -> Vec<String> {
    let (mut decided, copies) = judge(settings, rows);
    decided.resolve(settings, &copies, answers).unwrap();
    spelt(&decided)
}

fn serial() -> Settings {
    Settings { processing_mode: ProcessingMode::Serial, ..settings() }
}

fn asking(settings: Settings) -> Settings {
    Settings { resolver: true, ..settings }
}

fn patient(settings: Settings) -> Settings {
    Settings { suspend: false, ..settings }
}

const THREE_COPIES: [(&str, HistoryState); 4] = [("a", Absent), ("a", Absent), ("b", Absent), ("a", Absent)];

#[test]
fn serial_copies_are_duplicates_even_with_a_resolver() {
    for settings in [serial(), asking(serial())] {
        let (decided, _) = judge(&settings, &THREE_COPIES);
        assert_eq!(spelt(&decided), ["R8 N", "R8+batch D", "R8 N", "R8+batch D"]);
        assert_eq!(asked(&decided), []);
    }
}

#[test]
fn concurrent_copies_without_resolver_are_in_doubt() {
    let (decided, _) = judge(&settings(), &THREE_COPIES);
    assert_eq!(spelt(&decided), ["R8 N", "R8+batch I", "R8 N", "R8+batch I"]);
}

#[test]
fn in_concurrent_mode_the_resolver_is_asked_about_later_copies() {
    let (mut decided, copies) = judge(&asking(settings()), &THREE_COPIES);
    assert_eq!(asked(&decided), [(1, "R8+batch"), (3, "R8+batch")]);
    decided.resolve(&asking(settings()), &copies, &[Answer::New, Answer::New]).unwrap();
    assert_eq!(spelt(&decided), ["R8 N", "R8+batch>S1 N", "R8 N", "R8+batch>S1 N"]);
}

#[test]
fn the_in_batch_setting_overrides_mode_and_resolver() {
    for base in [settings(), asking(settings()), serial(), asking(serial())] {
        for (policy, letter) in [(InBatch::Duplicate, "D"), (InBatch::InDoubt, "I"), (InBatch::New, "N")] {
            let (decided, _) = judge(&Settings { in_batch: Some(policy), ..base }, &THREE_COPIES[..2]);
            assert_eq!(spelt(&decided), ["R8 N".to_owned(), format!("R8+batch {letter}")]);
            assert_eq!(asked(&decided), []);
        }
    }
}

#[test]
fn copies_of_a_completed_key_are_duplicates_of_the_history() {
    let (decided, _) = judge(&asking(settings()), &[("a", Completed), ("a", Completed)]);
    assert_eq!(spelt(&decided), ["R9 D", "R9 D"]);
}

#[test]
fn documents_without_a_key_are_no_copies() {
    let (decided, _) = judge(&serial(), &[("", Absent), ("", Absent)]);
    assert_eq!(spelt(&decided), ["R3 I", "R3 I"]);
}

#[test]
fn an_ineligible_first_row_leads_no_copies() {
    let eligible = FlagColumn::Bits { bits: &[0b1110], offset: 0, validity: crate::columns::Validity::all() };
    let rows = [("a", Absent), ("a", Absent), ("a", Absent), ("b", Absent)];
    let (decided, _) = judge_eligible(&serial(), &rows, eligible);
    assert_eq!(spelt(&decided), ["R1 N", "R8 N", "R8+batch D", "R8 N"]);
}

#[test]
fn without_history_copies_are_judged_by_their_counts_alone() {
    let without = Settings { use_history: false, ..serial() };
    let (decided, _) = judge(&without, &THREE_COPIES[..2]);
    assert_eq!(spelt(&decided), ["R16 N", "R16 N"]);
}

#[test]
fn every_answer_leads_to_its_step() {
    let all = [Answer::New, Answer::Duplicate, Answer::InDoubt, Answer::Transient, Answer::Failed, Answer::Other];
    let steps = |suspend| all.map(|answer| answer.step(suspend));
    assert_eq!(steps(true), [Step::S1, Step::S2, Step::S3, Step::S4, Step::S6, Step::S7]);
    assert_eq!(steps(false), [Step::S1, Step::S2, Step::S3, Step::S5, Step::S6, Step::S7]);
}

#[test]
fn answers_are_read_by_their_exact_words() {
    assert_eq!(Answer::parse(Some("NEW")), Answer::New);
    assert_eq!(Answer::parse(Some("DUPLICATE")), Answer::Duplicate);
    assert_eq!([Some("IN_DOUBT"), Some("IN DOUBT")].map(Answer::parse), [Answer::InDoubt; 2]);
    assert_eq!([None, Some(""), Some("new"), Some(" NEW"), Some("maybe")].map(Answer::parse), [Answer::Other; 5]);
}

#[test]
fn answers_go_to_the_rows_that_were_asked_about() {
    let rows = [("a", Processing), ("b", Absent), ("", Absent), ("c", Processing), ("d", Completed)];
    let (decided, _) = judge(&asking(settings()), &rows);
    assert_eq!(asked(&decided), [(0, "R10"), (2, "R3"), (3, "R10")]);
    let answers = [Answer::Duplicate, Answer::New, Answer::Other];
    assert_eq!(resolved(&asking(settings()), &rows, &answers), ["R10>S2 D", "R8 N", "R3>S1 N", "R10>S7 I", "R9 D"]);
}

#[test]
fn a_wrong_number_of_answers_is_an_error_and_changes_nothing() {
    let (mut decided, copies) = judge(&asking(settings()), &[("a", Processing), ("b", Processing)]);
    let before = decided.clone();
    let error = decided.resolve(&asking(settings()), &copies, &[Answer::New]).unwrap_err();
    assert!(matches!(&error, Error::Schema(text) if text.contains("1 answers") && text.contains("2 documents")));
    assert_eq!(decided, before);
}

#[test]
fn an_undecided_row_is_in_doubt_until_it_is_answered() {
    let (decided, _) = judge(&asking(settings()), &[("a", Processing)]);
    assert_eq!(spelt(&decided), ["R10>S7 I"]);
    assert_eq!(decided.undecided[0].reason, Reason::R10);
}

#[test]
fn only_the_first_row_of_a_key_resolved_as_new_is_new() {
    let rows = [("a", Processing), ("b", Processing), ("a", Processing), ("a", Processing)];
    let answers = [Answer::New; 4];
    let new = |settings| resolved(&settings, &rows, &answers);
    assert_eq!(new(asking(serial())), ["R10>S1 N", "R10>S1 N", "R10>S1+batch D", "R10>S1+batch D"]);
    assert_eq!(new(asking(settings())), ["R10>S1 N", "R10>S1 N", "R10>S1+batch I", "R10>S1+batch I"]);
    let each_new = Settings { in_batch: Some(InBatch::New), ..asking(serial()) };
    assert_eq!(new(each_new), ["R10>S1 N", "R10>S1 N", "R10>S1+batch N", "R10>S1+batch N"]);
}

#[test]
fn the_first_new_row_of_a_key_need_not_be_its_first_row() {
    let rows = [("a", Processing), ("a", Processing), ("a", Processing), ("a", Processing)];
    let answers = [Answer::Duplicate, Answer::New, Answer::InDoubt, Answer::New];
    assert_eq!(resolved(&asking(serial()), &rows, &answers), ["R10>S2 D", "R10>S1 N", "R10>S3 I", "R10>S1+batch D"]);
}

#[test]
fn copies_are_settled_while_the_history_is_unavailable_too() {
    let rows = [("a", Unavailable), ("a", Unavailable)];
    assert_eq!(resolved(&asking(patient(serial())), &rows, &[Answer::New; 2]), ["R6>S1 N", "R6>S1+batch D"]);
    let (decided, _) = judge(&patient(serial()), &rows);
    assert_eq!(spelt(&decided), ["R7 I", "R7 I"]);
}

#[test]
fn rows_without_a_key_are_each_as_new_as_the_resolver_says() {
    assert_eq!(resolved(&asking(serial()), &[("", Absent); 2], &[Answer::New; 2]), ["R3>S1 N", "R3>S1 N"]);
}

#[test]
fn an_unavailable_history_suspends_all_later_rows() {
    let rows = [("a", Absent), ("b", Unavailable), ("", Absent), ("c", Completed)];
    let (decided, _) = judge(&settings(), &rows);
    assert_eq!(spelt(&decided), ["R8 N", "R5 !", "R5 !", "R5 !"]);
}

#[test]
fn the_resolver_is_not_asked_about_suspended_rows() {
    let rows = [("", Absent), ("b", Unavailable), ("", Absent)];
    let (decided, _) = judge(&asking(settings()), &rows);
    assert_eq!(asked(&decided), [(0, "R3")]);
}

#[test]
fn a_transient_failure_suspends_that_row_and_all_later_ones() {
    let rows = [("a", Processing), ("b", Processing), ("c", Absent), ("d", Processing)];
    let answers = [Answer::Duplicate, Answer::Transient, Answer::New];
    assert_eq!(resolved(&asking(settings()), &rows, &answers), ["R10>S2 D", "R10>S4 !", "R10>S4 !", "R10>S4 !"]);
    assert_eq!(resolved(&asking(patient(settings())), &rows, &answers), ["R10>S2 D", "R10>S5 I", "R8 N", "R10>S1 N"]);
}

#[test]
fn the_first_suspension_names_the_rule_of_all_later_rows() {
    let rows = [("", Absent), ("b", Unavailable), ("c", Absent)];
    assert_eq!(resolved(&asking(settings()), &rows, &[Answer::Transient]), ["R3>S4 !", "R3>S4 !", "R3>S4 !"]);
    assert_eq!(resolved(&asking(settings()), &rows, &[Answer::New]), ["R3>S1 N", "R5 !", "R5 !"]);
}

#[test]
fn permanent_failure_leaves_in_doubt_despite_suspension() {
    let rows = [("a", Processing), ("b", Absent)];
    assert_eq!(resolved(&asking(settings()), &rows, &[Answer::Failed]), ["R10>S6 I", "R8 N"]);
}

#[test]
fn a_suspension_far_into_a_batch_leaves_all_rows_before_it() {
    let mut rows = vec![("", Absent); 5000];
    rows[3000] = ("b", Unavailable);
    let (decided, _) = judge(&settings(), &rows);
    let suspended = decided.outcomes.iter().position(|outcome| outcome.is_suspend());
    assert_eq!(suspended, Some(3000));
    assert!(decided.outcomes[..3000].iter().all(|outcome| outcome.rule() == "R3"));
    assert!(decided.outcomes[3000..].iter().all(|outcome| outcome.rule() == "R5"));
}
