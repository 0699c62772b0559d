//! Identifying and looking up, chunk by chunk: a chunk's keys never leave the cache.

use std::cell::Cell;

use super::identities::{Identities, Part, class_of};
use crate::Result;
use crate::columns::Documents;
use crate::key::write_tags;
use crate::key::{Codec, Form, Key, identify};
use crate::segment::Wanted;
use crate::store::LookedUp;
use crate::store::batch::{check_text, text_of};
use crate::store::view::View;
use crate::sys::scratch;
use crate::sys::threads::together;
use crate::types::HistoryState;

/// Rows of a chunk: their keys fit the first cache.
const CHUNK: usize = 1024;

thread_local! {
    static KEYS: Cell<Vec<Key>> = const { Cell::new(Vec::new()) };
    static FORMS: Cell<Vec<Form>> = const { Cell::new(Vec::new()) };
}

/// The parameters of a look-up, beside the batch.
#[derive(Clone, Copy)]
pub(super) struct Look<'a, 'd> {
    pub(super) codec: &'a Codec,
    pub(super) documents: &'a Documents<'d>,
    /// Entries that began at or before this time do not count.
    pub(super) expired: i64,
    pub(super) threads: usize,
}

impl Look<'_, '_> {
    /// Identify the batch and look it up in `view`, or in an empty history.
    pub(super) fn run(&self, identities: &mut Identities, view: Option<&View>) -> Result<LookedUp> {
        let mut found = LookedUp { states: vec![HistoryState::Absent; identities.rows()], ..LookedUp::default() };
        let mut states = &mut found.states[..];
        let jobs = identities.parts(self.threads).into_iter().map(|part| {
            let own;
            (own, states) = std::mem::take(&mut states).split_at_mut(part.rows.len());
            move || self.part(part, view, own)
        });
        for looked_up in together(jobs)? {
            found.add(looked_up);
        }
        Ok(found)
    }

    fn part(&self, part: Part, view: Option<&View>, states: &mut [HistoryState]) -> Result<LookedUp> {
        let Part { rows, classes, sources, tags, keys: kept, forms: kept_forms } = part;
        let mut look_up = view.map(|view| view.decide(states, self.expired));
        let mut passing = scratch::taken(&KEYS, CHUNK, Key::default());
        let mut passing_forms = scratch::taken(&FORMS, CHUNK, Form::Absent);
        for start in (0..rows.len()).step_by(CHUNK) {
            let end = (start + CHUNK).min(rows.len());
            let keys = if kept.is_empty() { &mut passing[..end - start] } else { &mut kept[start..end] };
            let forms =
                if kept_forms.is_empty() { &mut passing_forms[..end - start] } else { &mut kept_forms[start..end] };
            let range = rows.start + start..rows.start + end;
            identify(self.codec, &self.documents.ids, range, keys, forms, &mut sources[start..end]);
            check_text(self.documents, rows.start + start, forms, &sources[start..end])?;
            write_tags(keys, forms, &mut tags[start..end]);
            classes[start..end].iter_mut().zip(&*forms).for_each(|(class, form)| *class = class_of(*form));
            let Some(look_up) = &mut look_up else { continue };
            let text = |row: u32| text_of(self.documents, sources[row as usize], rows.start + row as usize);
            look_up.see(&Wanted { keys, forms, text: &|place| text(start as u32 + place) }, start as u32)?;
            if look_up.is_full() {
                look_up.confirm(&text)?;
            }
        }
        scratch::keep(&KEYS, passing);
        scratch::keep(&FORMS, passing_forms);
        let Some(look_up) = look_up else { return Ok(LookedUp::default()) };
        let text = |row: u32| text_of(self.documents, sources[row as usize], rows.start + row as usize);
        let mut found = look_up.finish(&text)?;
        found.processing.iter_mut().for_each(|entry| entry.row += rows.start as u32);
        found.released.iter_mut().for_each(|(row, _)| *row += rows.start as u32);
        Ok(found)
    }
}
