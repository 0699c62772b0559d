//! Beginning on many machines: tasks decide and stage, one process commits (docs/format.md, "Staged segments").

use super::batch::Batch;
use super::begin::{Answers, OnReplay, Replay, Work, replay_of};
use super::classify::{Looked, Verdicts, checked_reply};
use super::resolver::Ask;
use super::{Call, StagedClaim};
use crate::columns::{Documents, Id};
use crate::history::{History, snapshot_of};
use crate::key::format_uuid;
use crate::keyspace::staged::{Job, OutcomeCount, Plan, Publication, Receipt};
use crate::keyspace::{KeySpace, SpaceSettings};
use crate::log::frame::FrameKeys;
use crate::manifest::{Outcome as End, SegmentEntry, TransactionEntry};
use crate::rules::{HistoryState, Outcome, Trigger};
use crate::segment::Segment;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::Run;
use crate::{Error, Result, Transaction};

/// The seed with which Spark hashes.
const SPARK_SEED: u64 = 42;

/// A part that was decided and staged.
#[derive(Debug)]
pub struct Staged {
    /// The verdicts of all rows.
    pub verdicts: Verdicts,
    /// What to hand to whoever commits.
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
    /// Reserve numbers for a job and pin what its tasks read. Nothing of it shows in the history until it is committed.
    ///
    /// # Errors
    /// `Transaction` when batch numbers go backwards; `Config` for a trigger that uses no history, or no parts.
    pub fn reserve(&self, trigger: &Trigger, plan: Plan) -> Result<(Job, Option<Replay>)> {
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
        let transaction = plan.transaction.clone();
        let job = space.reserve_job(SpaceSettings::of(trigger), plan, |space| {
            let previous = previous_in_turn(space, transaction.as_ref())?;
            replay = transaction.as_ref().map(|_| previous.as_ref().map_or(Replay::First, replay_of));
            Ok(())
        })?;
        Ok((job, replay))
    }

    /// Let a job go: its files are taken away, except those that were published.
    pub fn give_up(&self, job: &Job) -> Result<()> {
        self.space(job.trigger())?.give_up(job)
    }

    /// The name of the snapshot that a job's tasks have to read.
    pub fn snapshot_of_job(job: &Job) -> Option<String> {
        job.plan().reads.then(|| snapshot_of(job.trigger(), &job.pin))
    }

    /// Decide all rows of one part of a job by its snapshot, and stage `processing` for what is to be processed. The same
    /// rows in the same order get the same verdicts, however often they are staged. Durable on return.
    ///
    /// # Errors
    /// As [`History::classify`]; storage that does not answer is an error here, so that the task can be tried elsewhere.
    /// `Schema` for a row that belongs to another part.
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
        let mut work = self.work_of(trigger, job, documents, call.resolver.is_some())?;
        let found = space.look(|view| work.look(job.plan().started_at, call.threads, view))?;
        check_parts(&work.batch, documents, job, attempt.part)?;
        let known = found.states.clone();
        let mut looked = Looked { found, unavailable: None };
        let previous = previous_in_turn(&space, job.plan().transaction.as_ref())?;
        work.see_replay(&mut looked, previous.as_ref());
        let (decided, asked) = loop {
            match work.decide(&looked, false)? {
                Ok(decided) => break decided,
                Err(asked) => {
                    let Some(resolver) = call.resolver.as_mut() else {
                        return Err(Error::State("undecided documents without a resolver".into()));
                    };
                    let reply = checked_reply(resolver.resolve(Ask { rows: &asked })?, asked.len());
                    work.remember(asked, reply);
                }
            }
        };
        let (keys, uuid_rows, text_rows) = work.claimed(&decided);
        let was_known = |row: &u32| known[*row as usize] != HistoryState::Absent;
        let is_contested = uuid_rows.iter().chain(&text_rows).any(was_known);
        let mut files = Vec::new();
        space.stage(job, attempt.part, attempt.name, &mut files, open_run(&keys, job))?;
        let counts = counts(&decided.outcomes);
        let rows = documents.rows as u64;
        let verdicts = work.verdicts(decided, &asked, None);
        let receipt = Receipt {
            job: job.clone(),
            part: attempt.part,
            attempt: attempt.name.into(),
            rows,
            is_contested,
            counts,
            files,
        };
        Ok(Staged { verdicts, receipt })
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
        has_resolver: bool,
    ) -> Result<Work<'a, 'd>> {
        Ok(Work {
            codec: self.codec(),
            trigger,
            settings: trigger.settings(has_resolver),
            batch: Batch::new(documents)?,
            is_identified: false,
            documents,
            transaction: job.plan().transaction.as_ref(),
            on_replay: if job.plan().reruns { OnReplay::Rerun } else { OnReplay::ByRules },
            answers: Answers::new(),
        })
    }

    /// Publish what a job's tasks staged, with its transaction, in one manifest: all of it is begun, or nothing. Durable on
    /// return.
    ///
    /// # Errors
    /// `Conflict` when others were first with any of these documents: decide again, from a new job. `State` when the job is
    /// over. `Transaction` when batch numbers went backwards meanwhile.
    pub fn commit(&self, trigger: &Trigger, job: &Job, receipts: &[Receipt]) -> Result<StagedClaim> {
        trigger.validate()?;
        check_receipts(job, receipts)?;
        let space = self.space(&trigger.name)?;
        let files = self.staged_files(&space, receipts)?;
        let contested: Vec<_> =
            files.iter().filter(|file| file.is_contested).map(|file| file.segment.clone()).collect();
        let certain: Vec<_> = files.iter().filter(|file| !file.is_contested).map(|file| file.segment.clone()).collect();
        let is_begun = space.write(SpaceSettings::of(trigger), |locked| {
            locked.check_alive(job)?;
            let plan = job.plan();
            let then = locked.transaction_at_pin(job)?;
            let last = plan.transaction.as_ref().and_then(|one| locked.transaction_in_turn(&one.application));
            let previous = previous_in_turn(locked, plan.transaction.as_ref())?;
            if last != then {
                return Err(conflict("another run of this transaction was committed meanwhile"));
            }
            if locked.is_purged(plan.started_at) {
                return Err(conflict("a purge has passed the time at which these services begin"));
            }
            let met = locked.conflict(job, &certain, &contested)?;
            if met.keys > 0 {
                return Err(conflict(&format!(
                    "others were first with {} of these documents, or ended them",
                    met.keys
                )));
            }
            let publication = publication(job, previous.as_ref(), &files);
            let Some(publication) = publication else { return Ok(false) };
            locked.publish_staged(publication)?;
            Ok(true)
        })?;
        // It is committed whether this succeeds or not; if not, upkeep takes the files away.
        drop(space.give_up(job));
        let segments = files.into_iter().map(|file| file.segment).collect();
        Ok(StagedClaim::new(self.codec().clone(), space, SpaceSettings::of(trigger), job, is_begun, segments))
    }

    /// The files that receipts name, opened: they must be what their tasks wrote.
    pub(super) fn staged_files(&self, space: &KeySpace, receipts: &[Receipt]) -> Result<Vec<StagedFile>> {
        let mut files = Vec::new();
        for receipt in receipts {
            for (place, entry) in receipt.files.iter().enumerate() {
                let path = space.staged_path(&receipt.job, receipt.part, &receipt.attempt, place as u64);
                let segment = space.open_staged(&path)?;
                if segment.sum() != entry.sum || segment.header().id != entry.id {
                    return Err(Error::corrupt(&path, 0, "this is not the segment that its receipt names"));
                }
                files.push(StagedFile { entry: *entry, path, segment, is_contested: receipt.is_contested });
            }
        }
        Ok(files)
    }
}

/// A staged file, open.
pub(super) struct StagedFile {
    pub(super) entry: SegmentEntry,
    pub(super) path: std::path::PathBuf,
    pub(super) segment: std::sync::Arc<Segment>,
    is_contested: bool,
}

impl StagedFile {
    pub(super) fn named(self) -> (SegmentEntry, std::path::PathBuf) {
        (self.entry, self.path)
    }
}

fn conflict(what: &str) -> Error {
    Error::Conflict(format!("{what}; nothing was begun: decide again, from a new job"))
}

/// The application's last transaction if it is this one; an error if it is a later one.
pub(super) fn previous_in_turn(
    space: &KeySpace,
    transaction: Option<&Transaction>,
) -> Result<Option<TransactionEntry>> {
    let Some(transaction) = transaction else { return Ok(None) };
    let Some(last) = space.transaction_in_turn(&transaction.application) else { return Ok(None) };
    let (last_batch, batch) = (last.transaction.batch, transaction.batch);
    if last_batch > batch {
        let application = &transaction.application;
        return Err(Error::Transaction(format!(
            "batch {batch} of application {application:?} comes after its batch {last_batch}: a new checkpoint with an old application id? \
             Its numbers must go on, or the application needs a new id"
        )));
    }
    Ok((last_batch == batch).then_some(last))
}

/// What a commit publishes; nothing where there is nothing to remember. (The same rule as for a batch of one process.)
fn publication(job: &Job, previous: Option<&TransactionEntry>, files: &[StagedFile]) -> Option<Publication> {
    let plan = job.plan();
    let is_first = plan.transaction.is_some() && previous.is_none_or(|last| last.outcome == Some(End::Released));
    let reruns = previous.filter(|last| last.outcome.is_none() && plan.reruns);
    if files.is_empty() && !is_first && reruns.is_none() {
        return None;
    }
    let (claim, started_at) = (job.claim(), plan.started_at);
    let entry = |transaction: Transaction| TransactionEntry { transaction, claim, started_at, outcome: None };
    Some(Publication {
        files: files.iter().map(|file| (file.entry, file.path.clone())).collect(),
        transaction: plan.transaction.clone().map(entry),
        replaces: reruns.map(|last| (last.claim, last.started_at)),
    })
}

fn open_run(keys: &FrameKeys, job: &Job) -> Vec<Run> {
    if keys.len() == 0 {
        return Vec::new();
    }
    let stamp = Stamp { claim: job.claim(), started_at: job.plan().started_at, mark: Mark::Open };
    vec![Run::of_keys(keys, stamp)]
}

/// Receipts must be the job's, and no part may be there twice.
fn check_receipts(job: &Job, receipts: &[Receipt]) -> Result<()> {
    if receipts.iter().any(|receipt| receipt.job() != job) {
        return Err(Error::Config("a receipt is another job's".into()));
    }
    let mut parts: Vec<u32> = receipts.iter().map(Receipt::part).collect();
    parts.sort_unstable();
    if parts.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::Config("a part was handed in twice: only one attempt of each may count".into()));
    }
    Ok(())
}

/// Copies of a key must meet in one part: a row whose key's place is another one is an error.
fn check_parts(batch: &Batch, documents: &Documents, job: &Job, part: u32) -> Result<()> {
    if !job.plan().routed {
        return Ok(());
    }
    let parts = i64::from(job.plan().parts);
    for (row, source) in batch.sources.iter().enumerate().filter(|(row, _)| batch.forms[*row].is_usable()) {
        let hash = match documents.ids.get(usize::from(*source)).map(|column| column.get(row)) {
            Some(Id::Uuid(uuid)) => xxhash_rust::xxh64::xxh64(&format_uuid(*uuid), SPARK_SEED),
            Some(Id::Text(text)) => xxhash_rust::xxh64::xxh64(text, SPARK_SEED),
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
    outcomes.iter().for_each(|outcome| rows[usize::from(outcome.as_u8())] += 1);
    let count = |outcome: Outcome| OutcomeCount {
        rule: outcome.rule().into(),
        status: outcome.status().map_or_else(String::new, |status| status.as_str().into()),
        action: outcome.action().as_str().into(),
        rows: rows[usize::from(outcome.as_u8())],
    };
    Outcome::all().into_iter().map(count).filter(|count| count.rows > 0).collect()
}
