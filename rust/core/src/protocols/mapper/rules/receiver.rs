//! Receiver direction: messages go out to an external system, with a pending entry before and a
//! mapping after.

use super::facts::{Attempt, MapperBatch, NO_ID, Policies, Policy, Qos, Standing};
use super::outcome::Rule;
use crate::error::Result;

/// Facts of messages that go out, as of the beginning of the batch.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverFacts<'a> {
    /// The facts of both directions.
    pub batch: MapperBatch<'a>,
    /// P: sending began. Ignored without an id.
    pub pending: &'a [bool],
    /// C: sending was completed. Ignored without an id.
    pub mapped: &'a [bool],
    /// The policies for pending ids.
    pub policies: Policies<'a>,
}

/// One row's facts, in the words of the table.
struct Row {
    qos: Qos,
    has_id: bool,
    pending: bool,
    mapped: bool,
    policy: Policy,
}

/// Decides a batch of messages that go out: one rule a row.
pub fn decide_receiver(facts: &ReceiverFacts<'_>) -> Result<Vec<Rule>> {
    let batch = &facts.batch;
    let policies = if let Policies::Rows(rows) = facts.policies { rows.len() } else { batch.qos.len() };
    batch.check(&[facts.pending.len(), facts.mapped.len(), policies])?;
    Ok(batch.decide(
        Rule::M1Hold,
        |row, standing| {
            let one = Row {
                qos: batch.qos[row],
                has_id: batch.first_copies[row] != NO_ID,
                pending: facts.pending[row],
                mapped: facts.mapped[row],
                policy: facts.policies.get(row),
            };
            decide(&one, standing)
        },
        after_attempt,
    ))
}

/// M1 to M8.
fn decide(row: &Row, standing: Standing) -> Rule {
    if standing.queue_stopped {
        return Rule::M7;
    }
    if row.qos == Qos::BestEffort {
        return Rule::M6;
    }
    if !row.has_id {
        return Rule::M8;
    }
    if standing.id_taken {
        return Rule::M1Batch;
    }
    match (row.pending, row.mapped, row.policy) {
        (false, false, _) => Rule::M1,
        (false, true, _) => Rule::M2,
        (true, true, _) => Rule::M2LeftOver,
        (true, false, Policy::Error) => Rule::M3,
        (true, false, Policy::Process) => Rule::M4,
        (true, false, Policy::Duplicate) => Rule::M5,
    }
}

/// The rule of a row that was to be sent after the attempt to send it.
fn after_attempt(rule: Rule, attempt: Attempt) -> Rule {
    match (rule, attempt) {
        (Rule::M1 | Rule::M4, Attempt::Failed) => Rule::M1Failed,
        (Rule::M1 | Rule::M4, Attempt::Unknown) => Rule::M1Unknown,
        (Rule::M6, Attempt::Failed | Attempt::Unknown) => Rule::M6Failed,
        _ => rule,
    }
}
