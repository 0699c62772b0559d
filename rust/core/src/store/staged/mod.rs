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
mod resolved;
mod taken_over;

use super::publish::entry_of;
use super::{KeySpace, SpaceSettings};
use crate::format::manifest::{EndedClaim, Manifest, SegmentEntry};
use crate::format::names::FileKind;
use crate::key::Key;
use crate::objects::change::Stored;
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

pub(crate) use conflict::{Keys, each_chunk, held_by};
pub use job::{Job, JobPlan};
pub(crate) use job::{is_staged_name, job_of};
pub(crate) use leave_out::rest_of;
pub use receipt::{OutcomeCount, Receipt};
pub(crate) use resolved::Resolved;
pub(crate) use taken_over::Runs;

/// File numbers that each part of a job has for itself.
pub(crate) const FILES_PER_PART: u64 = 1 << 16;

/// A document's key, and its text if it is no UUID.
pub(crate) type Document = (Key, Option<Vec<u8>>);

/// A staged file: its entry, where it lies, and which object of a bucket holds it.
pub(crate) type StagedFile = (SegmentEntry, PathBuf, Option<Stored>);

/// What one part has staged so far. In a bucket there is an object for each file.
#[derive(Debug, Default)]
pub(crate) struct StagedFiles {
    pub(crate) files: Vec<SegmentEntry>,
    pub(crate) objects: Vec<Stored>,
}

/// The content of one commit.
#[derive(Debug, Default)]
pub(crate) struct Publication {
    pub(crate) files: Vec<StagedFile>,
    /// The rest of files that held more than may be published; each is rewritten under the writer
    /// lock.
    pub(crate) rests: Vec<EntryRun>,
    pub(crate) transaction: Option<TransactionEntry>,
    /// The open claim of the same transaction that this one replaces, and its start.
    pub(crate) replaces: Option<(u64, i64)>,
    /// Entries of that claim that end by themselves, where others of it stay open.
    pub(crate) taken: Option<EntryRun>,
}

impl KeySpace {
    /// Reserve numbers for a job, and pin the state that its tasks read: one manifest. `check` may
    /// refuse, under the same lock. Where the job `is_proved_later`, nothing may be committed under
    /// these numbers before [`KeySpace::prove_job`].
    pub(crate) fn reserve_job(
        &self,
        settings: SpaceSettings,
        plan: JobPlan,
        is_proved_later: bool,
        mut check: impl FnMut(&Writer<'_>, &JobPlan) -> Result<()>,
    ) -> Result<Job> {
        let reserve = |writer: &mut Writer<'_>| {
            check(writer, &plan)?;
            if is_proved_later {
                writer.along.prove_later();
            }
            writer.reserve_numbers(&plan)
        };
        let (pin, numbers) = match self.mirror.as_deref() {
            Some(mirror) => self.pin_objects(mirror, None, settings, reserve)?,
            None => {
                let mut reserve = reserve;
                self.write(settings, |writer| {
                    let numbers = reserve(writer)?;
                    Ok((writer.pin_present(None)?, numbers))
                })?
            }
        };
        let Numbers { claim, first_file, partition_us } = numbers;
        Ok(Job { trigger: self.name.clone(), pin, claim, first_file, partition_us, plan })
    }

    /// The numbers of a job that this handle reserved are its own: nobody else has them.
    pub(crate) fn prove_job(&self, job: &Job) -> Result<()> {
        let Some(mirror) = self.mirror.as_deref() else { return Ok(()) };
        mirror.prove(mirror.commit_of_pin(&job.pin)?)
    }

    /// Write a run of a part as staged segments; their bytes and names are durable on return. Takes
    /// no lock: the files have numbers of their own, and no manifest names them yet.
    pub(crate) fn stage(
        &self,
        job: &Job,
        part: u32,
        attempt: &str,
        staged: &mut StagedFiles,
        runs: Vec<EntryRun>,
    ) -> Result<()> {
        for mut run in runs {
            run.settle();
            let pieces = run.len().div_ceil(MOST_ENTRIES) as u64;
            for piece in 0..pieces {
                let split = (pieces > 1).then(|| run.take_range(piece, pieces));
                let place = staged.files.len() as u64;
                if place == FILES_PER_PART {
                    return Err(Error::Config(format!(
                        "part {part} makes more than {FILES_PER_PART} files: use more parts"
                    )));
                }
                let id = job.first_file_of(part) + place;
                let path = self.staged_path(job, part, attempt, place)?;
                let run = split.as_ref().unwrap_or(&run);
                let (header, sum, bytes) = writer::write(self.segment_at(&path, id), run)?;
                staged.files.push(entry_of(&header, sum, bytes));
                staged.objects.extend(self.store_staged(job, &path, id)?);
            }
        }
        if !staged.files.is_empty() && self.mirror.is_none() {
            self.env.system.sync_names(&self.directory)?;
        }
        Ok(())
    }

    /// A job that was abandoned, or whose pin was collected as forgotten, must not publish
    /// anything.
    pub(crate) fn check_alive(&self, job: &Job) -> Result<()> {
        let is_there = match self.mirror.as_deref() {
            Some(mirror) => mirror.has_pin(&job.pin)?,
            None => self.env.system.has(&self.directory.join(&job.pin))?,
        };
        if is_there {
            return Ok(());
        }
        let over = format!("job {} was committed or given up before, or it took more than a week", job.id());
        let elsewhere = match self.mirror {
            Some(_) => String::new(),
            None => format!(
                ", or it was reserved by a process that sees another directory under {}",
                self.directory.display()
            ),
        };
        Err(Error::State(format!("{over}{elsewhere}")))
    }

    /// The path of a staged file of a job.
    pub(crate) fn staged_path(&self, job: &Job, part: u32, attempt: &str, place: u64) -> Result<PathBuf> {
        let directory = match self.mirror {
            Some(_) => self.own_directory_of(&job.pin)?,
            None => self.directory.clone(),
        };
        Ok(directory.join(job.staged_name(part, attempt, place)))
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
        let pinned = super::files::read_manifest(&self.env, &self.directory_of_pin(&job.pin)?.join(&job.pin))?;
        let is_ours = |entry: &TransactionEntry| entry.transaction.application == transaction.application;
        Ok(pinned.transactions.into_iter().find(is_ours))
    }

    /// Remove what this handle has of a job whose pin is gone.
    pub(crate) fn forget(&self, job: &Job) -> Result<()> {
        self.mirror.as_deref().map_or(Ok(()), |mirror| self.forget_pin(mirror, &job.pin))
    }

    /// Abandon a job: remove its pin, and all its files that were not published. Published files
    /// stay.
    pub(crate) fn give_up(&self, job: &Job) -> Result<()> {
        self.unpin(&job.pin)?;
        if self.mirror.is_some() {
            // What was stored may be named by a commit of which nobody knows yet. A collector will
            // know.
            return Ok(());
        }
        let names = self.env.system.names(&self.directory)?;
        for name in names.iter().filter(|name| job_of(name) == Some(job.id())) {
            self.env.system.remove_if_there(&self.directory.join(name))?;
        }
        Ok(())
    }
}

/// What a job has for itself.
struct Numbers {
    claim: u64,
    first_file: u64,
    partition_us: i64,
}

impl Writer<'_> {
    /// It is unknown whether a manifest is on disk. In an object store the chain tells.
    fn note_unpublished(&self, error: &Error) {
        if self.space.mirror.is_none() {
            self.space.sync.fail(error);
        }
    }

    /// Publish a manifest that gives a claim's number and file numbers away.
    fn reserve_numbers(&mut self, plan: &JobPlan) -> Result<Numbers> {
        let (mut claim, mut first_file) = (0, 0);
        let mut take = |manifest: &mut Manifest| {
            (claim, first_file) = (manifest.next_sequence, manifest.next_file);
            manifest.next_sequence += 1;
            manifest.next_file += u64::from(plan.parts) * FILES_PER_PART;
        };
        let is_touched = self.space.present().as_ref().is_some_and(|view| !view.is_log_untouched());
        // What is pinned in a bucket has nothing in its log.
        if is_touched && (plan.reads || self.space.mirror.is_some()) {
            self.seal_with(i64::MIN, take)?;
        } else {
            let mut manifest = self.next_of_same_log()?;
            take(&mut manifest);
            self.publish(&manifest)?;
        }
        Ok(Numbers { claim, first_file, partition_us: self.partition_us() })
    }

    /// A transaction that begins and ends at once, under a claim number of its own.
    pub(crate) fn ended_transaction(&self, batch: NumberedBatch) -> TransactionEntry {
        let claim = self.space.present().as_ref().map_or(0, |view| view.next_of_same_log().next_sequence);
        let begun = TransactionEntry::begun(batch, claim, crate::sys::time::now_us());
        TransactionEntry { outcome: Some(Ending::Completed), ..begun }
    }

    /// [`Writer::publish_staged`] of a job's last work: in a bucket the commit takes its pin away.
    pub(crate) fn publish_last(&mut self, publication: Publication, job: &Job) -> Result<Vec<Arc<Segment>>> {
        self.along.remove(&job.pin);
        self.publish_staged(publication)
    }

    /// Whether a commit has taken a job's pin away, whatever became of the commit.
    pub(crate) fn has_let_go(&self) -> bool {
        self.along.is_removed()
    }

    /// Give the files the names that were reserved for them, and publish them, with the
    /// transaction, in one manifest. Answers the segments that were written for the rests.
    pub(crate) fn publish_staged(&mut self, publication: Publication) -> Result<Vec<Arc<Segment>>> {
        let mut manifest = self.next_of_same_log()?;
        let Publication { files, rests, transaction, replaces, taken } = publication;
        for (entry, from, object) in files {
            if let Some(object) = &object {
                self.space.expect_staged(entry.id, object)?;
            }
            let to = FileKind::Segment.path(&self.space.directory, entry.id);
            self.space.env.system.remove_if_there(&to)?;
            self.space.env.system.link(&from, &to).map_err(Error::io("give its name to", &from))?;
            manifest.segments.push(entry);
        }
        if let Some(mut taken) = taken {
            self.space.write_run(&mut manifest, &mut taken)?;
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
        self.publish(&manifest).inspect_err(|error| self.note_unpublished(error))?;
        Ok(self.segments_of(&manifest.segments[first..]))
    }
}
