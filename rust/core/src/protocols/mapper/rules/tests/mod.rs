#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests stop at the first surprise")]

mod batch;
mod crash;
mod receiver;
mod reference;
mod sender;

use super::*;

/// A batch of ids (empty is no id), each with its quality of service and queue.
struct Rows {
    qos: Vec<Qos>,
    first_copies: Vec<u32>,
    queues: Vec<u32>,
}

impl Rows {
    fn new(rows: &[(&str, Qos, u32)]) -> Self {
        let first = |id: &str| rows.iter().position(|row| row.0 == id).unwrap() as u32;
        Self {
            qos: rows.iter().map(|row| row.1).collect(),
            first_copies: rows.iter().map(|row| if row.0.is_empty() { NO_ID } else { first(row.0) }).collect(),
            queues: rows.iter().map(|row| row.2).collect(),
        }
    }

    fn batch<'a>(&'a self, attempts: Option<&'a [Attempt]>) -> MapperBatch<'a> {
        MapperBatch { qos: &self.qos, first_copies: &self.first_copies, queues: &self.queues, queue_count: 4, attempts }
    }

    /// With facts that are the same for all rows.
    fn receive(&self, pending: bool, mapped: bool, policy: Policy, attempts: Option<&[Attempt]>) -> Vec<Rule> {
        let rows = self.qos.len();
        let (pending, mapped) = (vec![pending; rows], vec![mapped; rows]);
        let policies = Policies::All(policy);
        decide_receiver(&ReceiverFacts { batch: self.batch(attempts), pending: &pending, mapped: &mapped, policies })
            .unwrap()
    }

    fn send(&self, mapped: bool, attempts: Option<&[Attempt]>) -> Vec<Rule> {
        let mapped = vec![mapped; self.qos.len()];
        decide_sender(&SenderFacts { batch: self.batch(attempts), mapped: &mapped }).unwrap()
    }
}

fn words(rules: &[Rule]) -> Vec<(&'static str, Status, Action)> {
    rules.iter().map(|rule| (rule.code(), rule.outcome().status, rule.outcome().action)).collect()
}
