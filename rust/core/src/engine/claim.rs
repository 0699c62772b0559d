//! A claim: documents of one batch that were begun together, and how they end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::columns::Documents;
use crate::history::History;
use crate::keyspace::{Finished, KeySpace, SpaceSettings};
use crate::log::frame::FrameKeys;
use crate::manifest::Outcome as End;
use crate::rules::Trigger;
use crate::{Error, Result};

use super::batch::Batch;
use super::classify::expired;

/// Documents that were begun together: theirs is the turn to be processed.
#[derive(Debug)]
pub struct Claim {
    pub(super) space: Arc<KeySpace>,
    pub(super) settings: SpaceSettings,
    /// Number of the claim in its key space.
    pub(super) number: u64,
    pub(super) started_at: i64,
    /// When it was begun by a clock that nobody sets, to see how long services run.
    pub(super) begun: Instant,
    /// Row of each UUID key, then of each text key.
    pub(super) uuid_rows: Vec<u32>,
    pub(super) text_rows: Vec<u32>,
    pub(super) keys: FrameKeys,
    /// Rows that were released one by one: they stay so when the rest ends.
    pub(super) released: Mutex<BTreeSet<u32>>,
    /// How the whole of it ended. After a release its entries may be gone, so that an end that follows has to name the keys.
    pub(super) ended: Mutex<Option<End>>,
}

impl Claim {
    /// Number of the claim, unique within its trigger.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When the service began, in microseconds since 1970.
    pub fn started_at(&self) -> i64 {
        self.started_at
    }

    /// Number of documents claimed.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether nothing was claimed.
    pub fn is_empty(&self) -> bool {
        self.keys.len() == 0
    }

    /// The service ended, in success or failure: write `completed` for all rows, or for `rows` of the batch. Durable on return;
    /// doing it again changes nothing.
    pub fn complete(&self, rows: Option<&[u32]>) -> Result<()> {
        self.finish(End::Completed, rows)
    }

    /// The service was certainly rolled back: take `processing` away, so that a redelivery is NEW.
    pub fn release(&self, rows: Option<&[u32]>) -> Result<()> {
        self.finish(End::Released, rows)
    }

    fn finish(&self, end: End, rows: Option<&[u32]>) -> Result<()> {
        let ended = *self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if rows.is_none() && ended == Some(End::Completed) {
            return Ok(());
        }
        let keys = rows.map(|rows| self.keys_of(rows)).transpose()?;
        self.space.write(self.settings, |space| match keys {
            Some(keys) => space.finish_rows(self.number, self.started_at, end, keys),
            // After a purge of its partition nothing is left that a claim's outcome could speak of: name the keys.
            None if space.is_purged(self.started_at) || ended.is_some() => {
                space.finish_claim(self.number, self.started_at, end, self.keys_of(&self.kept_rows())?)
            }
            None => space.finish_claim(self.number, self.started_at, end, FrameKeys::default()),
        })?;
        if rows.is_none() {
            *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = ended.max(Some(end));
        }
        if end == End::Completed {
            self.space.note_run(self.begun.elapsed());
        }
        if end == End::Released {
            self.released.lock().unwrap_or_else(PoisonError::into_inner).extend(rows.unwrap_or_default());
        }
        Ok(())
    }

    /// The rows that were not released one by one.
    fn kept_rows(&self) -> Vec<u32> {
        let released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        self.uuid_rows.iter().chain(&self.text_rows).filter(|row| !released.contains(row)).copied().collect()
    }

    /// The keys of some rows, each of which must be claimed.
    fn keys_of(&self, rows: &[u32]) -> Result<FrameKeys> {
        let mut wanted = rows.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let is_wanted = |row: &u32| wanted.binary_search(row).is_ok();
        let mut keys = FrameKeys::default();
        for (_, key) in self.uuid_rows.iter().zip(&self.keys.uuids).filter(|(row, _)| is_wanted(row)) {
            keys.uuids.push(*key);
        }
        let mut start = 0;
        for ((row, key), length) in self.text_rows.iter().zip(&self.keys.texts).zip(&self.keys.lengths) {
            let end = start + usize::from(*length);
            if is_wanted(row) {
                keys.push_text(*key, &self.keys.heap[start..end]);
            }
            start = end;
        }
        if keys.len() == wanted.len() {
            return Ok(keys);
        }
        let is_claimed =
            |row: &u32| self.uuid_rows.binary_search(row).is_ok() || self.text_rows.binary_search(row).is_ok();
        let stranger = wanted.iter().find(|row| !is_claimed(row));
        Err(Error::State(format!(
            "row {} is not among the {} documents of this claim",
            stranger.unwrap_or(&0),
            self.len()
        )))
    }
}

impl History {
    /// End keys by themselves, whatever claim began them. Durable on return.
    pub fn complete_keys(&self, trigger: &Trigger, keys: &Documents, now_us: i64) -> Result<Finished> {
        self.finish_keys(trigger, keys, End::Completed, now_us)
    }

    /// Take `processing` away from keys, whatever claim began them. Durable on return.
    pub fn release_keys(&self, trigger: &Trigger, keys: &Documents, now_us: i64) -> Result<Finished> {
        self.finish_keys(trigger, keys, End::Released, now_us)
    }

    fn finish_keys(&self, trigger: &Trigger, documents: &Documents, end: End, now_us: i64) -> Result<Finished> {
        trigger.validate()?;
        let batch = Batch::identify(self.codec(), documents)?;
        let space = self.space(&trigger.name)?;
        space.write(SpaceSettings::of(trigger), |space| {
            batch.wanted(documents, |wanted| space.finish_keys(wanted, end, now_us, expired(trigger, now_us)))
        })
    }
}
