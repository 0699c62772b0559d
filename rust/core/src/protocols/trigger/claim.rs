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

/// Of a claim with as many times the rows, some rows are looked for one by one.
const FEW: usize = 64;

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
    /// What its numbered batch leaves out.
    pub(super) left: FrameKeys,
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
            Ending { space: &self.space, number, started_at, application, is_part, left: &self.left, end },
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

    /// What is released with these places, of which some may be copies.
    fn freed(&self, places: &Places) -> Places {
        let groups = self.copies.get_or_init(|| self.find_copies());
        self.ends.kept(|is_kept| freed(places, groups, |place| is_kept(&self.row_of(place))))
    }

    /// The place of a row among the keys.
    fn place_of(&self, row: u32) -> Option<usize> {
        let of_text = |_| self.text_rows.binary_search(&row).map(|place| self.uuid_rows.len() + place);
        self.uuid_rows.binary_search(&row).or_else(of_text).ok()
    }

    /// The row that a key is of.
    fn row_of(&self, place: usize) -> u32 {
        let of_text = || self.text_rows[place - self.uuid_rows.len()];
        self.uuid_rows.get(place).copied().unwrap_or_else(of_text)
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
        if rows.len() < self.len() / FEW {
            let places: Option<Vec<usize>> = rows.iter().map(|row| self.place_of(*row)).collect();
            if let Some(places) = places {
                let mut found = Places::none_of(self.len());
                found.extend(places.into_iter());
                return Ok(found);
            }
        }
        let rows_end = rows.iter().max().map_or(0, |last| *last as usize + 1);
        let mut wanted = Places::none_of(rows_end);
        let different = rows.iter().filter(|row| wanted.insert(**row as usize)).count();
        let mut places = Places::none_of(self.len());
        let claimed = self.uuid_rows.iter().chain(&self.text_rows).enumerate();
        let found = claimed.filter(|(place, row)| wanted.contains(**row as usize) && places.insert(*place)).count();
        if found == different {
            return Ok(places);
        }
        let stranger = wanted.iter().map(|row| row as u32).find(|row| self.place_of(*row).is_none());
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
        let (texts, mut start) = (self.keys.texts.len(), 0);
        let named = places.iter().count() - keys.uuids.len();
        keys.reserve_texts(named, self.keys.heap.len() * named / texts.max(1));
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

/// What is released with these places: of a key that several rows began nothing, as long as one of
/// them is kept, and all of its places with the last one. `groups` are the places of such keys.
fn freed(places: &Places, groups: &[Vec<usize>], is_kept: impl Fn(usize) -> bool) -> Places {
    let mut freed = places.clone();
    for group in groups.iter().filter(|group| group.iter().any(|place| places.contains(*place))) {
        if group.iter().any(|place| !places.contains(*place) && is_kept(*place)) {
            for place in group {
                freed.remove(*place);
            }
        } else {
            freed.extend(group.iter().copied());
        }
    }
    freed
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_release_looks_at_the_copies_of_its_rows_alone() {
        let (groups, count) = ([vec![2, 7], vec![3, 8, 90_000]], 100_000);
        let of = |released: &[usize], before: &[usize]| {
            let mut places = Places::none_of(count);
            places.extend(released.iter().copied());
            let asked = RefCell::new(Vec::new());
            let is_kept = |place: usize| {
                asked.borrow_mut().push(place);
                !before.contains(&place)
            };
            let freed = freed(&places, &groups, is_kept).iter().collect::<Vec<_>>();
            (freed, asked.into_inner())
        };
        assert_eq!(of(&[1, 50_000], &[]), (vec![1, 50_000], vec![]));
        assert_eq!(of(&[1, 2], &[]), (vec![1], vec![7]));
        assert_eq!(of(&[7], &[2]), (vec![2, 7], vec![2]));
        assert_eq!(of(&[3, 90_000], &[]), (vec![], vec![8]));
        assert_eq!(of(&[2, 7, 8], &[3, 90_000]), (vec![2, 3, 7, 8, 90_000], vec![3, 90_000]));
    }
}
