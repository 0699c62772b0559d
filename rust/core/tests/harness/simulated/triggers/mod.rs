//! Steps on a trigger's history: documents are begun and end, alone and in batches, are loaded,
//! sealed and purged.

mod claims;
mod model;
mod staging;
mod workload;

use std::collections::HashMap;

use dochistory_core::columns::{FlagColumn, Validity};
use dochistory_core::history::History;
use dochistory_core::protocols::trigger::{Call, Verdicts};
use dochistory_core::{Error, Purge, Replays, Transaction};

use self::claims::{Begun, Held};
use self::model::Model;
use self::staging::Staged;
use super::super::{DAY, Ids, START, Triggers, trigger};
use super::{Harness, Step, Subject};

const APPLICATION: &str = "stream";

/// Documents that arrive together. Days are counted from the start of the test's time.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Which of the test's claims it becomes.
    pub slot: usize,
    pub ids: Vec<String>,
    pub day: i64,
    /// Its number, where it is a transaction, and what a known number means.
    pub number: Option<i64>,
    pub replays: Replays,
}

impl Batch {
    fn transaction(&self) -> Option<Transaction> {
        self.number.map(|batch| Transaction { application: APPLICATION.into(), batch })
    }
}

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    Begin(Batch),
    /// The same, staged by two tasks and committed by a third party; one attempt is lost.
    BeginStaged(Batch),
    /// Its first half: reserved and staged. Nothing of it shows.
    Stage(Batch),
    /// Its second half, after others were at work: what they were first with is left out and
    /// decided again.
    Commit(Batch),
    FinishClaim {
        slot: usize,
        completed: bool,
    },
    FinishRows {
        slot: usize,
        ids: Vec<String>,
        completed: bool,
    },
    FinishKeys {
        ids: Vec<String>,
        completed: bool,
        day: i64,
    },
    Load {
        ids: Vec<String>,
        day: i64,
        completed: bool,
    },
    Seal,
    Maintain,
    Purge {
        day: i64,
    },
    Reopen,
}

/// What the processes hold. A claim belongs to the handle that began it; which one does not matter
/// here.
#[derive(Default)]
pub struct State {
    claims: HashMap<usize, Held>,
    /// What was staged and not committed.
    staged: HashMap<usize, Staged>,
    /// The ids of each slot's batch.
    batches: HashMap<usize, Vec<String>>,
}

impl State {
    fn batch(&self, slot: usize) -> Vec<String> {
        self.batches.get(&slot).cloned().unwrap_or_default()
    }
}

/// The rules that answer, and what is known of transactions; a reader is not asked for those.
#[derive(Debug, PartialEq)]
pub struct Found {
    pub rules: Vec<&'static str>,
    transactions: Option<Vec<(String, i64, bool)>>,
}

/// The rules of a batch that was begun; none where its number was refused.
type Answer = Option<Vec<&'static str>>;

fn at(day: i64) -> i64 {
    START + day * DAY
}

fn classify(history: &History, ids: &[String]) -> Result<Verdicts, Error> {
    history.classify(&trigger(), &Ids::new(ids).documents(), &mut Call::at(START))
}

fn rules_of(verdicts: &Verdicts) -> Vec<&'static str> {
    verdicts.outcomes.iter().map(|outcome| outcome.rule()).collect()
}

impl Subject for Triggers {
    type Op = Op;
    type Model = Model;
    type Answer = Answer;
    type Found = Found;
    type State = State;

    fn workload() -> Vec<Step<Op>> {
        workload::workload()
    }

    fn ids() -> Vec<String> {
        workload::ids(0..workload::IDS)
    }

    fn perform(harness: &mut Harness<Self>, by: usize, op: &Op) -> Result<Option<Answer>, Error> {
        match op {
            Op::Begin(batch) => return harness.begin(by, batch).map(Some),
            Op::BeginStaged(batch) => {
                harness.stage(by, batch, None)?;
                return harness.commit(by, batch);
            }
            Op::Stage(batch) => harness.stage(by, batch, None)?,
            Op::Commit(batch) => {
                if !harness.state.staged.contains_key(&batch.slot) {
                    // An attempt before this one broke off: its job is over or nobody knows it, so
                    // all is done again.
                    harness.stage(by, batch, None)?;
                }
                return harness.commit(by, batch);
            }
            Op::FinishClaim { slot, completed } => match harness.state.claims.get_mut(slot) {
                Some(claim) => return Ok(claim.end(None, *completed)?.then_some(None)),
                None => harness.finish_keys(by, &harness.state.batch(*slot), *completed, 0)?,
            },
            Op::FinishRows { slot, ids, completed } => match harness.state.claims.get_mut(slot) {
                Some(claim) => {
                    let wanted = harness.models[0].claimed_of(*slot, ids);
                    return Ok(claim.end(Some(&wanted), *completed)?.then_some(None));
                }
                None => harness.finish_keys(by, ids, *completed, 0)?,
            },
            Op::FinishKeys { ids, completed, day } => harness.finish_keys(by, ids, *completed, *day)?,
            Op::Load { ids, day, completed } => {
                let bits = vec![if *completed { 0xff } else { 0 }; ids.len().div_ceil(8)];
                let completed = FlagColumn::Bits { bits: &bits, offset: 0, validity: Validity::all() };
                let mut load = harness.history(by)?.load(&trigger())?;
                load.push(&Ids::new(ids).documents(), &vec![at(*day); ids.len()], i64::MAX, completed)?;
                load.finish()?;
            }
            Op::Seal => {
                let history = harness.history(by)?;
                history.unpin("orders", &history.pin("orders")?)?;
            }
            Op::Maintain => drop(harness.history(by)?.maintain("orders", true, &mut |_, _| Ok(()))?),
            Op::Purge { day } => drop(harness.history(by)?.purge(&trigger(), Purge::at(at(*day)))?),
            Op::Reopen => harness.reopen(by)?,
        }
        Ok(Some(None))
    }

    fn apply(state: &State, model: &mut Model, op: &Op) -> Answer {
        match op {
            Op::Begin(batch) | Op::BeginStaged(batch) | Op::Commit(batch) => {
                let transaction = batch.number.map(|number| (APPLICATION, number));
                return model.begin(batch.slot, &batch.ids, at(batch.day), transaction, batch.replays);
            }
            Op::FinishClaim { slot, completed } if state.claims.contains_key(slot) => {
                model.finish_slot(*slot, *completed);
            }
            Op::FinishRows { slot, ids, completed } if state.claims.contains_key(slot) => {
                model.finish_rows(*slot, &model.claimed_of(*slot, ids), *completed);
            }
            Op::FinishClaim { slot, completed } => model.finish_keys(&state.batch(*slot), *completed, at(0)),
            Op::FinishRows { ids, completed, .. } => model.finish_keys(ids, *completed, at(0)),
            Op::FinishKeys { ids, completed, day } => model.finish_keys(ids, *completed, at(*day)),
            Op::Load { ids, day, completed } => model.load(ids, at(*day), *completed),
            Op::Purge { day } => model.purge(at(*day) - 30 * DAY),
            Op::Stage(_) | Op::Seal | Op::Maintain | Op::Reopen => {}
        }
        None
    }

    fn find(history: &History, ids: &[String]) -> Result<Found, Error> {
        let verdicts = classify(history, ids)?;
        // Where the history is unavailable, classifying still answers and this fails.
        let transactions = history.statistics("orders")?.transactions;
        Ok(Found { rules: rules_of(&verdicts), transactions: Some(transactions) })
    }

    fn allows(model: &Model, ids: &[String], found: &Found) -> bool {
        ids.iter().zip(&found.rules).all(|(id, rule)| model.rule(id) == *rule)
            && found.transactions.as_ref().is_none_or(|transactions| model.transactions() == *transactions)
    }

    fn describe(model: &Model, ids: &[String]) -> String {
        let rules = ids.iter().map(|id| model.rule(id)).collect();
        format!("{:?}", Found { rules, transactions: Some(model.transactions()) })
    }

    fn verify(history: &History) -> Result<(), Error> {
        history.verify("orders", &mut |_, _| Ok(())).map(drop)
    }

    fn forget(state: &mut State) {
        state.claims.clear();
    }

    /// A handle that failed to write writes no more.
    fn check_failed(harness: &mut Harness<Self>, step: &Step<Op>, error: &Error) {
        let text = error.to_string();
        // A claim may belong to the other handle.
        let writes = matches!(step.op, Op::Begin(_) | Op::FinishKeys { .. });
        let is_of_write =
            ["cannot append to", "cannot sync", "cannot write", "cannot link"].iter().any(|what| text.contains(what));
        if writes && is_of_write && harness.histories[step.by].is_some() {
            let key = Ids::new(&["urn:never"]);
            let next = harness.history(step.by).unwrap().complete_keys(&trigger(), &key.documents(), START);
            assert!(matches!(next, Err(Error::Failed(_))), "{step:?}: after {error} came {next:?}");
        }
    }
}

impl Harness<Triggers> {
    /// Ask a handle that only reads, and was opened before: it says what the models say.
    pub fn check_reader(&mut self, reader: &History) {
        let verdicts = classify(reader, &self.ids).unwrap();
        assert_eq!(verdicts.unavailable, None, "a reader is never kept from reading");
        self.retain(&Found { rules: rules_of(&verdicts), transactions: None });
    }

    fn finish_keys(&mut self, by: usize, ids: &[String], completed: bool, day: i64) -> Result<(), Error> {
        let finish = if completed { History::complete_keys } else { History::release_keys };
        finish(self.history(by)?, &trigger(), &Ids::new(ids).documents(), at(day)).map(drop)
    }

    fn begin(&mut self, by: usize, batch: &Batch) -> Result<Answer, Error> {
        self.state.batches.insert(batch.slot, batch.ids.clone());
        let (column, mut call, transaction) = (Ids::new(&batch.ids), Call::at(at(batch.day)), batch.transaction());
        let history = self.history(by)?;
        match history.begin(&trigger(), &column.documents(), &mut call, transaction.as_ref(), batch.replays) {
            Ok(begun) => {
                if let Some(reason) = begun.verdicts.unavailable {
                    return Err(Error::State(format!("unavailable: {reason}")));
                }
                self.state.hold(batch, begun.claim.map(Begun::Batch));
                Ok(Some(rules_of(&begun.verdicts)))
            }
            Err(Error::Transaction(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
