//! Committing the staged work of tasks: all of it is begun, or nothing; or all except the documents
//! that others were first with (docs/format.md, "Staged segments").

use std::path::PathBuf;
use std::sync::Arc;

use super::StagedClaim;
use super::begin::Known;
use super::classify::expired;
use super::rules::Trigger;
use super::staged_claim::Committed;
use crate::format::manifest::SegmentEntry;
use crate::history::History;
use crate::objects::change::Stored;
use crate::segment::Segment;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::EntryRun;
use crate::store::staged::{Job, JobPlan, Keys, Publication, Receipt, Runs, StagedFile as Named, rest_of};
use crate::store::{KeySpace, SpaceSettings, Writer};
use crate::types::TransactionEntry;
use crate::types::transaction::{BatchRows, NumberedBatch};
use crate::{Error, Result};

impl History {
    /// Publish what a job's tasks staged, with its transaction, in one manifest: all of it is
    /// begun, or nothing. Durable on return.
    ///
    /// # Errors
    /// `Conflict` when others were first with any of these documents, or when the tasks assumed
    /// other rows of the batch: decide again, from a new job that knows these receipts' rows.
    /// `State` when the job is over. `Transaction` when batch numbers went backwards meanwhile, or
    /// a known number came with other rows.
    pub fn commit(&self, trigger: &Trigger, job: &Job, receipts: &[Receipt]) -> Result<StagedClaim> {
        self.commit_rest(trigger, job, receipts, 0)
    }

    /// [`History::commit`] without the documents that others were first with, at most `most_lost`.
    /// This commit does not begin them, whatever their verdicts are. [`StagedClaim::lost`] names
    /// them, and [`StagedClaim::decide_lost`] decides them again.
    ///
    /// # Errors
    /// As [`History::commit`]; `Conflict` only when others were first with more than `most_lost`,
    /// or when the transaction was run by others meanwhile, or its time was purged.
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
        let files = staged_files(&space, receipts, Some(job))?;
        // In a bucket that was seen while the files came.
        let (mut is_alive, mut is_let_go) = (space.is_in_bucket(), false);
        let mut begun = Committed::default();
        space.write_again(SpaceSettings::of(trigger), |writer| {
            begun = Committed::default();
            if is_let_go {
                return Err(conflict("this process slept while many others committed"));
            }
            if !std::mem::take(&mut is_alive) {
                writer.space().check_alive(job)?;
            }
            let plan = job.plan();
            let rows = Receipt::rows_of(receipts);
            let known = known_of(writer.space(), plan, Some(rows))?;
            begun.replay = known.as_ref().map(|known| known.meaning.replay());
            if known.as_ref().and_then(|known| known.last.as_ref()) != writer.space().transaction_at_pin(job)?.as_ref()
            {
                return Err(conflict("another run of this transaction was committed meanwhile"));
            }
            let taken_for = known_of(writer.space(), plan, plan.rows)?;
            if known.as_ref().map(|known| known.meaning) != taken_for.map(|known| known.meaning) {
                return Err(conflict("the batch has other rows than it had under this number before"));
            }
            if writer.is_purged(plan.started_at) {
                return Err(conflict("a purge has passed the time at which these services begin"));
            }
            begun.lost = lost_keys(writer, trigger, job, &files)?;
            if begun.lost.len() as u64 > most_lost {
                let keys = begun.lost.len();
                return Err(conflict(&format!("others were first with {keys} of these documents, or ended them")));
            }
            let resolved = receipts.iter().flat_map(|receipt| &receipt.resolved);
            let staged: Vec<_> = files.iter().map(|file| file.segment.clone()).collect();
            writer.complete_resolved(job, expired(trigger, plan.started_at), resolved, &staged)?;
            let (whole, rests) = left(&files, job, &begun.lost)?;
            begun.segments = whole.iter().map(|file| file.segment.clone()).collect();
            let is_numbered = known.as_ref().is_some_and(Known::is_numbered);
            begun.application = plan.transaction.as_ref().filter(|_| is_numbered).map(|one| one.application.clone());
            let Some(mut publication) = publication(job, known.as_ref(), rows, &whole, rests) else { return Ok(()) };
            if let Some(replaced) = publication.replaces {
                // Where documents do not run again, their entries stay: the others end by name.
                let runs = Runs { staged: &staged, lost: &begun.lost };
                let others = others(receipts, &begun.lost);
                publication.taken = writer.taken_over(replaced, expired(trigger, plan.started_at), runs, &others)?;
                publication.replaces = Some(replaced).filter(|_| publication.taken.is_none());
            }
            let published = writer.publish_last(publication, job);
            is_let_go = writer.has_let_go();
            begun.segments.extend(published?);
            begun.is_begun = true;
            Ok(())
        })?;
        // It is committed even if this fails; then maintenance collects the files.
        drop(if is_let_go { space.forget(job) } else { space.give_up(job) });
        Ok(StagedClaim::new(self.codec().clone(), space, job, receipts, begun))
    }
}

/// The keys that do not run, and that an earlier run of the batch may have begun.
fn others(receipts: &[Receipt], lost: &Keys) -> Keys {
    let mut others = Keys::default();
    for (key, text) in receipts.iter().flat_map(|receipt| receipt.left.iter().chain(&receipt.over)) {
        others.push(*key, text.as_deref());
    }
    lost.each().for_each(|(key, text)| others.push(key, text));
    others
}

/// The staged keys that others were first with.
fn lost_keys(writer: &Writer<'_>, trigger: &Trigger, job: &Job, files: &[StagedFile]) -> Result<Keys> {
    let of = |is_contested: bool| -> Vec<_> {
        files.iter().filter(|file| file.is_contested == is_contested).map(|file| file.segment.clone()).collect()
    };
    writer.lost(job, expired(trigger, job.plan().started_at), &of(false), &of(true))
}

/// The files without lost keys, and the rest of the others.
fn left<'a>(files: &'a [StagedFile], job: &Job, lost: &Keys) -> Result<(Vec<&'a StagedFile>, Vec<EntryRun>)> {
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

/// The files that receipts name, opened: they must be what their tasks wrote. In a bucket `job` is
/// alive while they are fetched, if it is given.
pub(super) fn staged_files(space: &KeySpace, receipts: &[Receipt], job: Option<&Job>) -> Result<Vec<StagedFile>> {
    let mut named = Vec::new();
    for receipt in receipts {
        for (place, entry) in receipt.files.iter().enumerate() {
            let path = space.staged_path(&receipt.job, receipt.part, &receipt.attempt, place as u64)?;
            named.push((receipt, entry, path, receipt.objects.get(place)));
        }
    }
    let stored = named.iter().filter_map(|(_, _, path, object)| object.map(|object| (object, path.as_path())));
    space.fetch_staged(stored.collect(), job)?;
    let opened = named.into_iter().map(|(receipt, entry, path, object)| {
        let segment = space.open_staged(&receipt.job, &path)?;
        if segment.sum() != entry.sum || segment.header().id != entry.id {
            return Err(Error::corrupt(&path, 0, "this is not the segment that its receipt names"));
        }
        let (object, is_contested) = (object.cloned(), receipt.is_contested);
        Ok(StagedFile { entry: *entry, path, object, segment, is_contested })
    });
    opened.collect()
}

/// A staged file, open.
pub(super) struct StagedFile {
    pub(super) entry: SegmentEntry,
    pub(super) path: PathBuf,
    object: Option<Stored>,
    pub(super) segment: Arc<Segment>,
    is_contested: bool,
}

impl StagedFile {
    pub(super) fn named(self) -> Named {
        (self.entry, self.path, self.object)
    }
}

fn conflict(what: &str) -> Error {
    Error::Conflict(format!("{what}; nothing was begun: decide again, from a new job"))
}

/// The store's knowledge of the number of a job's batch, if it is a transaction.
pub(super) fn known_of(space: &KeySpace, plan: &JobPlan, rows: Option<BatchRows>) -> Result<Option<Known>> {
    let of = |transaction| Known::of(space, transaction, rows, plan.replays);
    plan.transaction.as_ref().map(of).transpose()
}

/// The content of a commit; none where there is nothing to record. (The same rule as for a batch of
/// one process.)
fn publication(
    job: &Job,
    known: Option<&Known>,
    rows: BatchRows,
    files: &[&StagedFile],
    rests: Vec<EntryRun>,
) -> Option<Publication> {
    let plan = job.plan();
    if files.is_empty() && rests.is_empty() && !known.is_some_and(|known| known.is_written(plan.replays)) {
        return None;
    }
    let entry = |transaction| {
        let batch = NumberedBatch { transaction, rows: Some(rows) };
        TransactionEntry::begun(batch, job.claim(), plan.started_at)
    };
    Some(Publication {
        files: files.iter().map(|file| (file.entry, file.path.clone(), file.object.clone())).collect(),
        rests,
        transaction: plan.transaction.clone().filter(|_| known.is_some_and(Known::is_numbered)).map(entry),
        replaces: known.and_then(|known| known.replaced(plan.replays)),
        taken: None,
    })
}

/// Receipts must belong to the job, and no part may occur twice.
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
