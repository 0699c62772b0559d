//! Bulk loading: entries that happened elsewhere, straight into segments.

use std::collections::HashMap;
use std::sync::Arc;

use super::batch::Batch;
use crate::columns::{Documents, FlagColumn};
use crate::history::History;
use crate::key::Form;
use crate::keyspace::{KeySpace, SpaceSettings};
use crate::rules::Trigger;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::Run;
use crate::{Error, Result};

/// So many entries are gathered before they are written and published.
pub(super) const GATHERED: usize = 4 << 20;

/// A load in progress. What was published stays, whatever becomes of the rest: an entry may be loaded twice without harm.
pub struct Load<'a> {
    history: &'a History,
    space: Arc<KeySpace>,
    settings: SpaceSettings,
    partition_us: i64,
    runs: HashMap<i64, Run>,
    gathered: usize,
    published: u64,
}

impl History {
    /// Start loading entries into a trigger's history.
    pub fn load(&self, trigger: &Trigger) -> Result<Load<'_>> {
        trigger.validate()?;
        let (space, settings) = (self.space(&trigger.name)?, SpaceSettings::of(trigger));
        let partition_us = space.write(settings, |space| Ok(space.partition_us()))?;
        Ok(Load { history: self, space, settings, partition_us, runs: HashMap::new(), gathered: 0, published: 0 })
    }
}

impl Load<'_> {
    /// Add entries: a key, when its service began (microseconds since 1970), and whether it ended (absent and null mean yes).
    ///
    /// # Errors
    /// `Schema` for a row without a key, or with one of more than 96 characters: it could never be found.
    pub fn push(&mut self, documents: &Documents, started_at: &[i64], completed: FlagColumn) -> Result<()> {
        let batch = Batch::identify(self.history.codec(), documents)?;
        // The claim of those that have not ended is numbered when they are published.
        push_entries(&mut self.runs, self.partition_us, 0, &batch, documents, started_at, completed)?;
        self.gathered += documents.rows;
        if self.gathered >= GATHERED { self.publish() } else { Ok(()) }
    }

    /// Publish what was gathered; answers how many entries this load has published. They are durable on return.
    pub fn finish(mut self) -> Result<u64> {
        self.publish()?;
        Ok(self.published)
    }

    /// Entries published so far: a load that breaks off can go on after them.
    pub fn published(&self) -> u64 {
        self.published
    }

    fn publish(&mut self) -> Result<()> {
        let mut runs: Vec<(i64, Run)> = std::mem::take(&mut self.runs).into_iter().collect();
        if runs.is_empty() {
            return Ok(());
        }
        runs.sort_by_key(|(partition, _)| *partition);
        let runs = runs.into_iter().map(|(_, run)| run).collect();
        self.space.write(self.settings, |space| space.add(runs))?;
        self.published += std::mem::take(&mut self.gathered) as u64;
        Ok(())
    }
}

/// Put the entries of a batch into the runs of their time partitions.
pub(super) fn push_entries(
    runs: &mut HashMap<i64, Run>,
    partition_us: i64,
    claim: u64,
    batch: &Batch,
    documents: &Documents,
    started_at: &[i64],
    completed: FlagColumn,
) -> Result<()> {
    if started_at.len() != documents.rows {
        return Err(Error::Schema(format!("{} start times for {} rows", started_at.len(), documents.rows)));
    }
    if let Some(row) = batch.forms.iter().position(|form| !form.is_usable()) {
        let what = if batch.forms[row] == Form::TooLong { "a key of more than 96 characters" } else { "no key" };
        return Err(Error::Schema(format!("row {row} has {what}; nothing of this batch was loaded")));
    }
    for (row, started_at) in started_at.iter().copied().enumerate() {
        let mark = if completed.get(row).unwrap_or(true) { Mark::Completed } else { Mark::Open };
        let stamp = Stamp { claim, started_at, mark };
        let run = runs.entry(started_at.div_euclid(partition_us)).or_default();
        if batch.forms[row] == Form::Uuid {
            run.push_uuid(batch.keys[row], stamp);
        } else {
            run.push_text(batch.keys[row], batch.text(documents, row as u32), stamp);
        }
    }
    Ok(())
}
