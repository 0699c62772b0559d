//! Committing what tasks staged: all of it is begun, or nothing; or all but what others were first with (docs/format.md,
//! "Staged segments").

use std::path::PathBuf;
use std::sync::Arc;

use super::StagedClaim;
use super::begin::backwards;
use super::classify::expired;
use crate::history::History;
use crate::keyspace::staged::{Job, Keys, Publication, Receipt, rest_of};
use crate::keyspace::{KeySpace, SpaceSettings};
use crate::manifest::{Outcome as End, SegmentEntry, TransactionEntry};
use crate::rules::Trigger;
use crate::segment::Segment;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::Run;
use crate::{Error, Result, Transaction};

impl History {
    /// Publish what a job's tasks staged, with its transaction, in one manifest: all of it is begun, or nothing. Durable on
    /// return.
    ///
    /// # Errors
    /// `Conflict` when others were first with any of these documents: decide again, from a new job. `State` when the job is
    /// over. `Transaction` when batch numbers went backwards meanwhile.
    pub fn commit(&self, trigger: &Trigger, job: &Job, receipts: &[Receipt]) -> Result<StagedClaim> {
        self.commit_rest(trigger, job, receipts, 0)
    }

    /// [`History::commit`], which leaves out the documents that others were first with, `most_lost` of them at most: those
    /// are begun by nobody here, whatever their verdicts said. [`StagedClaim::lost`] names them, and
    /// [`StagedClaim::decide_lost`] decides them again.
    ///
    /// # Errors
    /// As [`History::commit`]; `Conflict` only when others were first with more than `most_lost`, or when the transaction was
    /// run by others meanwhile, or its time was purged.
    pub fn commit_rest(
        &self,
        trigger: &Trigger,
        job: &Job,
        receipts: &[Receipt],
        most_lost: u64,
    ) -> Result<StagedClaim> {
        trigger.validate()?;
        check_receipts(job, receipts)?;
        let space = self.space(&trigger.name)?;
        let files = staged_files(&space, receipts)?;
        let (mut lost, mut segments, mut is_begun) = (Keys::default(), Vec::new(), false);
        space.write(SpaceSettings::of(trigger), |locked| {
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
            lost = lost_keys(locked, trigger, job, &files)?;
            if lost.len() as u64 > most_lost {
                let keys = lost.len();
                return Err(conflict(&format!("others were first with {keys} of these documents, or ended them")));
            }
            let (whole, rests) = left(&files, job, &lost)?;
            segments = whole.iter().map(|file| file.segment.clone()).collect();
            let Some(publication) = publication(job, previous.as_ref(), &whole, rests) else { return Ok(()) };
            segments.extend(locked.publish_staged(publication)?);
            is_begun = true;
            Ok(())
        })?;
        // It is committed whether this succeeds or not; if not, upkeep takes the files away.
        drop(space.give_up(job));
        let settings = SpaceSettings::of(trigger);
        Ok(StagedClaim::new(self.codec().clone(), space, settings, job, is_begun, segments, &lost))
    }
}

/// In our turn: the staged keys that others were first with.
fn lost_keys(locked: &KeySpace, trigger: &Trigger, job: &Job, files: &[StagedFile]) -> Result<Keys> {
    let of = |is_contested: bool| -> Vec<_> {
        files.iter().filter(|file| file.is_contested == is_contested).map(|file| file.segment.clone()).collect()
    };
    locked.lost(job, expired(trigger, job.plan().started_at), &of(false), &of(true))
}

/// The files that lost nothing, and what is left of the others.
fn left<'a>(files: &'a [StagedFile], job: &Job, lost: &Keys) -> Result<(Vec<&'a StagedFile>, Vec<Run>)> {
    let stamp = Stamp { claim: job.claim(), started_at: job.plan().started_at, mark: Mark::Open };
    let (mut whole, mut rests) = (Vec::new(), Vec::new());
    for file in files {
        match rest_of(&file.segment, stamp, lost)? {
            None => whole.push(file),
            Some(rest) if rest.is_empty() => {}
            Some(rest) => rests.push(rest),
        }
    }
    Ok((whole, rests))
}

/// The files that receipts name, opened: they must be what their tasks wrote.
pub(super) fn staged_files(space: &KeySpace, receipts: &[Receipt]) -> Result<Vec<StagedFile>> {
    let mut files = Vec::new();
    for receipt in receipts {
        for (place, entry) in receipt.files.iter().enumerate() {
            let path = space.staged_path(&receipt.job, receipt.part, &receipt.attempt, place as u64);
            let segment = space.open_staged(&receipt.job, &path)?;
            if segment.sum() != entry.sum || segment.header().id != entry.id {
                return Err(Error::corrupt(&path, 0, "this is not the segment that its receipt names"));
            }
            files.push(StagedFile { entry: *entry, path, segment, is_contested: receipt.is_contested });
        }
    }
    Ok(files)
}

/// A staged file, open.
pub(super) struct StagedFile {
    pub(super) entry: SegmentEntry,
    pub(super) path: PathBuf,
    pub(super) segment: Arc<Segment>,
    is_contested: bool,
}

impl StagedFile {
    pub(super) fn named(self) -> (SegmentEntry, PathBuf) {
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
        return Err(backwards(transaction, last_batch));
    }
    Ok((last_batch == batch).then_some(last))
}

/// What a commit publishes; nothing where there is nothing to remember. (The same rule as for a batch of one process.)
fn publication(
    job: &Job,
    previous: Option<&TransactionEntry>,
    files: &[&StagedFile],
    rests: Vec<Run>,
) -> Option<Publication> {
    let plan = job.plan();
    let is_first = plan.transaction.is_some() && previous.is_none_or(|last| last.outcome == Some(End::Released));
    let reruns = previous.filter(|last| last.outcome.is_none() && plan.reruns);
    if files.is_empty() && rests.is_empty() && !is_first && reruns.is_none() {
        return None;
    }
    let (claim, started_at) = (job.claim(), plan.started_at);
    let entry = |transaction: Transaction| TransactionEntry { transaction, claim, started_at, outcome: None };
    Some(Publication {
        files: files.iter().map(|file| (file.entry, file.path.clone())).collect(),
        rests,
        transaction: plan.transaction.clone().map(entry),
        replaces: reruns.map(|last| (last.claim, last.started_at)),
    })
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
