//! Beginning on many machines: tasks decide and stage, one process commits (docs/format.md, "Staged
//! segments").

use super::Call;
use super::begin::{Answers, BeginWork, Known};
use super::classify::{Looked, Verdicts};
use super::commit::known_of;
use super::identities::Identities;
use super::resolver::Asked;
use super::rules::{Decided, KeyClass, Outcome, Trigger};
use super::staged_claim::owned;
use crate::columns::{Documents, IdCell};
use crate::history::{History, snapshot_of};
use crate::key::format_uuid;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::EntryRun;
use crate::store::staged::{Document, Job, JobPlan, OutcomeCount, Receipt, StagedFiles};
use crate::store::{InProgress, LookedUp, SpaceSettings};
use crate::types::FrameKeys;
use crate::types::HistoryState;
use crate::types::transaction::Replay;
use crate::{Error, Result};

/// The seed with which Spark hashes.
const SPARK_SEED: u64 = 42;

/// A part that was decided and staged.
#[derive(Debug)]
pub struct Staged {
    /// The verdicts of all rows.
    pub verdicts: Verdicts,
    /// The receipt to pass to the process that commits.
    pub receipt: Receipt,
}

/// One attempt at one part of a job.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Number of the part.
    pub part: u32,
    /// A name that no other attempt has.
    pub name: &'a str,
}

impl History {
    /// Reserve numbers for a job and pin the state that its tasks read. Nothing of it shows in the
    /// history until it is committed.
    ///
    /// # Errors
    /// `Transaction` when batch numbers go backwards, or a known number comes with other rows;
    /// `Config` for a trigger that uses no history, or no parts.
    pub fn reserve(&self, trigger: &Trigger, plan: JobPlan) -> Result<(Job, Option<Replay>)> {
        self.reserve_for(trigger, plan, false)
    }

    /// [`History::reserve`] that may return before a bucket has said that the reservation counts.
    /// Tasks may begin, and the job may be committed only after [`History::prove`].
    ///
    /// # Errors
    /// As [`History::reserve`].
    pub fn reserve_ahead(&self, trigger: &Trigger, plan: JobPlan) -> Result<(Job, Option<Replay>)> {
        self.reserve_for(trigger, plan, true)
    }

    /// See that what [`History::reserve_ahead`] reserved counts.
    ///
    /// # Errors
    /// `Conflict` where it does not: others have written so much meanwhile that it was collected.
    pub fn prove(&self, job: &Job) -> Result<()> {
        self.space(job.trigger())?.prove_job(job)
    }

    fn reserve_for(&self, trigger: &Trigger, plan: JobPlan, is_proved_later: bool) -> Result<(Job, Option<Replay>)> {
        trigger.validate()?;
        if plan.reads && !trigger.settings(false).needs_history() {
            return Err(Error::Config(format!(
                "trigger {:?} uses no history: there is nothing to stage",
                trigger.name
            )));
        }
        if plan.parts == 0 || plan.parts > 1 << 20 {
            return Err(Error::Config(format!("parts is {}; allowed is 1 to 1048576", plan.parts)));
        }
        let (space, mut replay) = (self.space(&trigger.name)?, None);
        let job = space.reserve_job(SpaceSettings::of(trigger), plan, is_proved_later, |writer, plan| {
            let known = known_of(writer.space(), plan, plan.rows)?;
            replay = known.map(|known| known.meaning.replay());
            Ok(())
        })?;
        Ok((job, replay))
    }

    /// Abandon a job: its files are removed, except the published ones.
    pub fn give_up(&self, job: &Job) -> Result<()> {
        self.space(job.trigger())?.give_up(job)
    }

    /// The name of the snapshot that a job's tasks read.
    pub fn snapshot_of_job(job: &Job) -> Option<String> {
        job.plan().reads.then(|| snapshot_of(job.trigger(), &job.pin))
    }

    /// Decide all rows of one part of a job by its snapshot, and stage `processing` for those to
    /// process. The same rows in the same order always get the same verdicts. Durable on return.
    ///
    /// # Errors
    /// As [`History::classify`]; storage that does not answer is an error here, so that the task
    /// can be retried elsewhere. `Schema` for a row that belongs to another part.
    pub fn stage(
        &self,
        trigger: &Trigger,
        job: &Job,
        attempt: Attempt,
        documents: &Documents,
        call: &mut Call,
    ) -> Result<Staged> {
        trigger.validate()?;
        self.check_job(trigger, job, attempt)?;
        let space = self.space(&trigger.name)?;
        let mut work = self.work_of(trigger, job, documents, call)?;
        let found =
            space.look(SpaceSettings::of(trigger), documents.rows, |view| work.look(job.plan().started_at, view))?;
        check_parts(&work.identities, documents, job, attempt.part)?;
        let states = found.states.clone();
        let mut looked = Looked { found, unavailable: None };
        let known = work.known_of(&space)?;
        let own = work.see_replay(&mut looked, known.as_ref());
        let (decided, asked) = work.decide_asking(&looked, call)?;
        let (keys, uuid_rows, text_rows) = work.claimed(&decided);
        let was_known = |row: &u32| states[*row as usize] != HistoryState::Absent;
        let is_contested = uuid_rows.iter().chain(&text_rows).any(was_known);
        let mut staged = StagedFiles::default();
        space.stage(job, attempt.part, attempt.name, &mut staged, open_run(&keys, job))?;
        let receipt = Receipt {
            job: job.clone(),
            part: attempt.part,
            attempt: attempt.name.into(),
            rows: work.identities.batch_rows(self.codec(), documents),
            is_contested,
            counts: counts(&decided.outcomes),
            resolved: work.resolved(&decided, &looked.found),
            left: work.left_of(known.as_ref(), &decided, &looked.found),
            over: work.over_among(&own, &looked.found),
            files: staged.files,
            objects: staged.objects,
        };
        Ok(Staged { verdicts: work.verdicts(decided, &asked, None), receipt })
    }

    fn check_job(&self, trigger: &Trigger, job: &Job, attempt: Attempt) -> Result<()> {
        job.check(attempt.part, attempt.name)?;
        if job.trigger() != trigger.name {
            return Err(Error::Config(format!(
                "the job is one of trigger {:?}, not {:?}",
                job.trigger(),
                trigger.name
            )));
        }
        if !job.plan().reads || !self.is_snapshot(&snapshot_of(job.trigger(), &job.pin)) {
            return Err(Error::Config("open the history with the job's snapshot to stage its documents".into()));
        }
        Ok(())
    }

    fn work_of<'a, 'd>(
        &'a self,
        trigger: &'a Trigger,
        job: &'a Job,
        documents: &'a Documents<'d>,
        call: &Call,
    ) -> Result<BeginWork<'a, 'd>> {
        Ok(BeginWork {
            codec: self.codec(),
            trigger,
            settings: trigger.settings(call.resolver.is_some()),
            identities: Identities::with_keys(documents)?,
            documents,
            threads: call.threads,
            transaction: job.plan().transaction.as_ref(),
            replays: job.plan().replays,
            rows: job.plan().rows,
            answers: Answers::new(),
        })
    }
}

impl BeginWork<'_, '_> {
    /// Decide all rows; answers the rows that the resolver was asked about, too.
    fn decide_asking(&mut self, looked: &Looked, call: &mut Call) -> Result<(Decided, Vec<Asked>)> {
        loop {
            match self.decide(looked, false)? {
                Ok(decided) => return Ok(decided),
                Err(asked) => self.ask(&asked, call)?,
            }
        }
    }

    /// The documents that a numbered batch leaves out.
    fn left_of(&self, known: Option<&Known>, decided: &Decided, found: &LookedUp) -> Vec<Document> {
        if !known.is_some_and(Known::is_numbered) {
            return Vec::new();
        }
        self.left_out(decided, found).each().map(owned).collect()
    }

    /// The documents of an earlier run of the batch that have ended.
    fn over_among(&self, own: &[InProgress], found: &LookedUp) -> Vec<Document> {
        let is_over = |row: &u32| found.states[*row as usize] == HistoryState::Completed;
        own.iter().map(|entry| entry.row).filter(is_over).map(|row| owned(self.document(row))).collect()
    }
}

fn open_run(keys: &FrameKeys, job: &Job) -> Vec<EntryRun> {
    if keys.len() == 0 {
        return Vec::new();
    }
    let stamp = Stamp { claim: job.claim(), started_at: job.plan().started_at, mark: Mark::Open };
    vec![EntryRun::of_keys(keys, stamp)]
}

/// Copies of a key must meet in one part: a row whose key belongs to another part is an error.
fn check_parts(identities: &Identities, documents: &Documents, job: &Job, part: u32) -> Result<()> {
    if !job.plan().routed {
        return Ok(());
    }
    let parts = i64::from(job.plan().parts);
    let is_usable = |row: usize| identities.classes[row] == KeyClass::Usable;
    for (row, source) in identities.sources.iter().enumerate().filter(|(row, _)| is_usable(*row)) {
        let hash = match documents.ids.get(usize::from(*source)).map(|column| column.get(row)) {
            Some(IdCell::Uuid(uuid)) => xxhash_rust::xxh64::xxh64(&format_uuid(*uuid), SPARK_SEED),
            Some(IdCell::Text(text)) => xxhash_rust::xxh64::xxh64(text, SPARK_SEED),
            _ => continue,
        };
        let place = (hash as i64).rem_euclid(parts);
        if place != i64::from(part) {
            return Err(Error::Schema(format!(
                "row {row} belongs to part {place} of the job and came to part {part}: its copies would not meet"
            )));
        }
    }
    Ok(())
}

fn counts(outcomes: &[Outcome]) -> Vec<OutcomeCount> {
    let mut rows = [0u64; 256];
    for outcome in outcomes {
        rows[usize::from(outcome.as_u8())] += 1;
    }
    let count = |outcome: Outcome| OutcomeCount {
        rule: outcome.rule().into(),
        status: outcome.status().map_or_else(String::new, |status| status.as_str().into()),
        action: outcome.action().as_str().into(),
        rows: rows[usize::from(outcome.as_u8())],
    };
    Outcome::all().map(count).filter(|count| count.rows > 0).collect()
}
