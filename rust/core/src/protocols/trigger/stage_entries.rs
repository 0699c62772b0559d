//! Loading on many machines: entries that happened elsewhere, staged by tasks and published by one
//! process.

use super::begin::Known;
use super::commit::{StagedFile, staged_files};
use super::load::{PART, identified};
use super::rules::Trigger;
use super::stage::Attempt;
use crate::columns::{Documents, FlagColumn};
use crate::history::History;
use crate::key::Form;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::Runs;
use crate::store::SpaceSettings;
use crate::store::staged::{Job, Publication, Receipt, StagedFiles};
use crate::types::transaction::{BatchRows, Meaning, NumberedBatch, OnOtherRows, Replays, Transaction};
use crate::{Error, Result};

/// Entries of one part of a job, on their way into staged files.
pub struct StageEntries<'a> {
    history: &'a History,
    job: Job,
    attempt: Attempt<'a>,
    runs: Runs,
    gathered: usize,
    rows: BatchRows,
    staged: StagedFiles,
}

impl History {
    /// Start staging entries of one part of a job. Any handle will do, even one opened for reading.
    pub fn stage_entries<'a>(&'a self, job: &Job, attempt: Attempt<'a>) -> Result<StageEntries<'a>> {
        job.check(attempt.part, attempt.name)?;
        if job.plan().reads {
            return Err(Error::Config("this job stages what it claims, not entries that happened elsewhere".into()));
        }
        let (job, runs, staged) = (job.clone(), Runs::new(job.partition_us), StagedFiles::default());
        Ok(StageEntries { history: self, job, attempt, runs, gathered: 0, rows: BatchRows::default(), staged })
    }

    /// Publish staged entries, of one job or several, in one manifest. A transaction that was
    /// committed before with the same rows is not published again. Answers the number of published
    /// entries; they are durable on return.
    ///
    /// # Errors
    /// `State` when a job is over; `Transaction` when batch numbers go backwards, or a known number
    /// comes with other rows unless `on_other_rows` has them published, too.
    pub fn commit_entries(
        &self,
        trigger: &Trigger,
        receipts: &[Receipt],
        transaction: Option<&Transaction>,
        on_other_rows: OnOtherRows,
    ) -> Result<u64> {
        trigger.validate()?;
        check_receipts(trigger, receipts)?;
        let space = self.space(&trigger.name)?;
        let (rows, mut published) = (Receipt::rows_of(receipts), 0);
        space.write_again(SpaceSettings::of(trigger), |writer| {
            published = 0;
            let how = Replays { on_other_rows, ..Replays::default() };
            let known = transaction.map(|one| Known::of(writer.space(), one, Some(rows), how)).transpose()?;
            // Of a batch whose rows an earlier version did not record, the entries are published
            // again, which does no harm.
            if matches!(known, Some(Known { meaning: Meaning::Same { .. }, .. })) {
                return Ok(());
            }
            receipts.iter().try_for_each(|receipt| writer.space().check_alive(receipt.job()))?;
            let files = staged_files(writer.space(), receipts, None)?;
            published = files.iter().map(|file| file.entry.entries).sum();
            let files: Vec<_> = files.into_iter().map(StagedFile::named).collect();
            if files.is_empty() && transaction.is_none() {
                return Ok(());
            }
            let numbered =
                |transaction: &Transaction| NumberedBatch { transaction: transaction.clone(), rows: Some(rows) };
            let transaction = transaction.map(|transaction| writer.ended_transaction(numbered(transaction)));
            writer.publish_staged(Publication { files, transaction, ..Publication::default() }).map(drop)
        })?;
        self.abort_entries(receipts);
        Ok(published)
    }

    /// Abandon the jobs of these receipts: their files are removed, except the published ones. If
    /// removing a file fails now, maintenance collects it later.
    pub fn abort_entries(&self, receipts: &[Receipt]) {
        let mut jobs: Vec<&Job> = receipts.iter().map(Receipt::job).collect();
        jobs.dedup_by(|a, b| a.id() == b.id());
        for job in jobs {
            drop(self.give_up(job));
        }
    }
}

impl StageEntries<'_> {
    /// Add entries: a key, when its service began (microseconds since 1970), and whether it ended
    /// (absent and null mean yes).
    ///
    /// # Errors
    /// `Schema` for a row without a key, or with one of more than 96 characters: it could never be
    /// found.
    pub fn push(&mut self, documents: &Documents, started_at: &[i64], completed: FlagColumn) -> Result<()> {
        let batch = identified(self.history, documents, started_at)?;
        let claim = self.job.claim();
        for (row, started_at) in started_at.iter().copied().enumerate() {
            let mark = if completed.get(row).unwrap_or(true) { Mark::Completed } else { Mark::Open };
            let (run, stamp) = (self.runs.of(started_at), Stamp { claim, started_at, mark });
            if batch.forms[row] == Form::Uuid {
                run.push_uuid(batch.keys[row], stamp);
            } else {
                run.push_text(batch.keys[row], batch.text(documents, row as u32), stamp);
            }
        }
        self.gathered += documents.rows;
        self.rows.add(batch.rows(self.history.codec(), documents));
        if self.gathered >= PART { self.write() } else { Ok(()) }
    }

    /// Write the collected entries. The files are durable on return, and no manifest names them
    /// yet.
    pub fn finish(mut self) -> Result<Receipt> {
        self.write()?;
        let Self { job, attempt, rows, staged: StagedFiles { files, objects }, .. } = self;
        let name = attempt.name.to_owned();
        let (part, counts, resolved) = (attempt.part, Vec::new(), Vec::new());
        let (left, over) = (Vec::new(), Vec::new());
        let is_contested = false;
        Ok(Receipt { job, part, attempt: name, rows, is_contested, counts, resolved, left, over, files, objects })
    }

    fn write(&mut self) -> Result<()> {
        let runs = std::mem::replace(&mut self.runs, Runs::new(self.job.partition_us)).into_list();
        let space = self.history.space(self.job.trigger())?;
        let Attempt { part, name } = self.attempt;
        space.stage(&self.job, part, name, &mut self.staged, runs)?;
        self.gathered = 0;
        Ok(())
    }
}

/// Receipts must belong to the trigger, and no part of a job may occur twice.
fn check_receipts(trigger: &Trigger, receipts: &[Receipt]) -> Result<()> {
    let is_own = |receipt: &&Receipt| receipt.job().trigger() == trigger.name && !receipt.job().plan().reads;
    if let Some(stranger) = receipts.iter().find(|receipt| !is_own(receipt)) {
        let job = stranger.job();
        return Err(Error::Config(format!("job {} does not load entries of trigger {:?}", job.id(), trigger.name)));
    }
    let mut parts: Vec<_> = receipts.iter().map(|receipt| (receipt.job().id(), receipt.part())).collect();
    parts.sort_unstable();
    if parts.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::Config("a part was handed in twice: only one attempt of each may count".into()));
    }
    Ok(())
}
