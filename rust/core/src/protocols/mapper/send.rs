//! Receiver direction: pending before a message goes out, mapped after (rules M1 to M8).

mod ends;

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::known::Known;
use super::record::{Pending, Record};
use super::rules::{
    Action, Attempt, Change, MapperBatch, NO_ID, Policies, Policy, Qos, ReceiverFacts, Rule, decide_receiver,
};
use super::texts::Untils;
use super::{Mapper, same_length};
use crate::history::values::{Ending, LastTransaction, ValueEdit};
use crate::segment::values::columns::{Id, Ids};
use crate::types::transaction::{BatchRows, Meaning, Replay, Replays, Transaction};
use crate::{Error, Result};

/// The transaction that a batch is sent under.
#[derive(Clone, Debug)]
pub struct SendTransaction {
    /// Application and batch.
    pub transaction: Transaction,
    /// What to do with a number that comes again.
    pub replays: Replays,
}

/// The result of a row that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentRow {
    /// Not reported yet.
    Open,
    /// Sent and mapped.
    Done,
    /// Certainly not delivered.
    Failed,
    /// The outcome is unknown.
    Unknown,
}

/// The facts of a batch at its begin.
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
    /// A number in every pending entry that this attempt writes: its ends change no other entry.
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

/// The columns of a batch of messages beside its ids.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    /// Quality of service of each.
    pub qos: &'a [Qos],
    /// The queue of each that is in order.
    pub queues: &'a [u32],
}

impl Facts {
    fn decide(&self, attempts: Option<&[Attempt]>) -> Result<Vec<Rule>> {
        let batch = MapperBatch {
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
    /// Judge messages that go out, and write the pending entries of those to send, in one step: of
    /// two callers that begin the same id at the same time one finds it pending. Durable on return,
    /// before anything is sent. With `refuse` nothing is written if any row is to be raised.
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
        let batch = Batch { mapper: self, ids, messages, first_copies, until, now_us, under, attempt };
        self.values.change(ids, |edit| {
            let seen = batch.see(edit)?;
            let rules = seen.facts.decide(None)?;
            let is_refused = refuse && rules.iter().any(|rule| rule.outcome().action == Action::Raise);
            let claim = if is_refused { seen.claim() } else { batch.write(edit, &seen, &rules)? };
            let is_done = seen.previous.as_ref().is_some_and(|previous| previous.ending == Some(Ending::Completed));
            let is_ended = is_done && seen.claim() == claim;
            let replay = seen.meaning.map(Meaning::replay);
            let rows = vec![SentRow::Open; rules.len()];
            let state = Mutex::new(State { rules, rows, is_ended });
            let Seen { known, facts, .. } = seen;
            Ok(Send { mapper: self.clone(), facts, known, claim, attempt, replay, started_at: now_us, state })
        })
    }

    /// The change by a rule before anything is sent; `begun` is the pending entry of a row to send.
    fn first_change(edit: &mut ValueEdit, id: Id, rule: Rule, now: &Record, begun: Pending) -> Result<()> {
        match rule.outcome().change {
            Change::WritePending | Change::TakePending => Self::put(edit, id, &Record::pending(begun)),
            Change::RemovePending if now.is_mapped => Self::put(edit, id, &Record { pending: None, ..*now }),
            Change::WriteMappingRemovePending => {
                // The time of an old doubt may be over: its mapping is kept from this decision on.
                let until = begun.until.max(now.kept_until());
                Self::put(edit, id, &Record::mapped(None, until))
            }
            _ => Ok(()),
        }
    }
}

/// A batch that is about to be sent.
struct Batch<'a> {
    mapper: &'a Mapper,
    ids: &'a Ids<'a>,
    messages: Messages<'a>,
    first_copies: Vec<u32>,
    until: Untils<'a>,
    now_us: i64,
    under: Option<&'a SendTransaction>,
    attempt: u64,
}

/// What the mapper holds of a batch and of its transaction.
struct Seen {
    known: Known,
    facts: Facts,
    rows: Option<BatchRows>,
    meaning: Option<Meaning>,
    /// The earlier run of this very batch.
    previous: Option<LastTransaction>,
}

impl Seen {
    /// The claim of the earlier run.
    fn claim(&self) -> Option<u64> {
        self.previous.as_ref().map(|previous| previous.claim)
    }
}

impl Batch<'_> {
    fn replays(&self) -> Replays {
        self.under.map(|under| under.replays).unwrap_or_default()
    }

    fn see(&self, edit: &ValueEdit) -> Result<Seen> {
        let settings = self.mapper.settings;
        let known = Known::read(edit.found(), settings, self.now_us)?;
        let rows = self.under.map(|_| self.mapper.values.batch_rows(self.ids));
        let last = self.under.and_then(|under| edit.transaction(&under.transaction.application));
        let after = |under: &SendTransaction| {
            let last = last.as_ref().map(LastTransaction::last);
            under.transaction.after(last, rows, under.replays)
        };
        let meaning = self.under.map(after).transpose()?;
        let previous = last.filter(|_| meaning.is_some_and(|meaning| meaning.replay() != Replay::First));
        let mut facts = Facts {
            qos: self.messages.qos.to_vec(),
            first_copies: self.first_copies.clone(),
            queues: self.messages.queues.to_vec(),
            pending: known.pending.clone(),
            mapped: known.mapped.clone(),
            policies: known.resolved.iter().map(|one| one.unwrap_or(settings.policy)).collect(),
        };
        see_replay(&mut facts, &known, previous.as_ref(), meaning, self.replays());
        Ok(Seen { known, facts, rows, meaning, previous })
    }

    /// Record the transaction, where this run is recorded, and what the rules change. Answers the
    /// claim of the batch.
    fn write(&self, edit: &mut ValueEdit, seen: &Seen, rules: &[Rule]) -> Result<Option<u64>> {
        let (meaning, how) = (seen.meaning, self.replays());
        let is_written = meaning.is_some_and(|meaning| meaning.begins() || meaning.reruns(how));
        let mut claim = seen.claim();
        if let Some(under) = self.under.filter(|_| is_written || writes_more(rules, meaning)) {
            let replaces = claim.filter(|_| meaning.is_some_and(|meaning| meaning.replaces(how)));
            claim = Some(edit.claim());
            edit.begin(under.transaction.clone(), seen.rows, replaces);
        }
        for (row, rule) in rules.iter().enumerate() {
            let (claim, until) = (claim.unwrap_or(0), self.until.get(row));
            let begun = Pending { since: self.now_us, claim, attempt: self.attempt, resolved: None, until };
            Mapper::first_change(edit, self.ids.id(row), *rule, &seen.known.record_of(row), begun)?;
        }
        Ok(claim)
    }
}

/// A repeated batch sees its own entries. If it ended, nothing of it is sent again; if it was only
/// begun, the policy decides.
fn see_replay(
    facts: &mut Facts,
    known: &Known,
    previous: Option<&LastTransaction>,
    meaning: Option<Meaning>,
    how: Replays,
) {
    let (Some(previous), Some(meaning)) = (previous, meaning) else { return };
    if meaning.is_done() {
        // Also the ids that a purge removed since: the batch is the same.
        for row in 0..facts.mapped.len() {
            facts.mapped[row] |= !facts.pending[row];
        }
    }
    if meaning.reruns(how) {
        for row in 0..facts.pending.len() {
            facts.pending[row] &= known.claims[row] != previous.claim;
        }
    }
}

/// Whether a batch that ended before, whose rows were not recorded, has rows that never went out:
/// they need a claim of their own.
fn writes_more(rules: &[Rule], meaning: Option<Meaning>) -> bool {
    let is_sent = |rule: &Rule| rule.outcome().action == Action::Process;
    meaning == Some(Meaning::Unknown { is_finished: true }) && rules.iter().any(is_sent)
}

impl Send {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present rule of each row: failed rows change the later ones.
    pub fn rules(&self) -> Vec<Rule> {
        self.state().rules.clone()
    }

    /// The mapper's knowledge when the batch was begun.
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

    /// The rows to send that have no result yet.
    pub fn open_rows(&self) -> Vec<u32> {
        let state = self.state();
        (0..state.rules.len() as u32).filter(|row| state.is_open(*row as usize)).collect()
    }
}

impl State {
    fn is_open(&self, row: usize) -> bool {
        self.rows[row] == SentRow::Open && self.rules[row].outcome().action == Action::Process
    }

    /// Whether no row of the batch is left to send, to decide or to wait for.
    fn is_done(&self) -> bool {
        self.rows.iter().zip(&self.rules).all(|(row, rule)| match rule.outcome().action {
            Action::Process => *row == SentRow::Done,
            Action::Skip => true,
            Action::Raise | Action::Hold => false,
        })
    }

    fn attempts(&self) -> Vec<Attempt> {
        let attempt = |row: &SentRow| match row {
            SentRow::Open => Attempt::Open,
            SentRow::Done => Attempt::Done,
            SentRow::Failed => Attempt::Failed,
            SentRow::Unknown => Attempt::Unknown,
        };
        self.rows.iter().map(attempt).collect()
    }

    /// Only a row that was to be sent can end, and a sent row stays sent.
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
                return Err(Error::State(format!("row {row} cannot end like this: {why}")));
            }
        }
        Ok(())
    }
}
