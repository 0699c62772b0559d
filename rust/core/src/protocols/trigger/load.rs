//! Bulk loading: entries that happened elsewhere, straight into segments.
//!
//! A load goes in parts of a fixed number of entries. The manifest that publishes a part also keeps
//! its fingerprint, until the load ends. An interrupted load that is run again with the same
//! entries in the same order finds the published parts by their fingerprints, and does not write
//! them again. Reading and writing overlap: while one part is sorted and written, the next is
//! collected.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::rules::Trigger;
use crate::columns::{Documents, FlagColumn};
use crate::history::History;
use crate::key::Form;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::Runs;
use crate::store::batch::IdBatch;
use crate::store::{Fingerprint, KeySpace, LoadedPart, SpaceSettings};
use crate::sys::interrupt;
use crate::{Error, Result};

/// Entries of a part. (Tests meet every path with few entries.)
pub(super) const PART: usize = if cfg!(feature = "small") { 8 } else { 4 << 20 };

/// Time between two checks for the end of a part.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The result of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Entries read.
    pub entries: u64,
    /// Of those, entries that an earlier, interrupted run of the same load had published: they were
    /// not written again.
    pub resumed: u64,
}

/// A load in progress. Published parts stay, whatever happens to the rest: loading an entry twice
/// does no harm.
pub struct Load<'a> {
    history: &'a History,
    space: Arc<KeySpace>,
    partition_us: i64,
    /// The part that is being collected.
    runs: Runs,
    gathered: usize,
    fingerprint: Fingerprint,
    /// The time that stands for an unknown one in that part.
    unknown_at: Option<i64>,
    /// The previous part, which is being written.
    writing: Option<JoinHandle<Result<()>>>,
    done: Loaded,
}

impl History {
    /// Start loading entries into a trigger's history.
    pub fn load(&self, trigger: &Trigger) -> Result<Load<'_>> {
        trigger.validate()?;
        let space = self.space(&trigger.name)?;
        let partition_us = space.write_again(SpaceSettings::of(trigger), |writer| Ok(writer.partition_us()))?;
        Ok(Load {
            history: self,
            space,
            partition_us,
            runs: Runs::new(partition_us),
            gathered: 0,
            fingerprint: Fingerprint::default(),
            unknown_at: None,
            writing: None,
            done: Loaded::default(),
        })
    }
}

impl Load<'_> {
    /// Add entries: a key, when its service began (microseconds since 1970), and whether it ended
    /// (absent and null mean yes). `now_us` stands in for an unknown time; it may differ when the
    /// load is run again.
    ///
    /// # Errors
    /// `Schema` for a row without a key, or with one of more than 96 characters: it could never be
    /// found.
    pub fn push(
        &mut self,
        documents: &Documents,
        started_at: &[i64],
        now_us: i64,
        completed: FlagColumn,
    ) -> Result<()> {
        let batch = identified(self.history, documents, started_at)?;
        let mut first = 0;
        while first < documents.rows {
            let rows = first..documents.rows.min(first + PART - self.gathered);
            for row in rows.clone() {
                let started_at = started_at[row];
                let mark = if completed.get(row).unwrap_or(true) { Mark::Completed } else { Mark::Open };
                let known_at = if started_at == now_us { i64::MIN } else { started_at };
                if started_at == now_us {
                    self.unknown_at = Some(now_us);
                }
                self.fingerprint.add(batch.keys[row], known_at, mark);
                // The claim of unfinished entries gets its number when they are published.
                let (run, stamp) = (self.runs.of(started_at), Stamp { claim: 0, started_at, mark });
                if batch.forms[row] == Form::Uuid {
                    run.push_uuid(batch.keys[row], stamp);
                } else {
                    run.push_text(batch.keys[row], batch.text(documents, row as u32), stamp);
                }
            }
            self.gathered += rows.len();
            first = rows.end;
            if self.gathered == PART {
                self.publish()?;
            }
        }
        Ok(())
    }

    /// Publish the last part; everything is durable on return.
    pub fn finish(mut self) -> Result<Loaded> {
        self.publish()?;
        self.wait()?;
        self.space.forget_loaded()?;
        Ok(self.done)
    }

    /// Stop the load without waiting for the part that is being written: it is still published, if
    /// the process lasts.
    pub fn leave(mut self) {
        drop(self.writing.take());
    }

    /// Entries read so far, and how many of them needed no writing.
    pub fn progress(&self) -> Loaded {
        Loaded { entries: self.done.entries + self.gathered as u64, ..self.done }
    }

    /// Write the collected part after the previous one, unless it is published already.
    fn publish(&mut self) -> Result<()> {
        let runs = std::mem::replace(&mut self.runs, Runs::new(self.partition_us)).into_list();
        let fingerprint = std::mem::take(&mut self.fingerprint).of(self.gathered as u64);
        let (entries, unknown_at) = (std::mem::take(&mut self.gathered) as u64, self.unknown_at.take());
        let part = LoadedPart { fingerprint, entries, unknown_at };
        if part.entries == 0 {
            return Ok(());
        }
        self.wait()?;
        self.done.entries += part.entries;
        if self.space.is_loaded(&part)? {
            self.done.resumed += part.entries;
            return Ok(());
        }
        let space = self.space.clone();
        let write = move || space.add(runs, &part);
        match std::thread::Builder::new().name("dochistory-load".into()).spawn(write) {
            Ok(thread) => self.writing = Some(thread),
            Err(error) => return Err(Error::State(format!("no thread to write with: {error}"))),
        }
        Ok(())
    }

    /// Wait until the previous part is published.
    fn wait(&mut self) -> Result<()> {
        while self.writing.as_ref().is_some_and(|thread| !thread.is_finished()) {
            interrupt::check()?;
            std::thread::sleep(BETWEEN_LOOKS);
        }
        let Some(thread) = self.writing.take() else { return Ok(()) };
        thread.join().map_err(|_| Error::State("the thread that writes failed".into()))?
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        // A stopped load still publishes the part that is being written, so that it need not be
        // written again.
        drop(self.wait());
    }
}

/// The keys of entries, all of which must have one, and a start time.
pub(super) fn identified(history: &History, documents: &Documents, started_at: &[i64]) -> Result<IdBatch> {
    if started_at.len() != documents.rows {
        return Err(Error::Schema(format!("{} start times for {} rows", started_at.len(), documents.rows)));
    }
    let batch = IdBatch::identify(history.codec(), documents)?;
    if let Some(row) = batch.forms.iter().position(|form| !form.is_usable()) {
        let what = if batch.forms[row] == Form::TooLong { "a key of more than 96 characters" } else { "no key" };
        return Err(Error::Schema(format!("row {row} has {what}; nothing of this batch was loaded")));
    }
    Ok(batch)
}
