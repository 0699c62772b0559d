//! Mappings one by one: create, update, remove.

use std::borrow::Cow;

use super::known::Known;
use super::record::{Pending, Record};
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
    /// The other id is mapped or pending, so that the mirror entry cannot be written.
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

    /// Change the mappings of mapped ids; later rows of the same id are left out, as in
    /// [`Mapper::create`]. Durable on return.
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
            let mut errors = Errors::with_capacity(ids.len());
            for (row, first) in first_copies.iter().enumerate() {
                let mut error = RowError::of_form(ids.form(row));
                if error.is_none() {
                    let own = self.entry(edit, ids, (&known, row), now_us)?;
                    let is_later = || (*first as usize != row).then_some(RowError::Exists);
                    let (value, until) = (values.get(row), untils.get(row));
                    error = refuse(own.is_mapped()).or_else(is_later);
                    error =
                        error.map_or_else(|| self.refuse_mirror(edit, value, &own, now_us), |error| Ok(Some(error)))?;
                    if error.is_none() {
                        self.map(edit, &own, value, until, now_us)?;
                        self.mirror(edit, value, &own.bytes, until, now_us)?;
                    }
                }
                errors.push(error);
            }
            Ok(errors)
        })
    }

    /// The entry of a usable row. With mirrors an earlier row may have changed it: then it is
    /// looked up again.
    pub(super) fn entry<'a>(
        &self,
        edit: &mut ValueEdit,
        ids: &'a Ids,
        (known, row): (&'a Known, usize),
        now_us: i64,
    ) -> Result<Entry<'a>> {
        let (id, bytes) = (ids.id(row), ids.bytes(row).unwrap_or_default());
        if self.settings.mirror {
            return Ok(Entry { id, bytes, known: Cow::Owned(self.present(edit, id, now_us)?), at: 0 });
        }
        Ok(Entry { id, bytes, known: Cow::Borrowed(known), at: row })
    }

    fn present(&self, edit: &mut ValueEdit, id: Id, now_us: i64) -> Result<Known> {
        Known::read(&edit.present(id)?, self.settings, now_us)
    }

    /// Write one mapping without its mirror; a pending entry of the same id stays.
    pub(super) fn map(
        &self,
        edit: &mut ValueEdit,
        own: &Entry,
        value: Option<&[u8]>,
        until: i64,
        now_us: i64,
    ) -> Result<()> {
        if own.is_mapped() {
            self.unmirror(edit, own, now_us)?;
        }
        Self::put(edit, own.id, &Record { pending: own.pending(), ..Record::mapped(value, until) })
    }

    /// Write the entry of an id. While a part of it is pending, no purge takes it unasked: a
    /// mapping whose time is over would take the doubt along.
    pub(super) fn put(edit: &mut ValueEdit, id: Id, record: &Record) -> Result<()> {
        let mut bytes = Vec::with_capacity(64);
        record.encode(&mut bytes);
        let (persist_until, pending) = (record.kept_until(), record.pending.is_some());
        edit.put(id, NewValue { value: Some(&bytes), persist_until, pending })
    }

    /// The second direction of a mapping, unless the other id is too long for one, is mapped to
    /// another id, or is in doubt: a mapping would end the doubt unasked.
    pub(super) fn mirror(
        &self,
        edit: &mut ValueEdit,
        value: Option<&[u8]>,
        id: &[u8],
        until: i64,
        now_us: i64,
    ) -> Result<()> {
        let Some(other) = self.other(value).filter(|other| RowError::of_form(other.form).is_none()) else {
            return Ok(());
        };
        let known = self.present(edit, other, now_us)?;
        if known.is_taken(0, id) {
            return Ok(());
        }
        Self::put(edit, other, &Record { pending: known.pending_of(0), ..Record::mapped(Some(id), until) })
    }

    /// Remove the second direction of a mapping; a pending entry of the other id stays, and so does
    /// what is no mirror of this mapping.
    fn unmirror(&self, edit: &mut ValueEdit, own: &Entry, now_us: i64) -> Result<()> {
        let Some(other) = self.other(own.value()) else { return Ok(()) };
        let known = self.present(edit, other, now_us)?;
        if !known.mapped[0] || known.is_to_another(0, &own.bytes) {
            return Ok(());
        }
        match known.pending_of(0) {
            None => edit.remove(other),
            Some(pending) => Self::put(edit, other, &Record::pending(pending)),
        }
    }

    /// The other id of a mapping, if it gets a mirror.
    fn other<'v>(&self, value: Option<&'v [u8]>) -> Option<Id<'v>> {
        value.filter(|value| self.settings.mirror && !value.is_empty()).map(|value| self.values.id(value))
    }

    /// Why a mapping cannot have its mirror.
    fn refuse_mirror(
        &self,
        edit: &mut ValueEdit,
        value: Option<&[u8]>,
        own: &Entry,
        now_us: i64,
    ) -> Result<Option<RowError>> {
        let Some(other) = self.other(value) else { return Ok(None) };
        if let Some(error) = RowError::of_form(other.form) {
            return Ok(Some(error));
        }
        let known = self.present(edit, other, now_us)?;
        Ok(known.is_taken(0, &own.bytes).then_some(RowError::MirrorExists))
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
                    let own = self.entry(edit, ids, (&known, row), now_us)?;
                    self.unmap(edit, &own, now_us)?;
                }
                errors.push(error);
            }
            Ok(errors)
        })
    }

    pub(super) fn unmap(&self, edit: &mut ValueEdit, own: &Entry, now_us: i64) -> Result<()> {
        self.unmirror(edit, own, now_us)?;
        match own.pending() {
            None => edit.remove(own.id),
            Some(pending) => Self::put(edit, own.id, &Record::pending(pending)),
        }
    }
}

/// An id of a batch, and what is known of it.
pub(super) struct Entry<'a> {
    pub(super) id: Id<'a>,
    pub(super) bytes: Cow<'a, [u8]>,
    pub(super) known: Cow<'a, Known>,
    /// Its row in `known`.
    pub(super) at: usize,
}

impl Entry<'_> {
    fn is_mapped(&self) -> bool {
        self.known.mapped[self.at]
    }

    fn value(&self) -> Option<&[u8]> {
        self.known.values.get(self.at)
    }

    fn pending(&self) -> Option<Pending> {
        self.known.pending_of(self.at)
    }
}
