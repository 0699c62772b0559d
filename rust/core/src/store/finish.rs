//! Ending claims: a whole claim, some of its rows, or keys of any claim.

use super::{InProgress, LookedUp};
use crate::Result;
use crate::key::Key;
use crate::segment::Wanted;
use crate::segment::values::run::ValueRun;
use crate::store::Writer;
use crate::store::limits;
use crate::types::Ending;
use crate::types::FrameKeys;
use crate::types::HistoryState;
use crate::types::Places;
use crate::wal::FrameForms;
use crate::wal::frame::{Frame, FrameKind};

/// What a frame takes for a key and its claim, in words of 8 bytes.
const WORDS_OF_KEY: usize = 4;

/// How many of the given keys were ended, and how many could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Keys whose state changed.
    pub changed: u64,
    /// Keys that were in this state already.
    pub already: u64,
    /// Keys that the history has no begun entry for.
    pub unknown: u64,
}

impl Writer<'_> {
    /// End a whole claim, unless it ended the same way before; and end some of its keys by
    /// themselves.
    pub(crate) fn finish_claim(&mut self, claim: u64, started_at: i64, outcome: Ending, keys: FrameKeys) -> Result<()> {
        let kind = match outcome {
            Ending::Completed => FrameKind::CompleteClaim,
            Ending::Released => FrameKind::ReleaseClaim,
        };
        let known = self.space.present().as_ref().and_then(|view| view.memtable.outcome(claim));
        if known == Some(outcome) || known == Some(Ending::Completed) {
            return Ok(());
        }
        self.end(kind, claim, started_at, keys)
    }

    /// End some keys of one claim, by their places where the log has begun the claim; else `keys`
    /// names them.
    pub(crate) fn finish_places(
        &mut self,
        (claim, started_at): (u64, i64),
        outcome: Ending,
        places: Places,
        keys: impl FnOnce() -> FrameKeys,
    ) -> Result<()> {
        if places.count() < limits::fewest_places() {
            return self.finish_rows(claim, started_at, outcome, keys());
        }
        let state = self
            .space
            .present()
            .as_ref()
            .map(|view| (view.log.frames.places, view.memtable.has_begun((claim, started_at), places.count())));
        match state {
            Some((true, true)) => self.finish_rows(claim, started_at, outcome, FrameKeys::of_places(places)),
            // From the next log on.
            Some((false, _)) => {
                self.seal_for(FrameForms { rows: false, places: true })?;
                self.finish_rows(claim, started_at, outcome, keys())
            }
            _ => self.finish_rows(claim, started_at, outcome, keys()),
        }
    }

    /// End some keys of one claim.
    pub(crate) fn finish_rows(&mut self, claim: u64, started_at: i64, outcome: Ending, keys: FrameKeys) -> Result<()> {
        // An ended key stays ended: a release that comes after the completion of its claim changes
        // nothing.
        let is_completed =
            || self.space.present().as_ref().and_then(|view| view.memtable.outcome(claim)) == Some(Ending::Completed);
        if keys.names_none() || outcome == Ending::Released && is_completed() {
            return Ok(());
        }
        let kind = kind_for_keys(outcome);
        self.end(kind, claim, started_at, keys)
    }

    /// End keys, whichever claim began them. An unknown key is recorded as completed now; releasing
    /// it does nothing. A completion that began at or before `expired` no longer counts, so it is
    /// recorded again.
    pub(crate) fn finish_keys(
        &mut self,
        wanted: &Wanted,
        outcome: Ending,
        now_us: i64,
        expired: i64,
    ) -> Result<Finished> {
        if let Some((claim, places)) = self.fresh_places_of(wanted) {
            self.finish_places(claim, outcome, places, || {
                let mut keys = ClaimedKeys::default();
                (0..wanted.keys.len()).for_each(|row| keys.push_row(wanted, row, claim));
                keys.join()
            })?;
            return Ok(Finished { changed: wanted.keys.len() as u64, ..Finished::default() });
        }
        let found = self.look_up_to_end(wanted, expired)?;
        let (finished, unknown) = count(wanted, &found.states, outcome);
        if unknown.is_empty()
            && let Some((claim, places)) = self.places_of(wanted, &found.processing)
        {
            self.finish_rows(claim.0, claim.1, outcome, FrameKeys::of_places(places))?;
            return Ok(finished);
        }
        let mut keys = ClaimedKeys::default();
        for entry in &found.processing {
            keys.push_row(wanted, entry.row as usize, (entry.claim, entry.started_at));
        }
        for row in unknown {
            keys.push_row(wanted, row, (0, now_us));
        }
        self.end_keys(kind_for_keys(outcome), keys, now_us)?;
        Ok(finished)
    }

    /// What the history holds of keys that are to be ended. A completion that began at or before
    /// `expired` no longer counts, but every entry in progress does.
    fn look_up_to_end(&self, wanted: &Wanted, expired: i64) -> Result<LookedUp> {
        self.space.index_pending();
        let mut found = self.look(|view| match view {
            Some(view) => view.lookup(wanted, i64::MIN),
            None => Ok(LookedUp::none(wanted.keys.len())),
        })?;
        if expired > i64::MIN && found.states.contains(&HistoryState::Completed) {
            self.forget_expired(wanted, expired, &mut found)?;
        }
        Ok(found)
    }

    /// The claim that this handle has just begun, and the places of these keys in it. Nobody had
    /// begun any of its keys, so there is nothing to look up.
    fn fresh_places_of(&self, wanted: &Wanted) -> Option<((u64, i64), Places)> {
        let (claim, places) = self.space.present().as_ref()?.memtable.last_begun(wanted)?;
        (self.is_fresh(claim) && is_smaller(&places, wanted.keys.len())).then_some((claim, places))
    }

    /// The one claim that began these rows, and their places in it, where that takes fewer bytes
    /// than their keys.
    fn places_of(&self, wanted: &Wanted, rows: &[InProgress]) -> Option<((u64, i64), Places)> {
        let first = rows.first()?;
        let claim = (first.claim, first.started_at);
        if rows.iter().any(|row| (row.claim, row.started_at) != claim) {
            return None;
        }
        let view = self.space.present();
        let view = view.as_ref().filter(|view| view.log.frames.places)?;
        let places = view.memtable.places_of(claim, wanted, rows.iter().map(|row| row.row as usize))?;
        is_smaller(&places, rows.len()).then_some((claim, places))
    }

    /// Complete keys in progress, each of its own claim.
    pub(crate) fn complete_keys(&mut self, keys: ClaimedKeys, now_us: i64) -> Result<()> {
        self.end_keys(FrameKind::CompleteKeys, keys, now_us)
    }

    /// Release keys in progress, each of its own claim.
    pub(crate) fn release_keys(&mut self, keys: ClaimedKeys, now_us: i64) -> Result<()> {
        self.end_keys(FrameKind::ReleaseKeys, keys, now_us)
    }

    fn end_keys(&mut self, kind: FrameKind, keys: ClaimedKeys, now_us: i64) -> Result<()> {
        let keys = keys.join();
        if keys.len() == 0 {
            return Ok(());
        }
        self.end(kind, 0, now_us, keys)
    }

    /// Give keys that are completed only by an expired entry the state that they would have without
    /// that entry.
    fn forget_expired(&self, wanted: &Wanted, expired: i64, found: &mut LookedUp) -> Result<()> {
        let counting = self.look(|view| match view {
            Some(view) => view.lookup(wanted, expired),
            None => Ok(LookedUp::none(wanted.keys.len())),
        })?;
        for (state, counts) in found.states.iter_mut().zip(counting.states) {
            if *state == HistoryState::Completed {
                *state = counts;
            }
        }
        Ok(())
    }

    /// Append a frame that ends a claim or keys.
    fn end(&mut self, kind: FrameKind, claim: u64, started_at: i64, keys: FrameKeys) -> Result<()> {
        let (replaces, transaction, values) = (None, None, ValueRun::default());
        let frame =
            |sequence| Frame { kind, sequence, claim, started_at, replaces, durable: 0, transaction, keys, values };
        self.append(frame).map(drop)
    }
}

/// How many keys an end changes; and the rows of unknown keys that it records.
fn count(wanted: &Wanted, states: &[HistoryState], outcome: Ending) -> (Finished, Vec<usize>) {
    let (mut finished, mut unknown) = (Finished::default(), Vec::new());
    for (row, state) in states.iter().enumerate().filter(|(row, _)| wanted.forms[*row].is_usable()) {
        match (state, outcome) {
            (HistoryState::Processing, _) => finished.changed += 1,
            (HistoryState::Completed, Ending::Completed) => finished.already += 1,
            (_, Ending::Completed) => {
                finished.unknown += 1;
                unknown.push(row);
            }
            (_, Ending::Released) => finished.unknown += 1,
        }
    }
    (finished, unknown)
}

/// Whether places take fewer bytes than this number of keys.
fn is_smaller(places: &Places, keys: usize) -> bool {
    places.words().len() <= keys * WORDS_OF_KEY && places.count() >= limits::fewest_places()
}

fn kind_for_keys(outcome: Ending) -> FrameKind {
    match outcome {
        Ending::Completed => FrameKind::CompleteKeys,
        Ending::Released => FrameKind::ReleaseKeys,
    }
}

/// Keys with a claim each, with UUIDs and texts apart.
#[derive(Debug, Default)]
pub(crate) struct ClaimedKeys {
    keys: FrameKeys,
    of_uuids: Vec<(u64, i64)>,
    of_texts: Vec<(u64, i64)>,
}

impl ClaimedKeys {
    /// Add a key with its text, if it is one, and the claim that began it with its start.
    pub(crate) fn push(&mut self, key: Key, text: Option<&[u8]>, claim: (u64, i64)) {
        if let Some(text) = text {
            self.keys.push_text(key, text);
            self.of_texts.push(claim);
        } else {
            self.keys.uuids.push(key);
            self.of_uuids.push(claim);
        }
    }

    fn push_row(&mut self, wanted: &Wanted, row: usize, claim: (u64, i64)) {
        self.push(wanted.keys[row], wanted.text_of(row), claim);
    }

    fn join(mut self) -> FrameKeys {
        self.of_uuids.append(&mut self.of_texts);
        self.keys.claims = Some(self.of_uuids);
        self.keys
    }
}
