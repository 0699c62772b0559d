//! Receiver direction: pending before a message goes out, mapped after (rules M1 to M8).

mod ends;

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::known::Known;
use super::record::{Pending, Record};
use super::texts::Untils;
use super::{Mapper, same_length};
use crate::engine::{OnReplay, Replay};
use crate::log::frame::Transaction;
use crate::mapper::{
    Action, Attempt, Batch, Change, NO_ID, Policies, Policy, Qos, ReceiverFacts, Rule, decide_receiver,
};
use crate::values::{Ending, Id, Ids, LastTransaction, Work};
use crate::{Error, Result};

/// The transaction that a batch is sent under.
#[derive(Clone, Debug)]
pub struct SendTransaction {
    /// Application and batch.
    pub transaction: Transaction,
    /// What ids are that this very transaction began to send and never ended.
    pub on_replay: OnReplay,
}

/// What became of a row that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentRow {
    /// Not said yet.
    Open,
    /// Sent and mapped.
    Done,
    /// Certainly not delivered.
    Failed,
    /// Nobody knows.
    Unknown,
}

/// The facts of a batch, as of when it was begun.
#[derive(Debug)]
struct Facts {
    qos: Vec<Qos>,
    first_copies: Vec<u32>,
    queues: Vec<u32>,
    pending: Vec<bool>,
    mapped: Vec<bool>,
    policies: Vec<Policy>,
}

/// A batch of messages that go out.
#[derive(Debug)]
pub struct Send {
    mapper: Mapper,
    facts: Facts,
    known: Known,
    /// The claim of its transaction.
    claim: Option<u64>,
    /// Stands in every pending entry that this very attempt writes: its ends touch no other.
    attempt: u64,
    replay: Option<Replay>,
    started_at: i64,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    rules: Vec<Rule>,
    rows: Vec<SentRow>,
    is_ended: bool,
}

/// What a batch of messages brings beside its ids.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    /// Quality of service of each.
    pub qos: &'a [Qos],
    /// The queue of each that is in order.
    pub queues: &'a [u32],
}

impl Facts {
    fn decide(&self, attempts: Option<&[Attempt]>) -> Result<Vec<Rule>> {
        let batch = Batch {
            qos: &self.qos,
            first_copies: &self.first_copies,
            queues: &self.queues,
            queue_count: self.qos.len() + 1,
            attempts,
        };
        let policies = Policies::Rows(&self.policies);
        decide_receiver(&ReceiverFacts { batch, pending: &self.pending, mapped: &self.mapped, policies })
    }
}

impl Mapper {
    /// Judge messages that go out, and write the pending entries of those to send, in one step: of two that begin the same id at
    /// once one finds it pending. Durable on return, before anything is sent. With `refuse` nothing is written if any row is to
    /// be raised.
    pub fn begin_send(
        &self,
        ids: &Ids,
        messages: Messages,
        until: Untils,
        now_us: i64,
        under: Option<&SendTransaction>,
        refuse: bool,
    ) -> Result<Send> {
        same_length("qos", messages.qos.len(), ids.len())?;
        same_length("queue", messages.queues.len(), ids.len())?;
        until.check(ids.len())?;
        let first_copies = ids.first_copies(NO_ID);
        let attempt = self.values.random_number()?;
        self.values.change(ids, |turn| {
            let known = Known::read(turn.found(), self.settings, now_us)?;
            let previous = under.map(|under| previous(turn, &under.transaction)).transpose()?.flatten();
            let mut facts = Facts {
                qos: messages.qos.to_vec(),
                first_copies: first_copies.clone(),
                queues: messages.queues.to_vec(),
                pending: known.pending.clone(),
                mapped: known.mapped.clone(),
                policies: known.resolved.iter().map(|one| one.unwrap_or(self.settings.policy)).collect(),
            };
            let reruns = see_replay(&mut facts, &known, previous.as_ref(), under);
            let rules = facts.decide(None)?;
            let rows = vec![SentRow::Open; rules.len()];
            let is_first =
                under.is_some() && previous.as_ref().is_none_or(|previous| previous.ending == Some(Ending::Released));
            let replay = under.map(|_| previous.as_ref().map_or(Replay::First, replay_of));
            let mut claim = previous.as_ref().map(|previous| previous.claim);
            let is_refused = refuse && rules.iter().any(|rule| rule.outcome().action == Action::Raise);
            if !is_refused {
                if let Some(under) = under.filter(|_| is_first || reruns) {
                    claim = Some(turn.claim());
                    let replaces = previous.as_ref().filter(|_| reruns).map(|previous| previous.claim);
                    turn.begin(under.transaction.clone(), replaces);
                }
                let claim = claim.filter(|_| under.is_some()).unwrap_or(0);
                let begun = Record::pending(Pending { since: now_us, claim, attempt, resolved: None });
                for (row, rule) in rules.iter().enumerate() {
                    Self::first_change(turn, ids.id(row), row, *rule, &known, (&begun, until.get(row)))?;
                }
            }
            let is_ended = previous.as_ref().is_some_and(|previous| previous.ending == Some(Ending::Completed));
            let state = Mutex::new(State { rules, rows, is_ended });
            let claim = claim.filter(|_| under.is_some());
            Ok(Send { mapper: self.clone(), facts, known, claim, attempt, replay, started_at: now_us, state })
        })
    }

    /// What a rule changes before anything is sent; `begun` is the pending entry of what is, and until when it is kept.
    fn first_change(
        turn: &mut Work,
        id: Id,
        row: usize,
        rule: Rule,
        known: &Known,
        (begun, until): (&Record, i64),
    ) -> Result<()> {
        match rule.outcome().change {
            Change::WritePending | Change::TakePending => Self::put(turn, id, begun, until),
            Change::RemovePending if known.mapped[row] => {
                Self::put(turn, id, &Record::mapped(known.values.get(row)), known.persist_until[row])
            }
            Change::WriteMappingRemovePending => Self::put(turn, id, &Record::mapped(None), known.persist_until[row]),
            _ => Ok(()),
        }
    }
}

/// The application's last transaction, if it is this one.
fn previous(turn: &Work, transaction: &Transaction) -> Result<Option<LastTransaction>> {
    let Some(last) = turn.transaction(&transaction.application) else { return Ok(None) };
    if last.batch > transaction.batch {
        return Err(crate::engine::begin::backwards(transaction, last.batch));
    }
    Ok((last.batch == transaction.batch).then_some(last))
}

/// A batch that comes again sees its own entries: ended, nothing of it goes out again; begun only, the policy says. Answers
/// whether it runs anew.
fn see_replay(
    facts: &mut Facts,
    known: &Known,
    previous: Option<&LastTransaction>,
    under: Option<&SendTransaction>,
) -> bool {
    let Some(previous) = previous else { return false };
    match previous.ending {
        Some(Ending::Completed) => {
            // Also what a purge took away since: the batch is the same.
            for row in 0..facts.mapped.len() {
                facts.mapped[row] |= !facts.pending[row];
            }
            false
        }
        None if under.is_some_and(|under| under.on_replay == OnReplay::Rerun) => {
            for row in 0..facts.pending.len() {
                facts.pending[row] &= known.claims[row] != previous.claim;
            }
            true
        }
        Some(Ending::Released) | None => false,
    }
}

fn replay_of(previous: &LastTransaction) -> Replay {
    match previous.ending {
        Some(Ending::Completed) => Replay::Finished,
        Some(Ending::Released) => Replay::First,
        None => Replay::Unfinished,
    }
}

impl Send {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rule of each row, as of now: rows that failed change those behind them.
    pub fn rules(&self) -> Vec<Rule> {
        self.state().rules.clone()
    }

    /// What the mapper knew when the batch was begun.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// The claim of its transaction.
    pub fn claim(&self) -> Option<u64> {
        self.claim
    }

    /// Whether its transaction was begun before.
    pub fn replay(&self) -> Option<Replay> {
        self.replay
    }

    /// When it was begun, in microseconds since 1970.
    pub fn started_at(&self) -> i64 {
        self.started_at
    }

    /// The rows that are to be sent and of which nothing was said yet.
    pub fn open_rows(&self) -> Vec<u32> {
        let state = self.state();
        (0..state.rules.len() as u32).filter(|row| state.is_open(*row as usize)).collect()
    }
}

impl State {
    fn is_open(&self, row: usize) -> bool {
        self.rows[row] == SentRow::Open && self.rules[row].outcome().action == Action::Process
    }

    /// Whether nothing of the batch is left to send, to decide or to wait for.
    fn is_done(&self) -> bool {
        self.rows.iter().zip(&self.rules).all(|(row, rule)| match rule.outcome().action {
            Action::Process => *row == SentRow::Done,
            Action::Skip => true,
            Action::Raise | Action::Hold => false,
        })
    }

    fn attempts(&self) -> Vec<Attempt> {
        let attempt = |row: &SentRow| match row {
            SentRow::Open | SentRow::Done => Attempt::Open,
            SentRow::Failed => Attempt::Failed,
            SentRow::Unknown => Attempt::Unknown,
        };
        self.rows.iter().map(attempt).collect()
    }

    /// Only what was to be sent can end, and what was sent stays so.
    fn check(&self, rows: &[u32], became: SentRow) -> Result<()> {
        for row in rows {
            let at = *row as usize;
            let is_allowed = match self.rows.get(at) {
                None => false,
                Some(SentRow::Open) => self.is_open(at),
                Some(SentRow::Unknown) => true,
                Some(known) => *known == became,
            };
            if !is_allowed {
                let why = self.rules.get(at).map_or("beyond the batch", |rule| rule.text());
                return Err(Error::State(format!("row {row} is none that can end like this: {why}")));
            }
        }
        Ok(())
    }
}
