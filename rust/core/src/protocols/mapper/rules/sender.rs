//! Sender direction: messages come in, and the check, the message and the mapping are one unit of
//! work.

use super::facts::{Attempt, MapperBatch, NO_ID, Qos, Standing};
use super::outcome::Rule;
use crate::error::Result;

/// Facts of messages that come in, as of the beginning of the batch.
#[derive(Clone, Copy, Debug)]
pub struct SenderFacts<'a> {
    /// The facts of both directions. An unknown attempt counts as failed: a commit shows at the
    /// next arrival.
    pub batch: MapperBatch<'a>,
    /// The external id is mapped. Ignored without an id.
    pub mapped: &'a [bool],
}

/// Decides a batch of messages that come in: one rule a row.
pub fn decide_sender(facts: &SenderFacts<'_>) -> Result<Vec<Rule>> {
    let batch = &facts.batch;
    batch.check(&[facts.mapped.len()])?;
    Ok(batch.decide(
        Rule::N2Hold,
        |row, standing| {
            let has_id = batch.first_copies[row] != NO_ID;
            decide(batch.qos[row], has_id, facts.mapped[row], standing)
        },
        after_attempt,
    ))
}

/// N1 to N3; N5 is N3 at the next arrival.
fn decide(qos: Qos, has_id: bool, mapped: bool, standing: Standing) -> Rule {
    if standing.queue_stopped {
        return Rule::N4Queue;
    }
    match (qos, has_id, mapped, standing.id_taken) {
        (Qos::BestEffort, ..) => Rule::N1,
        (_, false, ..) => Rule::NoId,
        (_, _, true, _) => Rule::N3,
        (_, _, false, true) => Rule::N3Batch,
        (_, _, false, false) => Rule::N2,
    }
}

/// N4.
fn after_attempt(rule: Rule, attempt: Attempt) -> Rule {
    match (rule, attempt) {
        (_, Attempt::Open | Attempt::Done) => rule,
        (Rule::N2, _) => Rule::N4,
        (Rule::N1, _) => Rule::N1Failed,
        _ => rule,
    }
}
