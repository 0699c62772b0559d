//! A batch that is staged by two tasks, and committed.

use dochistory_core::history::OpenOptions;
use dochistory_core::protocols::trigger::{Attempt, Call, Job, JobPlan, Receipt};
use dochistory_core::{BatchRows, Error};

use super::super::super::{Ids, Triggers, trigger};
use super::super::Harness;
use super::{Answer, Batch, Begun, at};
use dochistory_core::history::History;

/// What was staged and not committed.
pub struct Staged {
    job: Job,
    receipts: [Receipt; 2],
    rules: Vec<&'static str>,
}

impl Harness<Triggers> {
    /// Reserve a job and stage its documents by two tasks; nothing stays staged where its batch
    /// number is refused.
    pub fn stage(&mut self, by: usize, batch: &Batch, rows: Option<BatchRows>) -> Result<(), Error> {
        self.state.batches.insert(batch.slot, batch.ids.clone());
        self.state.staged.remove(&batch.slot);
        let plan = JobPlan {
            parts: 2,
            reads: true,
            routed: false,
            replays: batch.replays,
            transaction: batch.transaction(),
            rows,
            started_at: at(batch.day),
        };
        let job = match self.history(by)?.reserve(&trigger(), plan) {
            Ok((job, _)) => job,
            Err(Error::Transaction(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let options = OpenOptions { snapshot: History::snapshot_of_job(&job), ..OpenOptions::default() };
        let tasks = self.open(self.systems[by].clone(), &options)?;
        let stage = |part: u32, name, ids: &[String]| {
            let (column, attempt) = (Ids::new(ids), Attempt { part, name });
            tasks.stage(&trigger(), &job, attempt, &column.documents(), &mut Call::at(0))
        };
        let (first, second) = batch.ids.split_at(batch.ids.len() / 2);
        stage(1, "lost", second)?;
        let staged = [stage(0, "a0", first)?, stage(1, "a1", second)?];
        let outcomes = staged.iter().flat_map(|staged| &staged.verdicts.outcomes);
        let rules = outcomes.map(|outcome| outcome.rule()).collect();
        let receipts = staged.map(|staged| staged.receipt);
        self.state.staged.insert(batch.slot, Staged { job, receipts, rules });
        Ok(())
    }

    /// Commit what was staged. What others were first with is left out, and decided again; a batch
    /// that has other rows than its tasks took it for is staged once more.
    pub fn commit(&mut self, by: usize, batch: &Batch) -> Result<Option<Answer>, Error> {
        let (ids, mut is_known) = (&batch.ids, false);
        loop {
            let Some(Staged { job, receipts, mut rules }) = self.state.staged.remove(&batch.slot) else {
                return Ok(Some(None));
            };
            let history = self.history(by)?;
            match history.commit_rest(&trigger(), &job, &receipts, u64::MAX) {
                Ok(claim) => {
                    let lost: Vec<String> = ids.iter().filter(|id| claim.lost().contains(id)).cloned().collect();
                    assert_eq!(lost.len(), claim.lost().len());
                    let again = claim.decide_lost(&trigger(), &Ids::new(&lost).documents(), &mut Call::at(0))?;
                    for (id, outcome) in lost.iter().zip(again.outcomes) {
                        rules[ids.iter().position(|other| other == id).unwrap()] = outcome.rule();
                    }
                    let has_any = claim.number().is_some();
                    self.state.hold(batch, has_any.then_some(Begun::Staged(claim)));
                    return Ok(Some(Some(rules)));
                }
                Err(Error::Transaction(_)) => {
                    history.give_up(&job)?;
                    return Ok(Some(None));
                }
                Err(Error::Conflict(text)) if text.contains("other rows") => {
                    history.give_up(&job)?;
                    assert!(!is_known, "its rows were known");
                    is_known = true;
                    self.stage(by, batch, Some(Receipt::rows_of(&receipts)))?;
                }
                Err(Error::Conflict(text)) => {
                    // Nobody else runs this transaction: only a purge can have come first.
                    let purged = history.statistics("orders")?.purged_upto;
                    assert!(purged >= Some(at(batch.day)), "{text}");
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
