//! Mappings one by one: create, update, remove.

use super::known::Known;
use super::record::Record;
use super::texts::{Texts, Untils};
use super::{Mapper, same_length};
use crate::Result;
use crate::history::values::{NewValue, ValueEdit};
use crate::key::Form;
use crate::segment::values::columns::{Id, Ids};

/// Why a row of a call was left out; the other rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RowError {
    /// The id is mapped.
    Exists,
    /// The id is not mapped.
    NotFound,
    /// The id is not pending.
    NotPending,
    /// There is no id.
    NoId,
    /// The id has more than 65,535 bytes.
    TooLong,
    /// The other id is mapped, so that the mirror entry cannot be written.
    MirrorExists,
}

impl RowError {
    /// All of them, by code.
    pub const ALL: [Self; 6] =
        [Self::Exists, Self::NotFound, Self::NotPending, Self::NoId, Self::TooLong, Self::MirrorExists];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exists => "EXISTS",
            Self::NotFound => "NOT_FOUND",
            Self::NotPending => "NOT_PENDING",
            Self::NoId => "NO_ID",
            Self::TooLong => "TOO_LONG",
            Self::MirrorExists => "MIRROR_EXISTS",
        }
    }

    /// What is wrong with an id itself.
    pub(super) fn of_form(form: Form) -> Option<Self> {
        match form {
            Form::Absent => Some(Self::NoId),
            Form::TooLong => Some(Self::TooLong),
            Form::Uuid | Form::Text => None,
        }
    }
}

/// Errors by row.
type Errors = Vec<Option<RowError>>;

impl Mapper {
    /// Map ids to other ids. Rows whose id is mapped already are left out, as are later rows of the
    /// same id. Durable on return.
    pub fn create(&self, ids: &Ids, values: &Texts, untils: Untils, now_us: i64) -> Result<Errors> {
        self.write(ids, values, untils, now_us, |is_mapped| is_mapped.then_some(RowError::Exists))
    }

    /// Change the mappings of mapped ids; later rows of the same id are left out. Durable on
    /// return.
    pub fn update(&self, ids: &Ids, values: &Texts, untils: Untils, now_us: i64) -> Result<Errors> {
        self.write(ids, values, untils, now_us, |is_mapped| (!is_mapped).then_some(RowError::NotFound))
    }

    fn write(
        &self,
        ids: &Ids,
        values: &Texts,
        untils: Untils,
        now_us: i64,
        refuse: impl Fn(bool) -> Option<RowError>,
    ) -> Result<Errors> {
        same_length("external_ids", values.len(), ids.len())?;
        untils.check(ids.len())?;
        let first_copies = ids.first_copies(u32::MAX);
        self.values.change(ids, |edit| {
            let known = Known::read(edit.found(), self.settings, now_us)?;
            let mut mirrors = self.mirrors(edit, values, now_us)?;
            let mut errors = Errors::with_capacity(ids.len());
            for (row, first) in first_copies.iter().enumerate() {
                let is_later = || (*first as usize != row).then_some(RowError::Exists);
                let error = RowError::of_form(ids.form(row))
                    .or_else(|| refuse(known.mapped[row]))
                    .or_else(is_later)
                    .or_else(|| mirrors.refuse(row, ids.bytes(row).as_deref()));
                if error.is_none() {
                    self.map(edit, ids, row, &known, values.get(row), untils.get(row))?;
                }
                errors.push(error);
            }
            Ok(errors)
        })
    }

    /// Write one mapping, and its mirror; a pending entry of the same id stays.
    pub(super) fn map(
        &self,
        edit: &mut ValueEdit,
        ids: &Ids,
        row: usize,
        known: &Known,
        value: Option<&[u8]>,
        until: i64,
    ) -> Result<()> {
        let pending = known.pending_of(row);
        if known.mapped[row] {
            self.unmirror(edit, known.values.get(row))?;
        }
        Self::put(edit, ids.id(row), &Record { pending, ..Record::mapped(value) }, until)?;
        self.mirror(edit, value, ids.bytes(row).as_deref(), until)
    }

    pub(super) fn put(edit: &mut ValueEdit, id: Id, record: &Record, until: i64) -> Result<()> {
        let mut bytes = Vec::with_capacity(64);
        record.encode(&mut bytes);
        let pending = !record.is_mapped && record.pending.is_some();
        edit.put(id, NewValue { value: Some(&bytes), persist_until: until, pending })
    }

    /// The second direction of a mapping.
    pub(super) fn mirror(
        &self,
        edit: &mut ValueEdit,
        value: Option<&[u8]>,
        id: Option<&[u8]>,
        until: i64,
    ) -> Result<()> {
        let Some(value) = value.filter(|value| self.settings.mirror && !value.is_empty()) else { return Ok(()) };
        Self::put(edit, self.values.id(value), &Record::mapped(id), until)
    }

    pub(super) fn unmirror(&self, edit: &mut ValueEdit, value: Option<&[u8]>) -> Result<()> {
        let Some(value) = value.filter(|value| self.settings.mirror && !value.is_empty()) else { return Ok(()) };
        edit.remove(self.values.id(value))
    }

    /// The mappings that prevent mirror entries.
    fn mirrors(&self, edit: &ValueEdit, values: &Texts, now_us: i64) -> Result<Mirrors> {
        if !self.settings.mirror {
            return Ok(Mirrors::default());
        }
        let column = values.column();
        let others = self.values.ids(&column);
        let known = Known::read(&edit.look(&others)?, self.settings, now_us)?;
        Ok(Mirrors { first_copies: others.first_copies(u32::MAX), known, taken: vec![false; values.len()] })
    }

    /// Remove mappings; pending entries of the same ids stay. Durable on return.
    pub fn remove(&self, ids: &Ids, now_us: i64) -> Result<Errors> {
        let first_copies = ids.first_copies(u32::MAX);
        self.values.change(ids, |edit| {
            let known = Known::read(edit.found(), self.settings, now_us)?;
            let mut errors = Errors::with_capacity(ids.len());
            for (row, first) in first_copies.iter().enumerate() {
                let is_there = known.mapped[row] && *first as usize == row;
                let error = RowError::of_form(ids.form(row)).or((!is_there).then_some(RowError::NotFound));
                if error.is_none() {
                    self.unmap(edit, ids, row, &known)?;
                }
                errors.push(error);
            }
            Ok(errors)
        })
    }

    pub(super) fn unmap(&self, edit: &mut ValueEdit, ids: &Ids, row: usize, known: &Known) -> Result<()> {
        self.unmirror(edit, known.values.get(row))?;
        match known.pending_of(row) {
            None => edit.remove(ids.id(row)),
            Some(pending) => Self::put(edit, ids.id(row), &Record::pending(pending), known.persist_until[row]),
        }
    }
}

/// Which of a batch's other ids are mapped.
#[derive(Default)]
struct Mirrors {
    first_copies: Vec<u32>,
    known: Known,
    taken: Vec<bool>,
}

impl Mirrors {
    /// An other id that is mapped, here or by an earlier row, may not be mapped back, except by the
    /// mirror of this same mapping.
    fn refuse(&mut self, row: usize, id: Option<&[u8]>) -> Option<RowError> {
        let at = self.first_copies.get(row).copied().filter(|at| *at != u32::MAX)? as usize;
        if self.taken[at] || self.known.mapped[at] && self.known.values.get(at) != id {
            return Some(RowError::MirrorExists);
        }
        self.taken[at] = true;
        None
    }
}
