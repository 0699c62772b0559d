//! Inspecting a history: its entries, its figures, whether its files are intact; and maintenance.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;
use std::vec::IntoIter;

use super::History;
use crate::columns::Documents;
use crate::io::Disk;
use crate::key::{Codec, Form};
use crate::segment::format::Mark;
use crate::store::batch::IdBatch;
use crate::store::{EntryCursor, ListedEntry, Maintained, Progress, Purge, Purged, SpaceSettings};
use crate::types::{Ending, TransactionEntry};
use crate::{Error, Result, wal};

use crate::store::SpaceStatistics;

/// Entries of given keys that are returned in one batch.
const TOGETHER: usize = 8192;

/// How far a batch of an application came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progressed {
    /// Begun, and not known to have ended.
    Begun,
    /// Its claim was completed.
    Completed,
    /// Its claim was released.
    Released,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryStatus {
    /// Begun, and not known to have ended.
    Processing,
    /// Ended.
    Completed,
}

/// Which entries to return; by default all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Those in this state.
    pub status: Option<EntryStatus>,
    /// Those whose service began in this range, in microseconds since 1970.
    pub started_at: Range<i64>,
    /// Part `i` of `n` equal parts of the keys. The parts of one state of a history hold each entry
    /// once.
    pub part: (u32, u32),
}

impl Default for Selection {
    fn default() -> Self {
        Self { status: None, started_at: i64::MIN..i64::MAX, part: (0, 1) }
    }
}

/// Where the frames of a log file end, and its length; none if there is no such file. What stands
/// behind them may be remains of another log.
pub fn log_extent(path: &Path) -> Result<Option<(u64, u64)>> {
    match wal::extent(&Disk, path) {
        Err(error) if error.is_missing() => Ok(None),
        extent => extent.map(Some),
    }
}

impl Selection {
    /// The upper halves of this part's keys.
    fn keys(&self) -> Result<RangeInclusive<u64>> {
        let (part, parts) = self.part;
        if part >= parts {
            return Err(Error::Config(format!("there is no part {part} of {parts}")));
        }
        let start = |part: u32| (u128::from(part) << 64) / u128::from(parts);
        Ok(start(part) as u64..=(start(part + 1) - 1) as u64)
    }
}

/// Some entries, as columns.
#[derive(Clone, Debug, Default)]
pub struct EntryBatch {
    /// The keys, as they came.
    pub keys: Vec<String>,
    /// Their states.
    pub statuses: Vec<EntryStatus>,
    /// When their services began, in microseconds since 1970.
    pub started_at: Vec<i64>,
}

/// The entries of one trigger, batch by batch.
pub struct Entries {
    codec: Codec,
    wanted: Selection,
    source: Source,
}

/// Where entries come from.
enum Source {
    /// All entries.
    Listing(Box<EntryCursor>),
    /// The entries of given keys.
    Found(IntoIter<ListedEntry>),
}

impl Entries {
    /// The next entries; none after the last.
    pub fn next_batch(&mut self) -> Result<Option<EntryBatch>> {
        loop {
            let found = match &mut self.source {
                Source::Listing(cursor) => cursor.next()?,
                Source::Found(entries) => {
                    Some(entries.by_ref().take(TOGETHER).collect()).filter(|some: &Vec<_>| !some.is_empty())
                }
            };
            let Some(found) = found else { return Ok(None) };
            let mut batch = EntryBatch::default();
            for ListedEntry { key, text, stamp } in found {
                let status =
                    if stamp.mark == Mark::Completed { EntryStatus::Completed } else { EntryStatus::Processing };
                let is_wanted = self.wanted.status.is_none_or(|wanted| wanted == status);
                if is_wanted && self.wanted.started_at.contains(&stamp.started_at) {
                    batch.keys.push(self.codec.text_of(key, text.as_deref()));
                    batch.statuses.push(status);
                    batch.started_at.push(stamp.started_at);
                }
            }
            if !batch.keys.is_empty() {
                return Ok(Some(batch));
            }
        }
    }
}

impl History {
    /// The entries of a trigger, in no order. A key with several open claims has one entry for
    /// each.
    pub fn entries(&self, trigger: &str, status: Option<EntryStatus>) -> Result<Entries> {
        self.selected_entries(trigger, Selection { status, ..Selection::default() })
    }

    /// The selected entries of a trigger, in no order.
    ///
    /// # Errors
    /// `Config` for a part that does not exist.
    pub fn selected_entries(&self, trigger: &str, wanted: Selection) -> Result<Entries> {
        let is_open = wanted.status == Some(EntryStatus::Processing);
        let cursor = self.space(trigger)?.entry_cursor(wanted.keys()?, wanted.started_at.clone(), is_open)?;
        Ok(Entries { codec: self.codec().clone(), wanted, source: Source::Listing(Box::new(cursor)) })
    }

    /// The selected entries of these keys, in the order of the keys. Looks the keys up instead of
    /// listing all entries.
    ///
    /// # Errors
    /// `Config` for a part that does not exist; `Schema` for columns that are no keys.
    pub fn entries_of_keys(&self, trigger: &str, keys: &Documents, wanted: Selection) -> Result<Entries> {
        let (batch, space, range) = (IdBatch::identify(self.codec(), keys)?, self.space(trigger)?, wanted.keys()?);
        let found = batch.wanted(keys, |looked_for| space.entries_of(looked_for))?;
        let mut seen = HashSet::new();
        let mut entries = Vec::with_capacity(found.len());
        for (row, stamp) in found {
            let (key, is_text) = (batch.keys[row as usize], batch.forms[row as usize] == Form::Text);
            let text = is_text.then(|| batch.text(keys, row).to_vec());
            // A key that is given twice is returned once.
            if range.contains(&key.hi) && seen.insert((key, text.clone(), stamp.claim)) {
                entries.push(ListedEntry { key, text, stamp });
            }
        }
        Ok(Entries { codec: self.codec().clone(), wanted, source: Source::Found(entries.into_iter()) })
    }

    /// The figures of a trigger.
    pub fn statistics(&self, trigger: &str) -> Result<SpaceStatistics> {
        self.space(trigger)?.statistics()
    }

    /// The last batch of an application among a trigger's transactions, and how it ended; none if
    /// the application never began one.
    pub fn transaction(&self, trigger: &str, application: &str) -> Result<Option<(i64, Progressed)>> {
        let found = self.space(trigger)?.transaction(application)?;
        let progressed = |entry: &TransactionEntry| match entry.outcome {
            None => Progressed::Begun,
            Some(Ending::Completed) => Progressed::Completed,
            Some(Ending::Released) => Progressed::Released,
        };
        Ok(found.map(|entry| (entry.transaction.batch, progressed(&entry))))
    }

    /// [`History::purge`] by the time to live that is stored.
    pub fn purge_as_stored(&self, trigger: &str, purge: Purge) -> Result<Purged> {
        self.space(trigger)?.purge(SpaceSettings::STORED, purge)
    }

    /// Compact small segments and build their global filter; with `all`, as far as possible.
    pub fn maintain(&self, trigger: &str, all: bool, progress: Progress) -> Result<Maintained> {
        self.space(trigger)?.maintain(all, progress)
    }

    /// [`History::maintain`] until nothing is due, for a thread of its own.
    pub fn maintain_while_due(&self, trigger: &str, progress: Progress) -> Result<()> {
        self.space(trigger)?.maintain_while_due(progress)
    }

    /// Whether maintenance of a trigger is due.
    pub fn is_maintenance_due(&self, trigger: &str) -> bool {
        self.space(trigger).is_ok_and(|space| space.is_maintenance_due())
    }

    /// How many segments maintenance has fallen behind, beyond which writers wait for it.
    pub fn maintenance_debt(&self, trigger: &str) -> u32 {
        self.space(trigger).map_or(0, |space| space.maintenance_debt())
    }

    /// Whether the log was full, and its entries wait to be put into segments.
    pub fn is_seal_due(&self, trigger: &str) -> bool {
        self.space(trigger).is_ok_and(|space| space.is_seal_due())
    }

    /// How long callers are to wait for that at most, before they write more.
    pub fn seal_wait(&self, trigger: &str) -> Duration {
        self.space(trigger).map_or(Duration::ZERO, |space| space.seal_wait())
    }

    /// Put the entries of a log that was full into segments.
    pub fn seal(&self, trigger: &str) -> Result<()> {
        self.space(trigger)?.seal_frozen()
    }

    /// Give back what triggers keep for their next log, where nothing was written since the last
    /// call. Answers whether any may keep something still.
    pub fn release_if_idle(&self) -> bool {
        let spaces: Vec<_> = self.spaces.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let mut is_kept = false;
        for space in spaces {
            // What one cannot give back is with its next log, and keeps nothing of the others.
            is_kept |= space.release_if_idle().unwrap_or(false);
        }
        is_kept
    }

    /// Make the filter over what was written since good again. It is due after a log was put into
    /// segments, and may take longer than that.
    pub fn renew_young(&self, trigger: &str) -> Result<()> {
        self.space(trigger)?.renew_young()
    }

    /// Check every byte of a trigger's files; answers the number of bytes checked. `progress` gets
    /// bytes done and bytes in all.
    pub fn verify(&self, trigger: &str, progress: Progress) -> Result<u64> {
        self.space(trigger)?.verify(progress)
    }
}
