//! Runs steps on a real history and on the models of it, side by side.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use dochistory_core::columns::FlagColumn;
use dochistory_core::history::{History, OpenOptions};
use dochistory_core::io::FileSystem;
use dochistory_core::protocols::trigger::rules::Trigger;
use dochistory_core::protocols::trigger::{Attempt, Call, Claim, Job, JobPlan, Receipt, StagedClaim};
use dochistory_core::{BatchRows, Error, Purge, Replays, Transaction};

use super::model::Model;
use super::{DAY, Ids, START, trigger};

/// One operation. Days are counted from the start of the test's time.
#[derive(Clone, Debug)]
pub enum Op {
    Begin {
        slot: usize,
        ids: Vec<String>,
        day: i64,
        batch: Option<i64>,
        replays: Replays,
    },
    /// The same, staged by two tasks and committed by a third party; one attempt is lost.
    BeginStaged {
        slot: usize,
        ids: Vec<String>,
        day: i64,
        batch: Option<i64>,
        replays: Replays,
    },
    /// Its first half: reserved and staged. Nothing of it shows.
    Stage {
        slot: usize,
        ids: Vec<String>,
        day: i64,
        batch: Option<i64>,
        replays: Replays,
    },
    /// Its second half, after others were at work: what they were first with is left out and
    /// decided again.
    Commit {
        slot: usize,
        ids: Vec<String>,
        day: i64,
        batch: Option<i64>,
        replays: Replays,
    },
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

/// An operation, and which of the handles does it.
#[derive(Clone, Debug)]
pub struct Step {
    pub by: usize,
    pub op: Op,
}

/// A claim, whichever way it was begun, and how it has ended so far.
struct Held {
    claim: Begun,
    whole: Option<bool>,
    ended: Vec<(String, bool)>,
}

enum Begun {
    Batch(Claim),
    Staged(StagedClaim),
}

impl Held {
    fn new(claim: Begun) -> Self {
        Self { claim, whole: None, ended: Vec::new() }
    }

    /// End it as [`Held::finish`]; answers whether that was refused, as it must be after the other
    /// end.
    fn end(&mut self, batch: &[String], ids: Option<&[String]>, completed: bool) -> Result<bool, Error> {
        let ended_otherwise = |id: &String| self.ended.iter().any(|(other, how)| other == id && *how != completed);
        let is_refused = self.whole.is_some_and(|before| before != completed)
            || ids.is_some_and(|ids| ids.iter().any(ended_otherwise));
        match self.finish(batch, ids, completed) {
            Err(Error::State(_)) if is_refused => return Ok(true),
            Ok(()) if is_refused => panic!("what ended {} was ended the other way", !completed),
            other => other?,
        }
        match ids {
            None => self.whole = Some(completed),
            Some(ids) => self.ended.extend(ids.iter().map(|id| (id.clone(), completed))),
        }
        Ok(false)
    }

    /// End all of it, or some ids of its batch.
    fn finish(&self, batch: &[String], ids: Option<&[String]>, completed: bool) -> Result<(), Error> {
        let column = ids.map(Ids::new);
        let row = |id: &String| batch.iter().position(|other| other == id).unwrap() as u32;
        let rows: Option<Vec<u32>> = ids.map(|ids| ids.iter().map(row).collect());
        match &self.claim {
            Begun::Batch(claim) if completed => claim.complete(rows.as_deref()),
            Begun::Batch(claim) => claim.release(rows.as_deref()),
            Begun::Staged(claim) if completed => claim.complete(column.as_ref().map(Ids::documents).as_ref()),
            Begun::Staged(claim) => claim.release(column.as_ref().map(Ids::documents).as_ref()),
        }
    }
}

/// What was staged and not committed.
struct OnTheWay {
    job: Job,
    receipts: [Receipt; 2],
    rules: Vec<&'static str>,
}

/// Day, batch number, and what a known number means.
type How = (i64, Option<i64>, Replays);

pub const APPLICATION: &str = "stream";

/// Handles on one history, and what it may hold: one model for each possible state.
pub struct Rig {
    pub path: &'static str,
    pub systems: Vec<Arc<dyn FileSystem>>,
    pub histories: Vec<Option<History>>,
    claims: HashMap<usize, (Held, Vec<String>)>,
    /// What was staged and not committed.
    staged: HashMap<usize, OnTheWay>,
    /// The ids of each slot's batch.
    batches: HashMap<usize, Vec<String>>,
    pub models: Vec<Model>,
    pub ids: Vec<String>,
    trigger: Trigger,
    /// Whether many texts share a key.
    pub collides: bool,
}

fn at(day: i64) -> i64 {
    START + day * DAY
}

impl Rig {
    pub fn new(path: &'static str, systems: Vec<Arc<dyn FileSystem>>, ids: Vec<String>) -> Self {
        let histories = systems.iter().map(|_| None).collect();
        let (claims, batches, staged) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self {
            path,
            systems,
            histories,
            claims,
            staged,
            batches,
            models: vec![Model::default()],
            ids,
            trigger: trigger(),
            collides: false,
        }
    }

    /// Forget the handles of a process that died.
    pub fn restart(&mut self, by: usize, system: Arc<dyn FileSystem>) {
        // A claim belongs to the handle that began it; which one does not matter here.
        self.claims.clear();
        self.histories[by] = None;
        self.systems[by] = system;
    }

    pub fn history(&mut self, by: usize) -> Result<&History, Error> {
        if self.histories[by].is_none() {
            let options = OpenOptions { create: true, ..OpenOptions::default() };
            let opened = History::open_on(self.systems[by].clone(), Path::new(self.path), &options)?;
            self.histories[by] = Some(if self.collides { opened.with_colliding_keys() } else { opened });
        }
        self.histories[by].as_ref().ok_or_else(|| Error::State("not open".into()))
    }

    /// Compare every verdict with the models, and drop the models that are refuted.
    pub fn check(&mut self, by: usize) -> Result<(), Error> {
        let (ids, trigger) = (Ids::new(&self.ids), self.trigger.clone());
        let history = self.history(by)?;
        let verdicts = history.classify(&trigger, &ids.documents(), &mut Call::at(at(0)))?;
        let rules: Vec<_> = verdicts.outcomes.iter().map(|outcome| outcome.rule()).collect();
        let transactions = history.statistics(&trigger.name)?.transactions;
        self.retain(&format!("{rules:?} {transactions:?}"), |model, ids| {
            ids.iter().zip(&rules).all(|(id, rule)| model.rule(id) == *rule) && model.transactions() == transactions
        });
        Ok(())
    }

    /// Ask a handle that only reads, and was opened before: it says what the models say.
    pub fn check_reader(&mut self, reader: &History) {
        let (ids, trigger) = (Ids::new(&self.ids), self.trigger.clone());
        let verdicts = reader.classify(&trigger, &ids.documents(), &mut Call::at(at(0))).unwrap();
        assert_eq!(verdicts.unavailable, None, "a reader is never kept from reading");
        let rules: Vec<_> = verdicts.outcomes.iter().map(|outcome| outcome.rule()).collect();
        self.retain(&format!("to a reader {rules:?}"), |model, ids| {
            ids.iter().zip(&rules).all(|(id, rule)| model.rule(id) == *rule)
        });
    }

    /// A handle that only reads.
    pub fn reader(&self, system: Arc<dyn FileSystem>) -> History {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let opened = History::open_on(system, Path::new(self.path), &options).unwrap();
        if self.collides { opened.with_colliding_keys() } else { opened }
    }

    fn retain(&mut self, found: &str, is_possible: impl Fn(&Model, &[String]) -> bool) {
        let models = std::mem::take(&mut self.models);
        let describe = |model: &Model| {
            let rules: Vec<_> = self.ids.iter().map(|id| model.rule(id)).collect();
            format!("{rules:?} {:?}", model.transactions())
        };
        let expected: Vec<_> = models.iter().map(describe).collect();
        self.models = models.into_iter().filter(|model| is_possible(model, &self.ids)).collect();
        assert!(!self.models.is_empty(), "the store says\n{found}\nbut should say\n{}", expected.join("\nor "));
        self.models.dedup();
    }

    /// Do a step. When it fails, the models become those in which it happened and those in which it
    /// did not.
    pub fn step(&mut self, step: &Step) -> Result<(), Error> {
        let before = self.models.clone();
        let result = self.perform(step);
        if result.is_err() {
            let after = before.iter().cloned().map(|mut model| {
                self.apply(&mut model, &step.op);
                model
            });
            self.models = before.iter().cloned().chain(after).collect();
            self.models.dedup();
        }
        result
    }

    fn apply(&self, model: &mut Model, op: &Op) -> Option<Vec<&'static str>> {
        match op {
            Op::Begin { slot, ids, day, batch, replays }
            | Op::BeginStaged { slot, ids, day, batch, replays }
            | Op::Commit { slot, ids, day, batch, replays } => {
                return model.begin(*slot, ids, at(*day), batch.map(|batch| (APPLICATION, batch)), *replays);
            }
            Op::FinishClaim { slot, completed } if self.claims.contains_key(slot) => {
                model.finish_slot(*slot, *completed);
            }
            Op::FinishRows { slot, ids, completed } if self.claims.contains_key(slot) => {
                let claimed = model.claimed(*slot);
                let ids: Vec<_> = ids.iter().filter(|id| claimed.contains(id)).cloned().collect();
                model.finish_rows(*slot, &ids, *completed);
            }
            Op::FinishClaim { slot, completed } => {
                let ids = self.batches.get(slot).cloned().unwrap_or_default();
                model.finish_keys(&ids, *completed, at(0));
            }
            Op::FinishRows { ids, completed, .. } => model.finish_keys(ids, *completed, at(0)),
            Op::FinishKeys { ids, completed, day } => model.finish_keys(ids, *completed, at(*day)),
            Op::Load { ids, day, completed } => model.load(ids, at(*day), *completed),
            Op::Purge { day } => model.purge(at(*day) - 30 * DAY),
            Op::Stage { .. } | Op::Seal | Op::Maintain | Op::Reopen => {}
        }
        None
    }

    fn perform(&mut self, step: &Step) -> Result<(), Error> {
        let trigger = self.trigger.clone();
        match &step.op {
            Op::Begin { slot, ids, day, batch, replays } => {
                self.batches.insert(*slot, ids.clone());
                return self.begin(step, *slot, ids, *day, *batch, *replays);
            }
            Op::BeginStaged { slot, ids, day, batch, replays } => {
                self.batches.insert(*slot, ids.clone());
                self.stage(step.by, *slot, ids, (*day, *batch, *replays), None)?;
                return self.commit(step, *slot, ids, (*day, *batch, *replays));
            }
            Op::Stage { slot, ids, day, batch, replays } => {
                self.batches.insert(*slot, ids.clone());
                return self.stage(step.by, *slot, ids, (*day, *batch, *replays), None);
            }
            Op::Commit { slot, ids, day, batch, replays } => {
                if !self.staged.contains_key(slot) {
                    // An attempt before this one broke off: its job is over or nobody knows it, so
                    // all is done again.
                    self.stage(step.by, *slot, ids, (*day, *batch, *replays), None)?;
                }
                return self.commit(step, *slot, ids, (*day, *batch, *replays));
            }
            Op::FinishClaim { slot, completed } => match self.claims.get_mut(slot) {
                Some((claim, batch)) => {
                    if claim.end(batch, None, *completed)? {
                        return Ok(());
                    }
                }
                None => {
                    let ids = self.batches.get(slot).cloned().unwrap_or_default();
                    self.finish_keys(step.by, &ids, *completed, 0)?;
                }
            },
            Op::FinishRows { slot, ids, completed } => match self.claims.get_mut(slot) {
                Some((claim, batch)) => {
                    let claimed = self.models[0].claimed(*slot);
                    let wanted: Vec<_> = ids.iter().filter(|id| claimed.contains(id)).cloned().collect();
                    if claim.end(batch, Some(&wanted), *completed)? {
                        return Ok(());
                    }
                }
                None => self.finish_keys(step.by, ids, *completed, 0)?,
            },
            Op::FinishKeys { ids, completed, day } => self.finish_keys(step.by, ids, *completed, *day)?,
            Op::Load { ids, day, completed } => {
                let bits = vec![if *completed { 0xff } else { 0 }; ids.len().div_ceil(8)];
                let validity = dochistory_core::columns::Validity::all();
                let column = Ids::new(ids);
                let mut load = self.history(step.by)?.load(&trigger)?;
                load.push(
                    &column.documents(),
                    &vec![at(*day); ids.len()],
                    i64::MAX,
                    FlagColumn::Bits { bits: &bits, offset: 0, validity },
                )?;
                load.finish()?;
            }
            Op::Seal => {
                let history = self.history(step.by)?;
                let snapshot = history.pin(&trigger.name)?;
                history.unpin(&trigger.name, &snapshot)?;
            }
            Op::Maintain => {
                self.history(step.by)?.maintain(&trigger.name, true, &mut |_, _| Ok(()))?;
            }
            Op::Purge { day } => {
                self.history(step.by)?.purge(&trigger, Purge::at(at(*day)))?;
            }
            Op::Reopen => {
                self.histories[step.by] = None;
                self.history(step.by)?;
            }
        }
        let models = std::mem::take(&mut self.models);
        let apply = |mut model: Model| {
            self.apply(&mut model, &step.op);
            model
        };
        self.models = models.into_iter().map(apply).collect();
        Ok(())
    }

    fn finish_keys(&mut self, by: usize, ids: &[String], completed: bool, day: i64) -> Result<(), Error> {
        let (column, trigger) = (Ids::new(ids), self.trigger.clone());
        let history = self.history(by)?;
        let finish = if completed { History::complete_keys } else { History::release_keys };
        finish(history, &trigger, &column.documents(), at(day)).map(drop)
    }

    fn begin(
        &mut self,
        step: &Step,
        slot: usize,
        ids: &[String],
        day: i64,
        batch: Option<i64>,
        replays: Replays,
    ) -> Result<(), Error> {
        let (column, trigger) = (Ids::new(ids), self.trigger.clone());
        let transaction = batch.map(|batch| Transaction { application: APPLICATION.into(), batch });
        let history = self.history(step.by)?;
        let begun = history.begin(&trigger, &column.documents(), &mut Call::at(at(day)), transaction.as_ref(), replays);
        let rules = match begun {
            Ok(begun) => {
                if let Some(reason) = begun.verdicts.unavailable {
                    return Err(Error::State(format!("unavailable: {reason}")));
                }
                self.claims.remove(&slot);
                if let Some(claim) = begun.claim {
                    self.claims.insert(slot, (Held::new(Begun::Batch(claim)), ids.to_vec()));
                }
                Some(begun.verdicts.outcomes.iter().map(|outcome| outcome.rule()).collect::<Vec<_>>())
            }
            Err(Error::Transaction(_)) => None,
            Err(error) => return Err(error),
        };
        self.has_begun(step, slot, ids, (day, batch, replays), rules.as_deref());
        Ok(())
    }

    /// Reserve a job and stage its documents by two tasks; nothing stays staged where its batch
    /// number is refused.
    fn stage(
        &mut self,
        by: usize,
        slot: usize,
        ids: &[String],
        (day, batch, replays): How,
        rows: Option<BatchRows>,
    ) -> Result<(), Error> {
        self.staged.remove(&slot);
        let (trigger, collides) = (self.trigger.clone(), self.collides);
        let (system, path) = (self.systems[by].clone(), Path::new(self.path));
        let transaction = batch.map(|batch| Transaction { application: APPLICATION.into(), batch });
        let started_at = at(day);
        let plan = JobPlan { parts: 2, reads: true, routed: false, replays, transaction, rows, started_at };
        let job = match self.history(by)?.reserve(&trigger, plan) {
            Ok((job, _)) => job,
            Err(Error::Transaction(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let options = OpenOptions { snapshot: History::snapshot_of_job(&job), ..OpenOptions::default() };
        let tasks = History::open_on(system, path, &options)?;
        let tasks = if collides { tasks.with_colliding_keys() } else { tasks };
        let stage = |part: u32, name, ids: &[String]| {
            let (column, attempt) = (Ids::new(ids), Attempt { part, name });
            tasks.stage(&trigger, &job, attempt, &column.documents(), &mut Call::at(0))
        };
        let (first, second) = ids.split_at(ids.len() / 2);
        stage(1, "lost", second)?;
        let staged = [stage(0, "a0", first)?, stage(1, "a1", second)?];
        let outcomes = staged.iter().flat_map(|staged| &staged.verdicts.outcomes);
        let rules = outcomes.map(|outcome| outcome.rule()).collect();
        let receipts = staged.map(|staged| staged.receipt);
        self.staged.insert(slot, OnTheWay { job, receipts, rules });
        Ok(())
    }

    /// Commit what was staged. What others were first with is left out, and decided again; a batch
    /// that has other rows than its tasks took it for is staged once more.
    fn commit(&mut self, step: &Step, slot: usize, ids: &[String], how: How) -> Result<(), Error> {
        let mut is_known = false;
        loop {
            let trigger = self.trigger.clone();
            let Some(OnTheWay { job, receipts, mut rules }) = self.staged.remove(&slot) else {
                self.has_begun(step, slot, ids, how, None);
                return Ok(());
            };
            let history = self.history(step.by)?;
            match history.commit_rest(&trigger, &job, &receipts, u64::MAX) {
                Ok(claim) => {
                    let lost: Vec<String> = ids.iter().filter(|id| claim.lost().contains(id)).cloned().collect();
                    assert_eq!(lost.len(), claim.lost().len());
                    let again = claim.decide_lost(&trigger, &Ids::new(&lost).documents(), &mut Call::at(0))?;
                    for (id, outcome) in lost.iter().zip(again.outcomes) {
                        rules[ids.iter().position(|other| other == id).unwrap()] = outcome.rule();
                    }
                    self.claims.remove(&slot);
                    if claim.number().is_some() {
                        self.claims.insert(slot, (Held::new(Begun::Staged(claim)), ids.to_vec()));
                    }
                    self.has_begun(step, slot, ids, how, Some(&rules));
                    return Ok(());
                }
                Err(Error::Transaction(_)) => {
                    history.give_up(&job)?;
                    self.has_begun(step, slot, ids, how, None);
                    return Ok(());
                }
                Err(Error::Conflict(text)) if text.contains("other rows") => {
                    history.give_up(&job)?;
                    assert!(!is_known, "its rows were known");
                    is_known = true;
                    self.stage(step.by, slot, ids, how, Some(Receipt::rows_of(&receipts)))?;
                }
                Err(Error::Conflict(text)) => {
                    // Nobody else runs this transaction: only a purge can have come first.
                    let purged = history.statistics(&trigger.name)?.purged_upto;
                    assert!(purged >= Some(at(how.0)), "{text}");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Compare what was begun with the models, and let it happen in them.
    fn has_begun(
        &mut self,
        step: &Step,
        slot: usize,
        ids: &[String],
        (day, batch, replays): How,
        rules: Option<&[&'static str]>,
    ) {
        self.retain(&format!("{:?} begins as {rules:?}", step.op), |model, _| {
            let mut model = model.clone();
            model.begin(slot, ids, at(day), batch.map(|batch| (APPLICATION, batch)), replays).as_deref() == rules
        });
        let models = std::mem::take(&mut self.models);
        self.models = models
            .into_iter()
            .map(|mut model| {
                model.begin(slot, ids, at(day), batch.map(|batch| (APPLICATION, batch)), replays);
                model
            })
            .collect();
    }
}
