//! Whole batches against a model that takes one document after the other, as a person would.

use super::all_settings;
use crate::columns::{CountColumn, FlagColumn, Validity};
use crate::protocols::trigger::rules::{
    Answer, Copy, Facts, InBatch, KeyClass, Kind, ProcessingMode, Settings, decide,
};
use crate::types::HistoryState;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// One document. Key 0 is absent, key 1 too long; the others are usable.
#[derive(Clone, Copy, Debug)]
struct Document {
    key: u8,
    count: i8,
    eligible: bool,
    /// The resolver's answer, if it is asked.
    answer: Answer,
}

/// The model's decision: the rule and the letter of the status.
type Said = (String, char);

fn policy(s: &Settings) -> char {
    match (s.in_batch, s.processing_mode) {
        (Some(InBatch::Duplicate), _) | (None, ProcessingMode::Serial) => 'D',
        (Some(InBatch::InDoubt), _) | (None, ProcessingMode::Concurrent) => 'I',
        (Some(InBatch::New), _) => 'N',
    }
}

fn state_of(states: &[HistoryState], key: u8) -> HistoryState {
    states[usize::from(key)]
}

/// The rule and letter before the resolver; the letter '?' asks it.
fn before_resolver(s: &Settings, d: Document, state: HistoryState, seen: &mut HashSet<u8>) -> (&'static str, char) {
    let again = if s.kind == Kind::Jms { d.count > 1 } else { d.count > 0 };
    let first = if s.kind == Kind::Jms { d.count == 1 } else { d.count == 0 };
    let ask = |asked, alone, letter| if s.resolver { (asked, '?') } else { (alone, letter) };
    if !s.detect_duplicates {
        return ("R0", 'N');
    }
    if !d.eligible {
        return ("R1", 'N');
    }
    let most = if s.kind == Kind::Jms { Some(s.max_delivery_count) } else { s.max_redelivery_count };
    if most.is_some_and(|most| i64::from(d.count) >= most) {
        return ("R2", 'X');
    }
    if !s.use_history {
        return match (first, again) {
            (true, _) => ("R12", 'N'),
            (_, true) => ask("R13", "R14", 'I'),
            _ => ask("R15", "R16", 'N'),
        };
    }
    match (d.key, state) {
        (0, _) => ask("R3", "R3", 'I'),
        (1, _) => ask("R4", "R4", 'I'),
        (_, HistoryState::Unavailable) if s.suspend => ("R5", '!'),
        (_, HistoryState::Unavailable) => ask("R6", "R7", 'I'),
        (_, HistoryState::Completed) => ("R9", 'D'),
        (_, HistoryState::Processing) => ask("R10", "R11", 'I'),
        (key, HistoryState::Absent) if seen.insert(key) => ("R8", 'N'),
        _ if s.in_batch.is_none() && s.processing_mode == ProcessingMode::Concurrent && s.resolver => ("R8+batch", '?'),
        _ => ("R8+batch", policy(s)),
    }
}

fn after_resolver(s: &Settings, d: Document, rule: &str, said_new: &mut HashSet<u8>) -> Said {
    let (step, letter) = match d.answer {
        Answer::New if matches!(rule, "R6" | "R10") && !said_new.insert(d.key) => ("S1+batch", policy(s)),
        Answer::New => ("S1", 'N'),
        Answer::Duplicate => ("S2", 'D'),
        Answer::InDoubt => ("S3", 'I'),
        Answer::Transient if s.suspend => ("S4", '!'),
        Answer::Transient => ("S5", 'I'),
        Answer::Failed => ("S6", 'I'),
        Answer::Other => ("S7", 'I'),
    };
    (format!("{rule}>{step}"), letter)
}

fn model(s: &Settings, documents: &[Document], states: &[HistoryState]) -> Vec<Said> {
    let (mut seen, mut said_new) = (HashSet::new(), HashSet::new());
    let mut suspended: Option<Said> = None;
    let mut said = Vec::new();
    for &document in documents {
        if suspended.is_none() {
            let (rule, letter) = before_resolver(s, document, state_of(states, document.key), &mut seen);
            let own = match letter {
                '?' => after_resolver(s, document, rule, &mut said_new),
                _ => (rule.to_owned(), letter),
            };
            suspended = (own.1 == '!').then(|| own.clone());
            said.push(own);
        } else {
            said.extend(suspended.clone());
        }
    }
    said
}

fn by_columns(s: &Settings, documents: &[Document], states: &[HistoryState]) -> Vec<Said> {
    let class = |key| match key {
        0 => KeyClass::Absent,
        1 => KeyClass::TooLong,
        _ => KeyClass::Usable,
    };
    let mut firsts = HashMap::new();
    let mut copies = Vec::new();
    let mut flags = vec![0; documents.len() / 8 + 1];
    for (row, document) in documents.iter().enumerate() {
        flags[row / 8] |= u8::from(document.eligible) << (row % 8);
        let first = *firsts.entry(document.key).or_insert(row);
        if first != row && document.key > 1 {
            copies.push(Copy { row: row as u32, first: first as u32 });
        }
    }
    let facts = Facts {
        rows: documents.len(),
        eligible: FlagColumn::Bits { bits: &flags, offset: 0, validity: Validity::all() },
        count: CountColumn::I8(&documents.iter().map(|d| d.count).collect::<Vec<_>>(), Validity::all()),
        key_classes: &documents.iter().map(|d| class(d.key)).collect::<Vec<_>>(),
        history: &documents.iter().map(|d| state_of(states, d.key)).collect::<Vec<_>>(),
        copies: &copies,
    };
    let mut decided = decide(s, &facts);
    let answers: Vec<_> = decided.undecided.iter().map(|asked| documents[asked.row as usize].answer).collect();
    decided.resolve(s, &copies, &answers).unwrap();
    decided.outcomes.iter().map(|outcome| (outcome.rule().to_owned(), letter(*outcome))).collect()
}

fn letter(outcome: crate::protocols::trigger::rules::Outcome) -> char {
    match (outcome.status().map(crate::protocols::trigger::rules::Status::as_str), outcome.action().as_str()) {
        (Some(status), _) => status.chars().next().unwrap(),
        (None, "REJECT") => 'X',
        (None, _) => '!',
    }
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::New),
        1 => Just(Answer::Duplicate),
        1 => Just(Answer::InDoubt),
        1 => Just(Answer::Other),
        1 => Just(Answer::Transient),
        1 => Just(Answer::Failed),
    ]
}

fn any_document() -> impl Strategy<Value = Document> {
    (0..7_u8, -2..5_i8, prop::bool::weighted(0.9), any_answer()).prop_map(|(key, count, eligible, answer)| Document {
        key,
        count,
        eligible,
        answer,
    })
}

proptest! {
    #[test]
    fn a_batch_is_judged_as_its_documents_one_after_the_other(
        documents in prop::collection::vec(any_document(), 0..40),
        states in prop::collection::vec(prop_oneof![
            6 => Just(HistoryState::Absent), 3 => Just(HistoryState::Processing),
            2 => Just(HistoryState::Completed), 1 => Just(HistoryState::Unavailable)
        ], 7),
    ) {
        for settings in all_settings() {
            prop_assert_eq!(by_columns(&settings, &documents, &states), model(&settings, &documents, &states), "{:?}", settings);
        }
    }
}
