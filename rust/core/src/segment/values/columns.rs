//! The ids of a batch and their entries in a space, as columns.

use std::borrow::Cow;

use crate::columns::{IdCell as Cell, IdColumn, Validity};
use crate::key::{Codec, Form, Key, format_uuid, identify, parse_uuid};
use crate::segment::Wanted;
use crate::segment::values::run::{MOST_ID_BYTES, NULL, PENDING};
use crate::types::transaction::BatchRows;

/// One id: a key, and its text unless it is a UUID.
#[derive(Clone, Copy, Debug)]
pub struct Id<'a> {
    pub(crate) key: Key,
    pub(crate) text: &'a [u8],
    pub(crate) form: Form,
}

impl<'a> Id<'a> {
    /// The id that these bytes stand for; empty bytes are none.
    pub(crate) fn new(codec: &Codec, bytes: &'a [u8]) -> Self {
        if let Some(uuid) = parse_uuid(bytes) {
            return Self { key: codec.mix(uuid), text: &[], form: Form::Uuid };
        }
        match bytes.len() {
            0 => Self { key: Key::default(), text: &[], form: Form::Absent },
            1..=MOST_ID_BYTES => Self { key: codec.hash_text(bytes), text: bytes, form: Form::Text },
            _ => Self { key: Key::default(), text: &[], form: Form::TooLong },
        }
    }

    /// The part of all ids to which it belongs, of `stripes` equal ones.
    pub(crate) fn stripe(&self, stripes: u64) -> u64 {
        ((u128::from(self.key.hi) * u128::from(stripes)) >> 64) as u64
    }
}

/// The ids of a batch.
#[derive(Clone, Debug)]
pub struct Ids<'a> {
    column: &'a IdColumn<'a>,
    keys: Vec<Key>,
    forms: Vec<Form>,
}

impl<'a> Ids<'a> {
    /// Identify a column. There is no limit of 96 code points here: an id may have up to
    /// [`MOST_ID_BYTES`].
    pub(crate) fn new(codec: &Codec, column: &'a IdColumn<'a>) -> Self {
        let rows = column.len();
        let (mut keys, mut forms) = (vec![Key::default(); rows], vec![Form::Absent; rows]);
        let mut sources = vec![0; rows];
        identify(codec, std::slice::from_ref(column), 0..rows, &mut keys, &mut forms, &mut sources);
        for row in 0..rows {
            if forms[row] == Form::TooLong
                && let Cell::Text(text) = column.get(row)
            {
                let id = Id::new(codec, text);
                (keys[row], forms[row]) = (id.key, id.form);
            }
        }
        Self { column, keys, forms }
    }

    /// The ids of an empty batch.
    pub(crate) fn none() -> Self {
        static NONE: IdColumn = IdColumn::Uuid { values: &[], validity: Validity::all() };
        Self { column: &NONE, keys: Vec::new(), forms: Vec::new() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// What the id of a row is.
    pub fn form(&self, row: usize) -> Form {
        self.forms[row]
    }

    /// Whether a row has an id that can be looked up.
    pub fn is_usable(&self, row: usize) -> bool {
        self.forms[row].is_usable()
    }

    /// The id of a row.
    pub fn id(&self, row: usize) -> Id<'a> {
        Id { key: self.keys[row], text: self.text(row), form: self.forms[row] }
    }

    /// The id of a row as text; none where there is none.
    pub fn bytes(&self, row: usize) -> Option<Cow<'a, [u8]>> {
        match self.column.get(row) {
            Cell::Null => None,
            Cell::Text(text) => Some(Cow::Borrowed(text)),
            Cell::Uuid(uuid) => Some(Cow::Owned(format_uuid(*uuid).to_vec())),
        }
    }

    fn text(&self, row: usize) -> &'a [u8] {
        match (self.forms[row], self.column.get(row)) {
            (Form::Text, Cell::Text(text)) => text,
            _ => &[],
        }
    }

    /// A fingerprint of the ids of all rows.
    pub(crate) fn batch_rows(&self, codec: &Codec) -> BatchRows {
        let mut rows = BatchRows::default();
        for (row, (form, key)) in self.forms.iter().zip(&self.keys).enumerate() {
            match (form, self.column.get(row)) {
                (Form::Uuid | Form::Absent, _) => rows.push(*form, *key),
                (_, Cell::Text(text)) => rows.push_text(codec, *form, *key, text),
                _ => rows.push(*form, *key),
            }
        }
        rows
    }

    /// The first row with the same id, for each row; `none` for rows without one.
    pub fn first_copies(&self, none: u32) -> Vec<u32> {
        let mut seen = hashbrown::HashTable::<u32>::with_capacity(self.len());
        let same = |a: u32, b: u32| {
            self.keys[a as usize] == self.keys[b as usize] && self.text(a as usize) == self.text(b as usize)
        };
        let first_of = |row: usize| {
            let key = self.keys[row];
            if !self.is_usable(row) {
                return none;
            }
            let found = seen.entry(key.lo, |other| same(*other, row as u32), |other| self.keys[*other as usize].lo);
            *found.or_insert(row as u32).get()
        };
        (0..self.len()).map(first_of).collect()
    }

    /// Run `work` with the keys to look up.
    pub(crate) fn wanted<T>(&self, work: impl FnOnce(&Wanted) -> T) -> T {
        let text = |row: u32| self.text(row as usize);
        work(&Wanted { keys: &self.keys, forms: &self.forms, text: &text })
    }

    /// [`Ids::wanted`] for some rows only, in this order.
    pub(crate) fn wanted_at<T>(&self, rows: &[u32], work: impl FnOnce(&Wanted) -> T) -> T {
        let text = |place: u32| self.text(rows[place as usize] as usize);
        let keys: Vec<Key> = rows.iter().map(|row| self.keys[*row as usize]).collect();
        let forms: Vec<Form> = rows.iter().map(|row| self.forms[*row as usize]).collect();
        work(&Wanted { keys: &keys, forms: &forms, text: &text })
    }
}

/// The text of a row of a look-up; a UUID has none.
#[inline]
pub(crate) fn text_of<'a>(wanted: &Wanted<'a>, row: u32) -> &'a [u8] {
    if wanted.forms[row as usize] == Form::Text { (wanted.text)(row) } else { &[] }
}

/// Set where there is an entry.
const THERE: u8 = 1 << 7;

/// The entries of some ids in a space, as columns.
#[derive(Clone, Debug, Default)]
pub struct FoundValues {
    pub(crate) flags: Vec<u8>,
    pub(crate) untils: Vec<i64>,
    /// Where each value ends.
    pub(crate) ends: Vec<u64>,
    pub(crate) values: Vec<u8>,
}

impl FoundValues {
    /// No entry for any row.
    pub(crate) fn none(rows: usize) -> Self {
        Self { flags: vec![0; rows], untils: vec![0; rows], ends: vec![0; rows], values: Vec::new() }
    }

    pub(crate) fn with_capacity(rows: usize) -> Self {
        let (flags, untils, ends) = (Vec::with_capacity(rows), Vec::with_capacity(rows), Vec::with_capacity(rows));
        Self { flags, untils, ends, values: Vec::new() }
    }

    pub(crate) fn push(&mut self, flags: u8, until: i64, value: &[u8]) {
        self.flags.push(flags | THERE);
        self.untils.push(until);
        self.values.extend_from_slice(value);
        self.ends.push(self.values.len() as u64);
    }

    pub(crate) fn push_none(&mut self) {
        self.flags.push(0);
        self.untils.push(0);
        self.ends.push(self.values.len() as u64);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.flags.len()
    }

    /// Whether there is an entry.
    #[inline]
    pub fn is_there(&self, row: usize) -> bool {
        self.flags[row] & THERE != 0
    }

    /// The value of a row; none if there is no entry, or one without a value.
    #[inline]
    pub fn value(&self, row: usize) -> Option<&[u8]> {
        if self.flags[row] & (THERE | NULL) != THERE {
            return None;
        }
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        self.values.get(start as usize..self.ends[row] as usize)
    }

    /// Whether the entry is not purged by time alone.
    #[inline]
    pub fn is_pending(&self, row: usize) -> bool {
        self.flags[row] & (THERE | PENDING) == THERE | PENDING
    }

    /// Until when the entry is kept at least, in microseconds since 1970; 0 where there is none.
    #[inline]
    pub fn persist_until(&self, row: usize) -> i64 {
        self.untils[row]
    }
}

/// An id as it came.
pub(crate) fn id_text(codec: &Codec, key: Key, text: &[u8]) -> String {
    if text.is_empty() {
        return String::from_utf8_lossy(&format_uuid(codec.unmix(key))).into_owned();
    }
    String::from_utf8_lossy(text).into_owned()
}
