//! The two tables of the rules as data, against what each outcome says of itself.

use crate::protocols::trigger::rules::{Acknowledge, Action, InBatch, Outcome, Reason, Status, Step};
use std::collections::HashSet;

const NEW: (&str, &str, &str) = ("NEW", "PROCESS", "AFTER_SERVICE");
const DUPLICATE: (&str, &str, &str) = ("DUPLICATE", "DISCARD", "NOW");
const IN_DOUBT: (&str, &str, &str) = ("IN_DOUBT", "LOG", "NOW");
const SUSPEND: (&str, &str, &str) = ("", "SUSPEND", "NO");
const REJECT: (&str, &str, &str) = ("", "REJECT", "NOW");

const DIRECT: [(Outcome, &str, (&str, &str, &str)); 16] = [
    (Outcome::R0, "R0", NEW),
    (Outcome::R1, "R1", NEW),
    (Outcome::R2, "R2", REJECT),
    (Outcome::R3, "R3", IN_DOUBT),
    (Outcome::R4, "R4", IN_DOUBT),
    (Outcome::R5, "R5", SUSPEND),
    (Outcome::R7, "R7", IN_DOUBT),
    (Outcome::R8, "R8", NEW),
    (Outcome::R9, "R9", DUPLICATE),
    (Outcome::R11, "R11", IN_DOUBT),
    (Outcome::R12, "R12", NEW),
    (Outcome::R14, "R14", IN_DOUBT),
    (Outcome::R16, "R16", NEW),
    (Outcome::R8_BATCH_DUPLICATE, "R8+batch", DUPLICATE),
    (Outcome::R8_BATCH_IN_DOUBT, "R8+batch", IN_DOUBT),
    (Outcome::R8_BATCH_NEW, "R8+batch", NEW),
];

const ASKING: [(Reason, &str); 7] = [
    (Reason::R3, "R3"),
    (Reason::R4, "R4"),
    (Reason::R6, "R6"),
    (Reason::R8Batch, "R8+batch"),
    (Reason::R10, "R10"),
    (Reason::R13, "R13"),
    (Reason::R15, "R15"),
];

const STEPS: [(Step, &str, (&str, &str, &str)); 7] = [
    (Step::S1, "S1", NEW),
    (Step::S2, "S2", DUPLICATE),
    (Step::S3, "S3", IN_DOUBT),
    (Step::S4, "S4", SUSPEND),
    (Step::S5, "S5", IN_DOUBT),
    (Step::S6, "S6", IN_DOUBT),
    (Step::S7, "S7", IN_DOUBT),
];

const COPIES: [(InBatch, (&str, &str, &str)); 3] =
    [(InBatch::Duplicate, DUPLICATE), (InBatch::InDoubt, IN_DOUBT), (InBatch::New, NEW)];

fn words(outcome: Outcome) -> (&'static str, &'static str, &'static str) {
    (outcome.status().map_or("", Status::as_str), outcome.action().as_str(), outcome.acknowledge().as_str())
}

/// The tables, written out: outcome, rule, words.
fn tables() -> Vec<(Outcome, String, (&'static str, &'static str, &'static str))> {
    let mut rows: Vec<_> = DIRECT.iter().map(|&(outcome, rule, words)| (outcome, rule.to_owned(), words)).collect();
    for (reason, rule) in ASKING {
        for (step, name, words) in STEPS {
            rows.push((Outcome::resolved(reason, step), format!("{rule}>{name}"), words));
        }
    }
    for (reason, rule) in [(Reason::R6, "R6"), (Reason::R10, "R10")] {
        for (policy, words) in COPIES {
            rows.push((Outcome::copy_of_resolved(reason, policy).unwrap(), format!("{rule}>S1+batch"), words));
        }
    }
    rows
}

#[test]
fn every_outcome_says_what_the_tables_say() {
    for (outcome, rule, expected) in tables() {
        assert_eq!(outcome.rule(), rule);
        assert_eq!(words(outcome), expected, "{rule}");
    }
}

#[test]
fn the_tables_hold_every_outcome_once() {
    let listed: Vec<u8> = tables().iter().map(|(outcome, ..)| outcome.as_u8()).collect();
    let mut codes = listed.clone();
    codes.sort_unstable();
    assert_eq!(codes, Outcome::all().map(Outcome::as_u8).collect::<Vec<_>>());
    assert_eq!(codes.len(), Outcome::COUNT);
}

#[test]
fn a_rule_and_a_status_name_one_outcome() {
    let named: HashSet<_> = Outcome::all().map(|outcome| (outcome.rule(), outcome.status())).collect();
    assert_eq!(named.len(), Outcome::COUNT);
}

#[test]
fn only_new_documents_have_no_message() {
    for outcome in Outcome::all() {
        assert_eq!(outcome.message().is_none(), outcome.status() == Some(Status::New), "{outcome:?}");
        if let Some(message) = outcome.message() {
            assert!(message.ends_with('.') && message.len() < 160, "{message}");
        }
    }
}

#[test]
fn the_groups_of_codes_are_the_actions() {
    for outcome in Outcome::all() {
        assert_eq!(outcome.is_process(), outcome.action() == Action::Process, "{outcome:?}");
        assert_eq!(outcome.is_suspend(), outcome.action() == Action::Suspend, "{outcome:?}");
        assert_eq!(outcome.is_suspend(), outcome.acknowledge() == Acknowledge::No, "{outcome:?}");
        assert_eq!(outcome.unanswered_reason().is_some(), outcome.rule().ends_with(">S7"), "{outcome:?}");
        let needs_look = outcome.is_suspend() || outcome.unanswered_reason().is_some();
        assert_eq!(Outcome::any_needs_look(&[outcome, Outcome::R8]), needs_look, "{outcome:?}");
    }
}

#[test]
fn processing_is_written_only_for_recordable_keys() {
    let written: HashSet<_> = Outcome::all()
        .filter(|outcome| outcome.writes_processing())
        .map(|outcome| (outcome.rule(), words(outcome)))
        .collect();
    let expected = ["R8", "R8+batch", "R10>S1", "R8+batch>S1", "R10>S1+batch"].map(|rule| (rule, NEW));
    assert_eq!(written, HashSet::from(expected));
}

#[test]
fn a_reason_is_told_by_its_rule() {
    assert_eq!(ASKING.map(|(reason, _)| reason), Reason::ALL);
    for (reason, rule) in ASKING {
        assert_eq!(reason.rule(), rule);
        assert_eq!(Outcome::unanswered(reason).unanswered_reason(), Some(reason));
    }
}

#[test]
fn an_outcome_prints_its_rule_and_status_or_action() {
    assert_eq!(format!("{:?}", Outcome::resolved(Reason::R10, Step::S2)), "R10>S2 DUPLICATE");
    assert_eq!(format!("{:?}", Outcome::R5), "R5 SUSPEND");
}
