//! The ids of a batch in a few bytes a row. Keys are derived again for the few rows that need them
//! later.

use std::cell::Cell;
use std::ops::Range;

use super::rules::KeyClass;
use crate::Result;
use crate::columns::Documents;
use crate::key::{Candidates, Copy, NO_TAG, Seen, Suspected, Tag, alike, copies_among};
use crate::key::{Codec, Form, Key, NO_SOURCE, identify};
use crate::store::batch::{check_lengths, text_of};
use crate::sys::scratch;
use crate::sys::threads::{parts_of, together};
use crate::types::transaction::BatchRows;

/// Rows between two wanted ones that are identified along with them rather than skipped.
const GAP: u32 = 4;

/// Rows whose keys are derived in one pass.
const TOGETHER: usize = 256;

thread_local! {
    static TAGS: Cell<Vec<Tag>> = const { Cell::new(Vec::new()) };
}

/// The ids of a batch, after identification.
#[derive(Debug)]
pub(super) struct Identities {
    pub(super) classes: Vec<KeyClass>,
    /// Which id column each row's key comes from.
    pub(super) sources: Vec<u8>,
    /// The tags that are needed to find copies.
    pub(super) tags: Vec<Tag>,
    /// The keys, where nearly all will be needed again; else empty.
    pub(super) keys: Vec<Key>,
    /// The forms; as many as keys.
    pub(super) forms: Vec<Form>,
}

/// Some rows of a batch, for one thread.
pub(super) struct Part<'a> {
    pub(super) rows: Range<usize>,
    pub(super) classes: &'a mut [KeyClass],
    pub(super) sources: &'a mut [u8],
    pub(super) tags: &'a mut [Tag],
    /// As many as rows, or none.
    pub(super) keys: &'a mut [Key],
    pub(super) forms: &'a mut [Form],
}

impl Identities {
    /// Buffers for the ids of a batch. Checks that its columns have one length, and that all rows
    /// can be read.
    pub(super) fn new(documents: &Documents) -> Result<Self> {
        check_lengths(documents)?;
        documents.check()?;
        let rows = documents.rows;
        let tags = scratch::cleared(&TAGS, rows, NO_TAG);
        let (classes, sources) = (vec![KeyClass::Absent; rows], vec![NO_SOURCE; rows]);
        Ok(Self { classes, sources, tags, keys: Vec::new(), forms: Vec::new() })
    }

    /// [`Identities::new`] with room for the keys, for callers that will write them.
    pub(super) fn with_keys(documents: &Documents) -> Result<Self> {
        let mut identities = Self::new(documents)?;
        identities.keys = vec![Key::default(); documents.rows];
        identities.forms = vec![Form::Absent; documents.rows];
        Ok(identities)
    }

    pub(super) fn rows(&self) -> usize {
        self.classes.len()
    }

    /// All of them as parts of rows, one for each thread.
    pub(super) fn parts(&mut self, threads: usize) -> Vec<Part<'_>> {
        let (mut classes, mut sources, mut tags) = (&mut self.classes[..], &mut self.sources[..], &mut self.tags[..]);
        let (mut keys, mut forms) = (&mut self.keys[..], &mut self.forms[..]);
        let mut parts = Vec::new();
        for rows in parts_of(classes.len(), threads) {
            let (class_part, source_part, tag_part, key_part, form_part);
            (class_part, classes) = classes.split_at_mut(rows.len());
            (source_part, sources) = sources.split_at_mut(rows.len());
            (tag_part, tags) = tags.split_at_mut(rows.len());
            (key_part, keys) = keys.split_at_mut(rows.len().min(keys.len()));
            (form_part, forms) = forms.split_at_mut(rows.len().min(forms.len()));
            parts.push(Part {
                rows,
                classes: class_part,
                sources: source_part,
                tags: tag_part,
                keys: key_part,
                forms: form_part,
            });
        }
        parts
    }

    /// The text of a row's key; empty for rows without one.
    pub(super) fn text<'a>(&self, documents: &Documents<'a>, row: u32) -> &'a [u8] {
        text_of(documents, self.sources[row as usize], row as usize)
    }

    /// A fingerprint of the ids of all rows; only where there are keys.
    pub(super) fn batch_rows(&self, codec: &Codec, documents: &Documents) -> BatchRows {
        let mut rows = BatchRows::default();
        for ((row, form), key) in (0..).zip(&self.forms).zip(&self.keys) {
            match form {
                Form::Uuid => rows.push(*form, *key),
                _ => rows.push_text(codec, *form, *key, self.text(documents, row)),
            }
        }
        rows
    }

    /// The rows that may be copies, found by one thread for each part of the rows.
    fn suspects(&self, parts: &[Range<usize>]) -> Result<Vec<u32>> {
        let seen =
            together(parts.iter().map(|rows| move || Ok(Seen::new(&self.tags[rows.clone()], rows.start as u32))))?;
        let mut suspects: Vec<_> = seen.iter().flat_map(|part| &part.suspects).copied().collect();
        // The keys of a part that occur in earlier parts: all threads search each part.
        for (part, rows) in parts.iter().enumerate().skip(1) {
            let earlier = &seen[..part];
            let look = |rows: Range<usize>| {
                move || {
                    Ok(earlier
                        .iter()
                        .flat_map(|seen| seen.again(&self.tags[rows.clone()], rows.start as u32))
                        .collect())
                }
            };
            let size = rows.len().div_ceil(parts.len()).max(1);
            let shares = rows.clone().step_by(size).map(|start| start..(start + size).min(rows.end));
            suspects.extend(together(shares.map(look))?.into_iter().flat_map(|found: Vec<u32>| found));
        }
        Ok(suspects)
    }

    /// The later rows of each key.
    pub(super) fn copies(&self, codec: &Codec, documents: &Documents, threads: usize) -> Result<Vec<Copy>> {
        let parts = parts_of(self.rows(), threads);
        let suspects = self.suspects(&parts)?;
        if suspects.is_empty() {
            return Ok(Vec::new());
        }
        let suspected = &Suspected::new(&self.tags, &suspects);
        let meet = |rows: Range<usize>| move || Ok(suspected.rows(&self.tags[rows.clone()], rows.start as u32));
        let rows = alike(&self.tags, together(parts.into_iter().map(meet))?.concat());
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let (mut keys, mut forms) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        each_key(codec, documents, &rows, |key, form| {
            keys.push(key);
            forms.push(form);
        });
        let text = |row: u32| self.text(documents, row);
        let candidates = Candidates { rows: &rows, keys: &keys, forms: &forms };
        Ok(copies_among(&candidates, &|a, b| text(a) == text(b)))
    }
}

impl Drop for Identities {
    fn drop(&mut self) {
        scratch::keep(&TAGS, std::mem::take(&mut self.tags));
    }
}

/// The class of an id, as the rules need it.
#[inline]
pub(super) fn class_of(form: Form) -> KeyClass {
    match form {
        Form::Absent => KeyClass::Absent,
        Form::TooLong => KeyClass::TooLong,
        Form::Uuid | Form::Text => KeyClass::Usable,
    }
}

/// Derive the keys of some rows, given in rising order.
fn each_key(codec: &Codec, documents: &Documents, rows: &[u32], mut each: impl FnMut(Key, Form)) {
    const ROOM: usize = TOGETHER * GAP as usize;
    let (mut keys, mut forms, mut sources) = ([Key::default(); ROOM], [Form::Absent; ROOM], [NO_SOURCE; ROOM]);
    for rows in rows.chunks(TOGETHER).flat_map(|rows| rows.chunk_by(|a, b| b - a <= GAP)) {
        let (first, count) = (rows[0], (rows[rows.len() - 1] - rows[0]) as usize + 1);
        let range = first as usize..first as usize + count;
        let (keys, forms, sources) = (&mut keys[..count], &mut forms[..count], &mut sources[..count]);
        identify(codec, &documents.ids, range, keys, forms, sources);
        for row in rows {
            let at = (row - first) as usize;
            each(keys[at], forms[at]);
        }
    }
}
