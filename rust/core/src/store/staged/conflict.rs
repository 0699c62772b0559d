//! Detects documents that others were first with: compares what was staged against a pinned state
//! with what was added since.

use std::collections::HashSet;
use std::sync::Arc;

use super::Job;
use crate::Result;
use crate::key::{Form, Key};
use crate::segment::format::Part;
use crate::segment::merge::KeyCursor;
use crate::segment::{Segment, Wanted};
use crate::store::Writer;
use crate::store::view::View;
use crate::store::{KeySpace, LookedUp};
use crate::types::HistoryState;

/// Keys compared in one chunk.
const CHUNK: usize = 4096;

/// Keys with their texts.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    keys: Vec<Key>,
    forms: Vec<Form>,
    /// End of each text in the heap; of a UUID, that of the text before it.
    ends: Vec<usize>,
    heap: Vec<u8>,
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn push(&mut self, key: Key, text: Option<&[u8]>) {
        self.keys.push(key);
        self.forms.push(if text.is_some() { Form::Text } else { Form::Uuid });
        self.heap.extend_from_slice(text.unwrap_or_default());
        self.ends.push(self.heap.len());
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (Key, Option<&[u8]>)> {
        self.keys.iter().enumerate().map(|(row, key)| (*key, self.text_of(row as u32)))
    }

    /// The text of a key that has one.
    fn text_of(&self, row: u32) -> Option<&[u8]> {
        (self.forms[row as usize] == Form::Text).then(|| self.text(row))
    }

    fn text(&self, row: u32) -> &[u8] {
        let row = row as usize;
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.heap[start..self.ends[row]]
    }

    pub(crate) fn wanted<T>(&self, work: impl FnOnce(&Wanted) -> T) -> T {
        let text = |row: u32| self.text(row);
        work(&Wanted { keys: &self.keys, forms: &self.forms, text: &text })
    }

    fn take_over(&mut self, other: &Self, rows: &[u32]) {
        for row in rows {
            self.push(other.keys[*row as usize], other.text_of(*row));
        }
    }
}

/// Hand all keys of a segment to `take`, a chunk at a time.
pub(crate) fn each_chunk(segment: &Arc<Segment>, mut take: impl FnMut(Keys) -> Result<()>) -> Result<()> {
    let mut scratch = Vec::new();
    for (mut cursor, part) in KeyCursor::both(segment).into_iter().zip([Part::UuidKeys, Part::TextKeys]) {
        loop {
            let mut keys = Keys::default();
            while keys.len() < CHUNK
                && let Some(key) = cursor.peek()?
            {
                let text = match part {
                    Part::UuidKeys => None,
                    _ => Some(segment.text_at(cursor.place(), &mut scratch)?),
                };
                keys.push(key, text);
                cursor.advance();
            }
            if keys.len() == 0 {
                break;
            }
            take(keys)?;
        }
    }
    Ok(())
}

/// The rows of `keys` that a segment holds.
pub(crate) fn held_by(segment: &Segment, keys: &Keys) -> Result<Vec<u32>> {
    keys.wanted(|wanted| {
        let (mut survivors, mut held) = (Vec::new(), Vec::new());
        segment.may_contain(wanted, 0, &mut survivors)?;
        segment.find(wanted, &survivors, &mut |row, _| held.push(row))?;
        held.dedup();
        Ok(held)
    })
}

impl KeySpace {
    /// The keys that this job may no longer begin: others completed them, or others claim them that
    /// did not at the pin. A key that was in progress then and still is was decided with that
    /// knowledge; a key without an entry now is new.
    fn lost_of(&self, job: &Job, expired: i64, view: &View, met: &Keys) -> Result<Keys> {
        let mut lost = Keys::default();
        if met.len() == 0 {
            return Ok(lost);
        }
        let now = met.wanted(|wanted| view.lookup(wanted, expired))?;
        let then = self.at_the_pin(job, expired, met)?;
        let is_lost = |row: usize| match now.states[row] {
            HistoryState::Absent => false,
            HistoryState::Processing => !claims(&now, row).eq(claims(&then, row)),
            HistoryState::Completed | HistoryState::Unavailable => true,
        };
        let mut seen = HashSet::new();
        for row in (0..met.len()).filter(|row| is_lost(*row)) {
            let text = met.text_of(row as u32);
            if seen.insert((met.keys[row], text)) {
                lost.push(met.keys[row], text);
            }
        }
        Ok(lost)
    }

    pub(super) fn at_the_pin(&self, job: &Job, expired: i64, met: &Keys) -> Result<LookedUp> {
        let pinned = View::open_pinned(&self.env, &self.directory_of_pin(&job.pin)?, &job.pin)?;
        met.wanted(|wanted| pinned.lookup(wanted, expired))
    }
}

impl Writer<'_> {
    /// The staged keys that others were first with, each once. `contested` segments hold keys that
    /// were known at the pin, whose state is looked up again. Of other segments only keys with an
    /// entry added since are looked up. Entries that began at or before `expired` no longer count,
    /// as when the keys were staged.
    pub(crate) fn lost(
        &self,
        job: &Job,
        expired: i64,
        staged: &[Arc<Segment>],
        contested: &[Arc<Segment>],
    ) -> Result<Keys> {
        let view = self.space.present();
        let Some(view) = view.as_ref() else { return Ok(Keys::default()) };
        let directory = self.space.directory_of_pin(&job.pin)?;
        let pinned = crate::store::files::read_manifest(&self.space.env, &directory.join(&job.pin))?;
        let is_added = |segment: &&Arc<Segment>| !pinned.segments.iter().any(|old| old.id == segment.header().id);
        let added: Vec<Arc<Segment>> = view.segments.iter().filter(is_added).cloned().collect();
        let mut met = Keys::default();
        for segment in contested {
            each_chunk(segment, |keys| {
                met.take_over(&keys, &(0..keys.len() as u32).collect::<Vec<_>>());
                Ok(())
            })?;
        }
        Met { view, staged, added: &added, met: &mut met }.find()?;
        self.space.lost_of(job, expired, view, &met)
    }
}

/// The open claims of a row, which are adjacent.
pub(super) fn claims(found: &LookedUp, row: usize) -> impl Iterator<Item = u64> {
    let first = found.processing.partition_point(|entry| (entry.row as usize) < row);
    found.processing[first..].iter().take_while(move |entry| entry.row as usize == row).map(|entry| entry.claim)
}

/// The keys that are both staged and added.
struct Met<'a> {
    view: &'a View,
    staged: &'a [Arc<Segment>],
    added: &'a [Arc<Segment>],
    met: &'a mut Keys,
}

impl Met<'_> {
    /// Look the smaller side up in the larger one.
    fn find(&mut self) -> Result<()> {
        let entries = |segments: &[Arc<Segment>]| segments.iter().map(|one| one.header().entries()).sum::<u64>();
        let (added, staged) = (entries(self.added) + self.view.entries_in_memory() as u64, entries(self.staged));
        if added == 0 || staged == 0 {
            return Ok(());
        }
        let by_added = added.saturating_mul(self.staged.len() as u64);
        let by_staged = staged.saturating_mul(self.added.len() as u64 + 1);
        if by_added < by_staged { self.look_up_added() } else { self.look_up_staged() }
    }

    fn look_up_added(&mut self) -> Result<()> {
        let mut of_log = Keys::default();
        let frozen = self.view.frozen.iter().flat_map(|frozen| frozen.memtable.entries());
        self.view.memtable.entries().chain(frozen).for_each(|(key, text, _)| of_log.push(key, text));
        let (staged, met) = (self.staged, &mut *self.met);
        let mut look = |keys: Keys| {
            for segment in staged {
                met.take_over(&keys, &held_by(segment, &keys)?);
            }
            Ok(())
        };
        look(of_log)?;
        self.added.iter().try_for_each(|segment| each_chunk(segment, &mut look))
    }

    fn look_up_staged(&mut self) -> Result<()> {
        let (view, added, met) = (self.view, self.added, &mut *self.met);
        let mut look = |keys: Keys| {
            let mut rows = Vec::new();
            keys.wanted(|wanted| view.find_in_memory(wanted, &mut |row, _, _| rows.push(row)));
            for segment in added {
                rows.extend(held_by(segment, &keys)?);
            }
            rows.sort_unstable();
            rows.dedup();
            met.take_over(&keys, &rows);
            Ok(())
        };
        self.staged.iter().try_for_each(|segment| each_chunk(segment, &mut look))
    }
}
