//! The decisions about messages, as columns, and the records for the audit log.

use std::sync::Arc;

use crate::arrow::array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array};
use crate::arrow::compute::take;
use crate::arrow::datatypes::Field;
use dochistory_core::protocols::mapper::rules::{Action, Audit, Rule, Status};
use dochistory_core::protocols::mapper::{Known, Texts};
use dochistory_core::time::format_us;

use super::arrays::{batch, column, flags, text_column, times, words};
use crate::errors::Outcome;

fn status(rule: Rule) -> Option<&'static str> {
    match rule.outcome().status {
        Status::New | Status::NewUnchecked => Some("NEW"),
        Status::Duplicate => Some("DUPLICATE"),
        Status::InDoubt => Some("IN_DOUBT"),
        Status::Failed => Some("FAILED"),
        Status::Undecided => None,
    }
}

fn action(rule: Rule) -> &'static str {
    match rule.outcome().action {
        Action::Process => "PROCESS",
        Action::Skip => "SKIP",
        Action::Raise => "RAISE",
        Action::Hold => "HOLD",
    }
}

fn audit(rule: Rule) -> Option<&'static str> {
    match rule.outcome().audit {
        Audit::None => None,
        Audit::Error => Some("ERROR"),
        Audit::Warning => Some("WARNING"),
        Audit::Entry => Some("INFO"),
        Audit::SuccessOnOriginal => Some("SUCCESS"),
    }
}

/// The verdicts: one column for each property of a row.
pub(super) fn verdict_columns(rules: &[Rule], known: &Known) -> Outcome<RecordBatch> {
    let retryable: Vec<bool> = rules.iter().map(|rule| rule.is_retryable()).collect();
    let columns = vec![
        ("status", words(rules.iter().map(|rule| status(*rule)))?),
        ("action", words(rules.iter().map(|rule| Some(action(*rule))))?),
        ("rule", words(rules.iter().map(|rule| Some(rule.code())))?),
        ("found", flags(&known.mapped)),
        ("mapped_id", text_column(&known.values)?),
        ("pending_since", times(&known.since, |row| known.pending[row])),
        ("reason", words(rules.iter().map(|rule| Some(rule.text())))?),
        ("audit", words(rules.iter().map(|rule| audit(*rule)))?),
        ("retryable", flags(&retryable)),
    ];
    batch(columns.into_iter().map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).collect())
}

/// The records for the audit log: one for each row that needs one.
pub(super) fn audit_columns(
    channel: &str,
    ids: &ArrayRef,
    rules: &[Rule],
    known: &Known,
    time_us: i64,
) -> Outcome<RecordBatch> {
    let rows: Vec<u32> = (0..rules.len() as u32).filter(|row| audit(rules[*row as usize]).is_some()).collect();
    let places = UInt32Array::from(rows.clone());
    let of_rows = |row: &u32| rules[*row as usize];
    let given = Texts::of(Some(&column(ids)?), rules.len())?;
    let text = |row: &u32| detail(rules[*row as usize], *row as usize, &given, known);
    // A duplicate is a success of the message that came first, and is recorded on its id.
    let on: Vec<Option<String>> = rows
        .iter()
        .map(|row| {
            let row = *row as usize;
            let is_on_original = rules[row].outcome().audit == Audit::SuccessOnOriginal;
            let id = if is_on_original { known.values.get(row).or(given.get(row)) } else { given.get(row) };
            id.map(|id| String::from_utf8_lossy(id).into_owned())
        })
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", times(&vec![time_us; rows.len()], |_| true)),
        ("channel", Arc::new(StringArray::from(vec![channel; rows.len()]))),
        ("id", Arc::new(StringArray::from(on))),
        ("arrived_as", take(&text_column(&given)?, &places, None)?),
        ("level", words(rows.iter().map(|row| audit(of_rows(row))))?),
        ("rule", words(rows.iter().map(|row| Some(of_rows(row).code())))?),
        ("text", Arc::new(rows.iter().map(|row| Some(text(row))).collect::<StringArray>())),
        ("row", Arc::new(places)),
    ];
    batch(columns.into_iter().map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).collect())
}

/// A sentence with all details that help to find out what happened.
fn detail(rule: Rule, row: usize, ids: &Texts, known: &Known) -> String {
    let id = ids.get(row).map_or_else(|| "none".to_owned(), |id| String::from_utf8_lossy(id).into_owned());
    let since =
        if known.pending[row] { format!("; sending began at {}", format_us(known.since[row])) } else { String::new() };
    let other = known.values.get(row).map_or_else(|| "nothing".into(), String::from_utf8_lossy);
    let mapped = if known.mapped[row] { format!("; mapped to {other}") } else { String::new() };
    format!("message {id}: {}{since}{mapped}", rule.text())
}
