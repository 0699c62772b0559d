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
        let work = CommitWork { expired: expired(trigger, job.plan().started_at), job, receipts, files: &files };
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
            let known = work.check_transaction(writer.space())?;
            begun.replay = known.as_ref().map(|known| known.meaning.replay());
            if writer.is_purged(job.plan().started_at) {
                return Err(conflict("a purge has passed the time at which these services begin"));
            }
            begun.lost = work.check_lost(writer, most_lost)?;
            let resolved = receipts.iter().flat_map(|receipt| &receipt.resolved);
            writer.complete_resolved(job, work.expired, resolved, &work.staged())?;
            let (whole, rests) = work.left(&begun.lost)?;
            begun.segments = whole.iter().map(|file| file.segment.clone()).collect();
            begun.application = work.application(known.as_ref());
            let Some(mut publication) = work.publication(known.as_ref(), &whole, rests) else { return Ok(()) };
            work.take_over(writer, &mut publication, &begun.lost)?;
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

/// A commit of what a job's tasks staged.
struct CommitWork<'a> {
    job: &'a Job,
    receipts: &'a [Receipt],
    files: &'a [StagedFile],
    /// The time at or before which an entry began that no longer counts.
    expired: i64,
}

impl<'a> CommitWork<'a> {
    fn rows(&self) -> BatchRows {
        Receipt::rows_of(self.receipts)
    }

    fn staged(&self) -> Vec<Arc<Segment>> {
        self.files.iter().map(|file| file.segment.clone()).collect()
    }

    /// The store's knowledge of the batch's number, which must be what the tasks rested on.
    fn check_transaction(&self, space: &KeySpace) -> Result<Option<Known>> {
        let plan = self.job.plan();
        let known = known_of(space, plan, Some(self.rows()))?;
        let last = known.as_ref().and_then(|known| known.last.as_ref());
        if last != space.transaction_at_pin(self.job)?.as_ref() {
            return Err(conflict("another run of this transaction was committed meanwhile"));
        }
        let taken_for = known_of(space, plan, plan.rows)?;
        if known.as_ref().map(|known| known.meaning) != taken_for.map(|known| known.meaning) {
            return Err(conflict("the batch has other rows than it had under this number before"));
        }
        Ok(known)
    }

    /// The staged keys that others were first with, which may be `most`.
    fn check_lost(&self, writer: &Writer<'_>, most: u64) -> Result<Keys> {
        let of = |is_contested: bool| -> Vec<_> {
            let those = self.files.iter().filter(|file| file.is_contested == is_contested);
            those.map(|file| file.segment.clone()).collect()
        };
        let lost = writer.lost(self.job, self.expired, &of(false), &of(true))?;
        if lost.len() as u64 > most {
            let keys = lost.len();
            return Err(conflict(&format!("others were first with {keys} of these documents, or ended them")));
        }
        Ok(lost)
    }

    /// The files without lost keys, and the rest of the others.
    fn left(&self, lost: &Keys) -> Result<(Vec<&'a StagedFile>, Vec<EntryRun>)> {
        let stamp = Stamp { claim: self.job.claim(), started_at: self.job.plan().started_at, mark: Mark::Open };
        let (mut whole, mut rests) = (Vec::new(), Vec::new());
        for file in self.files {
            match rest_of(&file.segment, stamp, lost)? {
                None => whole.push(file),
                Some(rest) if rest.is_empty() => {}
                Some(rest) => rests.push(rest),
            }
        }
        Ok((whole, rests))
    }

    /// The application under whose number the batch is recorded.
    fn application(&self, known: Option<&Known>) -> Option<String> {
        let transaction = self.job.plan().transaction.as_ref().filter(|_| known.is_some_and(Known::is_numbered))?;
        Some(transaction.application.clone())
    }

    /// The content of the commit; none where there is nothing to record. (The same rule as for a
    /// batch of one process.)
    fn publication(&self, known: Option<&Known>, whole: &[&StagedFile], rests: Vec<EntryRun>) -> Option<Publication> {
        let plan = self.job.plan();
        if whole.is_empty() && rests.is_empty() && !known.is_some_and(|known| known.is_written(plan.replays)) {
            return None;
        }
        let entry = |transaction| {
            let batch = NumberedBatch { transaction, rows: Some(self.rows()) };
            TransactionEntry::begun(batch, self.job.claim(), plan.started_at)
        };
        Some(Publication {
            files: whole.iter().map(|file| (file.entry, file.path.clone(), file.object.clone())).collect(),
            rests,
            transaction: plan.transaction.clone().filter(|_| known.is_some_and(Known::is_numbered)).map(entry),
            replaces: known.and_then(|known| known.replaced(plan.replays)),
            taken: None,
        })
    }

    /// Where the commit replaces an earlier run whose documents do not all run again, the entries
    /// of those stay, and the others end by name.
    fn take_over(&self, writer: &Writer<'_>, publication: &mut Publication, lost: &Keys) -> Result<()> {
        let Some(replaced) = publication.replaces else { return Ok(()) };
        let (staged, others) = (self.staged(), self.others(lost));
        let runs = Runs { staged: &staged, lost };
        publication.taken = writer.taken_over(replaced, self.expired, runs, &others)?;
        publication.replaces = Some(replaced).filter(|_| publication.taken.is_none());
        Ok(())
    }

    /// The keys that do not run, and that an earlier run of the batch may have begun.
    fn others(&self, lost: &Keys) -> Keys {
        let mut others = Keys::default();
        for (key, text) in self.receipts.iter().flat_map(|receipt| receipt.left.iter().chain(&receipt.over)) {
            others.push(*key, text.as_deref());
        }
        lost.each().for_each(|(key, text)| others.push(key, text));
        others
    }
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
