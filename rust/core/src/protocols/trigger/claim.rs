//! A claim: documents of one batch that were begun in one step, and how they end.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::rules::Trigger;
use crate::columns::Documents;
use crate::history::History;
use crate::key::Key;
use crate::store::{Finished, KeySpace, SpaceSettings};
use crate::types::Ending as End;
use crate::types::{FrameKeys, Places};
use crate::{Error, Result};

use super::classify::expired;
use super::ends::{Ending, Ends};
use crate::store::batch::IdBatch;

/// Documents that were begun in one step and are now to be processed.
#[derive(Debug)]
pub struct Claim {
    pub(super) space: Arc<KeySpace>,
    /// Number of the claim in its key space.
    pub(super) number: u64,
    pub(super) started_at: i64,
    /// The application of its transaction, if it has one.
    pub(super) application: Option<String>,
    /// Whether documents of its batch are suspended.
    pub(super) is_part: bool,
    /// When it was begun by a clock that nobody sets, to measure how long services run.
    pub(super) begun: Instant,
    /// Row of each UUID key, then of each text key.
    pub(super) uuid_rows: Vec<u32>,
    pub(super) text_rows: Vec<u32>,
    pub(super) keys: FrameKeys,
    /// The places of keys that it begins more than once, each key apart.
    pub(super) copies: OnceLock<Vec<Vec<usize>>>,
    pub(super) ends: Ends<u32>,
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

    /// The service ended, in success or failure: write `completed` for all rows, or for `rows` of
    /// the batch. Durable on return; repeating it changes nothing. For all rows, those that were
    /// released by themselves stay released. Where there are such rows, or suspended ones, the
    /// batch of a transaction has not ended: they are begun when it comes again.
    ///
    /// # Errors
    /// `State` when a row does not belong to the claim, or was released: another claim may have
    /// begun it since.
    pub fn complete(&self, rows: Option<&[u32]>) -> Result<()> {
        self.finish(End::Completed, rows)
    }

    /// The service was certainly rolled back: remove `processing`, so that a redelivery is NEW. For
    /// all rows, those that were completed by themselves stay completed. A document that several
    /// rows began is released with the last of them.
    ///
    /// # Errors
    /// `State` when a row does not belong to the claim, or was completed.
    pub fn release(&self, rows: Option<&[u32]>) -> Result<()> {
        self.finish(End::Released, rows)
    }

    fn finish(&self, end: End, rows: Option<&[u32]>) -> Result<()> {
        if self.ends.is_over(end) {
            return rows.map_or(Ok(()), |rows| self.places_of(rows).map(drop));
        }
        let places = rows.map(|rows| self.places_of(rows)).transpose()?;
        let (number, started_at) = (self.number, self.started_at);
        let (application, is_part) = (self.application.as_deref(), self.is_part);
        self.ends.write(
            Ending { space: &self.space, number, started_at, application, is_part },
            end,
            rows.zip(places.as_ref()),
            |rows| self.places_of(rows),
            |writer, places| {
                let places = if end == End::Released { self.freed(places) } else { places.clone() };
                writer.finish_places((number, started_at), end, places.clone(), || self.keys_at(&places))
            },
            |row| format!("row {row}"),
            |writer| {
                let kept = self.places_of(&self.kept_rows())?;
                Ok(writer.named((number, started_at), kept.clone(), || self.keys_at(&kept)))
            },
        )?;
        if end == End::Completed {
            self.space.note_run(self.begun.elapsed());
        }
        Ok(())
    }

    /// The rows that were not released one by one.
    fn kept_rows(&self) -> Vec<u32> {
        let rows = self.uuid_rows.iter().chain(&self.text_rows).copied();
        self.ends.kept(|is_kept| rows.filter(|row| is_kept(row)).collect())
    }

    /// The rows that were released one by one.
    pub fn released_rows(&self) -> Vec<u32> {
        self.ends.released()
    }

    /// What is released with these places: of a key that several rows began nothing, as long as one
    /// of them may run, and all of its places with the last one.
    fn freed(&self, places: &Places) -> Places {
        let groups = self.copies.get_or_init(|| self.find_copies());
        if groups.is_empty() {
            return places.clone();
        }
        let mut running = Places::none_of(self.len());
        self.ends.kept(|is_kept| {
            let rows = self.uuid_rows.iter().chain(&self.text_rows).enumerate();
            running
                .extend(rows.filter(|(place, row)| is_kept(row) && !places.contains(*place)).map(|(place, _)| place));
        });
        let (mut freed, mut held) = (places.clone(), Places::none_of(self.len()));
        for group in groups.iter().filter(|group| group.iter().any(|place| places.contains(*place))) {
            let waits = group.iter().any(|place| running.contains(*place));
            let all = if waits { &mut held } else { &mut freed };
            all.extend(group.iter().copied());
        }
        let mut left = Places::none_of(self.len());
        left.extend(freed.iter().filter(|place| !held.contains(*place)));
        left
    }

    fn find_copies(&self) -> Vec<Vec<usize>> {
        let mut places: HashMap<(Key, Option<&[u8]>), Vec<usize>> = HashMap::with_capacity(self.len());
        for (place, key) in self.keys.each().enumerate() {
            places.entry(key).or_default().push(place);
        }
        places.into_values().filter(|places| places.len() > 1).collect()
    }

    /// The places of some rows among the keys, each of which must be claimed.
    fn places_of(&self, rows: &[u32]) -> Result<Places> {
        let rows_end = rows.iter().max().map_or(0, |last| *last as usize + 1);
        let mut wanted = Places::none_of(rows_end);
        let different = rows.iter().filter(|row| wanted.insert(**row as usize)).count();
        let mut places = Places::none_of(self.len());
        let claimed = self.uuid_rows.iter().chain(&self.text_rows).enumerate();
        let found = claimed.filter(|(place, row)| wanted.contains(**row as usize) && places.insert(*place)).count();
        if found == different {
            return Ok(places);
        }
        let is_claimed =
            |row: &u32| self.uuid_rows.binary_search(row).is_ok() || self.text_rows.binary_search(row).is_ok();
        let stranger = wanted.iter().map(|row| row as u32).find(|row| !is_claimed(row));
        Err(Error::State(format!(
            "row {} is not among the {} documents of this claim",
            stranger.unwrap_or(0),
            self.len()
        )))
    }

    /// The keys at some places.
    fn keys_at(&self, places: &Places) -> FrameKeys {
        let (mut keys, uuids) = (FrameKeys::default(), self.keys.uuids.len());
        keys.uuids = places.iter().take_while(|place| *place < uuids).map(|place| self.keys.uuids[place]).collect();
        let mut start = 0;
        for (place, (key, length)) in (uuids..).zip(self.keys.texts.iter().zip(&self.keys.lengths)) {
            let end = start + usize::from(*length);
            if places.contains(place) {
                keys.push_text(*key, &self.keys.heap[start..end]);
            }
            start = end;
        }
        keys
    }
}

impl History {
    /// Complete keys by themselves, whichever claim began them. Durable on return.
    pub fn complete_keys(&self, trigger: &Trigger, keys: &Documents, now_us: i64) -> Result<Finished> {
        self.finish_keys(trigger, keys, End::Completed, now_us)
    }

    /// Remove `processing` from keys, whichever claim began them. Durable on return.
    pub fn release_keys(&self, trigger: &Trigger, keys: &Documents, now_us: i64) -> Result<Finished> {
        self.finish_keys(trigger, keys, End::Released, now_us)
    }

    fn finish_keys(&self, trigger: &Trigger, documents: &Documents, end: End, now_us: i64) -> Result<Finished> {
        trigger.validate()?;
        let batch = IdBatch::identify(self.codec(), documents)?;
        let space = self.space(&trigger.name)?;
        space.write_together(SpaceSettings::of(trigger), |writer| {
            batch.wanted(documents, |wanted| writer.finish_keys(wanted, end, now_us, expired(trigger, now_us)))
        })
    }
}
