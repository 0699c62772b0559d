//! A batch runs again, and some open documents of its earlier run are not handed out: they stay as
//! they are, and the others of that run are released by name.

use std::collections::HashSet;
use std::sync::Arc;

use super::conflict::{Keys, each_chunk, held_by};
use crate::Result;
use crate::key::Key;
use crate::segment::Segment;
use crate::segment::format::{Mark, Stamp};
use crate::segment::run::EntryRun;
use crate::store::Writer;
use crate::types::HistoryState;

/// What a job's tasks staged, and what of it the commit leaves out.
#[derive(Clone, Copy)]
pub(crate) struct Runs<'a> {
    pub(crate) staged: &'a [Arc<Segment>],
    pub(crate) lost: &'a Keys,
}

impl Runs<'_> {
    /// The rows of `keys` that run.
    fn rows_of(&self, keys: &Keys) -> Result<HashSet<u32>> {
        let lost: HashSet<_> = self.lost.each().collect();
        let is_lost: Vec<bool> = keys.each().map(|one| lost.contains(&one)).collect();
        let mut rows = HashSet::new();
        for segment in self.staged {
            rows.extend(held_by(segment, keys)?);
        }
        rows.retain(|row| !is_lost[*row as usize]);
        Ok(rows)
    }
}

impl Writer<'_> {
    /// The entries of a replaced claim that end now, because they run again or are completed. None
    /// where all do, so that the claim can end as a whole: no key of `others` stays open.
    pub(crate) fn taken_over(
        &self,
        (claim, started_at): (u64, i64),
        expired: i64,
        runs: Runs<'_>,
        others: &Keys,
    ) -> Result<Option<EntryRun>> {
        let mut taken = Taken { writer: self, claim, expired, run: EntryRun::default() };
        let stamp = Stamp { claim, started_at, mark: Mark::Released };
        if !taken.take(others, stamp, &runs.rows_of(others)?)? {
            return Ok(None);
        }
        for segment in runs.staged {
            each_chunk(segment, |keys| taken.take(&keys, stamp, &runs.rows_of(&keys)?).map(drop))?;
        }
        Ok(Some(taken.run))
    }
}

struct Taken<'w, 's> {
    writer: &'w Writer<'s>,
    claim: u64,
    expired: i64,
    run: EntryRun,
}

impl Taken<'_, '_> {
    /// Take what ends of the claim's entries among these keys; answers whether any stays open.
    fn take(&mut self, keys: &Keys, stamp: Stamp, running: &HashSet<u32>) -> Result<bool> {
        let found = match self.writer.space.present().as_ref() {
            Some(view) if keys.len() > 0 => keys.wanted(|wanted| view.lookup(wanted, self.expired))?,
            _ => return Ok(false),
        };
        let own: HashSet<u32> =
            found.processing.iter().filter(|entry| entry.claim == self.claim).map(|entry| entry.row).collect();
        let ends = |row: u32| running.contains(&row) || found.states[row as usize] == HistoryState::Completed;
        let own_keys = (0..).zip(keys.each()).filter(|(row, _)| own.contains(row));
        let (ended, left): (Vec<_>, Vec<_>) = own_keys.partition(|(row, _): &(u32, (Key, Option<&[u8]>))| ends(*row));
        for (_, (key, text)) in ended {
            match text {
                Some(text) => self.run.push_text(key, text, stamp),
                None => self.run.push_uuid(key, stamp),
            }
        }
        Ok(!left.is_empty())
    }
}
