//! Staged segments: tasks on other machines write them under names that no manifest names, until
//! one process publishes them.
//!
//! A job reserves a claim number and file numbers first. Its tasks then write ordinary segments.
//! The process that commits the job gives the successful ones the names that were reserved for
//! them. Files of failed, retried and late tasks are never published, and are collected.

mod conflict;
mod job;
mod leave_out;
mod receipt;

use super::publish::entry_of;
use super::view::View;
use super::{KeySpace, SpaceSettings};
use crate::format::manifest::{EndedClaim, Manifest, SegmentEntry};
use crate::format::names::FileKind;
use crate::segment::Segment;
use crate::segment::format::MOST_ENTRIES;
use crate::segment::run::EntryRun;
use crate::segment::writer;
use crate::store::Writer;
use crate::types::transaction::NumberedBatch;
use crate::types::{Ending, TransactionEntry};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use conflict::{Keys, each_chunk};
pub use job::{Job, JobPlan};
pub(crate) use job::{is_staged_name, job_of};
pub(crate) use leave_out::rest_of;
pub use receipt::{OutcomeCount, Receipt};

/// File numbers that each part of a job has for itself.
pub(crate) const FILES_PER_PART: u64 = 1 << 16;

/// The content of one commit.
#[derive(Debug, Default)]
pub(crate) struct Publication {
    pub(crate) files: Vec<(SegmentEntry, PathBuf)>,
    /// The rest of files that held more than may be published; each is rewritten under the writer
    /// lock.
    pub(crate) rests: Vec<EntryRun>,
    pub(crate) transaction: Option<TransactionEntry>,
    /// The open claim of the same transaction that this one replaces, and its start.
    pub(crate) replaces: Option<(u64, i64)>,
}

impl KeySpace {
    /// Reserve numbers for a job, and pin the state that its tasks read: one manifest. `check` may
    /// refuse, under the same lock.
    pub(crate) fn reserve_job(
        &self,
        settings: SpaceSettings,
        plan: JobPlan,
        check: impl FnOnce(&Writer<'_>, &JobPlan) -> Result<()>,
    ) -> Result<Job> {
        self.write(settings, |writer| {
            check(writer, &plan)?;
            let (mut claim, mut first_file) = (0, 0);
            let mut take = |manifest: &mut Manifest| {
                (claim, first_file) = (manifest.next_sequence, manifest.next_file);
                manifest.next_sequence += 1;
                manifest.next_file += u64::from(plan.parts) * FILES_PER_PART;
            };
            let is_touched = writer.space.present().as_ref().is_some_and(|view| !view.is_log_untouched());
            if plan.reads && is_touched {
                writer.seal_with(i64::MIN, take)?;
            } else {
                let Some(mut manifest) = writer.space.present().as_ref().map(View::next_of_same_log) else {
                    return Err(Error::State("the key space is not there".into()));
                };
                take(&mut manifest);
                writer.publish(&manifest)?;
            }
            let pin = writer.pin_present(None)?;
            Ok(Job {
                trigger: writer.space.name.clone(),
                pin,
                claim,
                first_file,
                partition_us: writer.partition_us(),
                plan,
            })
        })
    }

    /// Write a run of a part as staged segments; their bytes and names are durable on return. Takes
    /// no lock: the files have numbers of their own, and no manifest names them yet.
    pub(crate) fn stage(
        &self,
        job: &Job,
        part: u32,
        attempt: &str,
        staged: &mut Vec<SegmentEntry>,
        runs: Vec<EntryRun>,
    ) -> Result<()> {
        for mut run in runs {
            run.settle();
            let pieces = run.len().div_ceil(MOST_ENTRIES) as u64;
            for piece in 0..pieces {
                let split = (pieces > 1).then(|| run.take_range(piece, pieces));
                let place = staged.len() as u64;
                if place == FILES_PER_PART {
                    return Err(Error::Config(format!(
                        "part {part} makes more than {FILES_PER_PART} files: use more parts"
                    )));
                }
                let id = job.first_file_of(part) + place;
                let path = self.directory.join(job.staged_name(part, attempt, place));
                let run = split.as_ref().unwrap_or(&run);
                let (header, sum, bytes) = writer::write(self.segment_at(&path, id), run)?;
                staged.push(entry_of(&header, sum, bytes));
            }
        }
        if !staged.is_empty() {
            self.env.system.sync_names(&self.directory)?;
        }
        Ok(())
    }

    /// A job that was abandoned, or whose pin was collected as forgotten, must not publish
    /// anything.
    pub(crate) fn check_alive(&self, job: &Job) -> Result<()> {
        let pin = self.directory.join(&job.pin);
        if self.env.system.has(&pin)? {
            return Ok(());
        }
        Err(Error::State(format!(
            "job {} was committed or given up before, or it took more than a week, or it was reserved by a process that sees \
             another directory under {}",
            job.id(),
            self.directory.display()
        )))
    }

    /// The path of a staged file of a job.
    pub(crate) fn staged_path(&self, job: &Job, part: u32, attempt: &str, place: u64) -> PathBuf {
        self.directory.join(job.staged_name(part, attempt, place))
    }

    /// Open a staged file of a job.
    pub(crate) fn open_staged(&self, job: &Job, path: &Path) -> Result<Arc<Segment>> {
        Segment::open(&*self.env.system, path, self.env.history).map_err(|error| match error {
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                let path = path.display();
                match self.check_alive(job) {
                    Ok(()) => Error::Elsewhere(format!(
                        "a task says that it wrote {path}, and this process does not find it there: they see two directories \
                         under one path, or somebody took the file away; nothing was begun: mount one shared directory on \
                         all machines (`dochistory doctor --cluster` looks at it)"
                    )),
                    Err(error) => error,
                }
            }
            other => other,
        })
    }

    /// The last transaction of the job's application, as it was at the pin.
    pub(crate) fn transaction_at_pin(&self, job: &Job) -> Result<Option<TransactionEntry>> {
        let Some(transaction) = &job.plan.transaction else { return Ok(None) };
        let pinned = super::files::read_manifest(&self.env, &self.directory.join(&job.pin))?;
        let is_ours = |entry: &TransactionEntry| entry.transaction.application == transaction.application;
        Ok(pinned.transactions.into_iter().find(is_ours))
    }

    /// Abandon a job: remove its pin, and all its files that were not published. Published files
    /// stay.
    pub(crate) fn give_up(&self, job: &Job) -> Result<()> {
        self.unpin(&job.pin)?;
        let names = self.env.system.names(&self.directory)?;
        for name in names.iter().filter(|name| job_of(name) == Some(job.id())) {
            self.env.system.remove_if_there(&self.directory.join(name))?;
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// A transaction that begins and ends at once, under a claim number of its own.
    pub(crate) fn ended_transaction(&self, batch: NumberedBatch) -> TransactionEntry {
        let claim = self.space.present().as_ref().map_or(0, |view| view.next_of_same_log().next_sequence);
        let begun = TransactionEntry::begun(batch, claim, crate::sys::time::now_us());
        TransactionEntry { outcome: Some(Ending::Completed), ..begun }
    }

    /// Give the files the names that were reserved for them, and publish them, with the
    /// transaction, in one manifest. Answers the segments that were written for the rests.
    pub(crate) fn publish_staged(&mut self, publication: Publication) -> Result<Vec<Arc<Segment>>> {
        let Some(mut manifest) = self.space.present().as_ref().map(View::next_of_same_log) else {
            return Err(Error::State("the key space is not there".into()));
        };
        let Publication { files, rests, transaction, replaces } = publication;
        for (entry, from) in files {
            let to = FileKind::Segment.path(&self.space.directory, entry.id);
            self.space.env.system.remove_if_there(&to)?;
            self.space.env.system.link(&from, &to).map_err(Error::io("give its name to", &from))?;
            manifest.segments.push(entry);
        }
        let first = manifest.segments.len();
        for mut rest in rests {
            self.space.write_run(&mut manifest, &mut rest)?;
        }
        if let Some((claim, started_at)) = replaces {
            manifest.outcomes.push(EndedClaim { claim, started_at, outcome: Ending::Released });
        }
        if let Some(entry) = transaction {
            manifest.next_sequence = manifest.next_sequence.max(entry.claim + 1);
            manifest.set_transaction(entry);
        }
        // If this fails, it is unknown whether the manifest is on disk.
        self.publish(&manifest).inspect_err(|error| self.space.sync.fail(error))?;
        Ok(self.segments_of(&manifest.segments[first..]))
    }
}
