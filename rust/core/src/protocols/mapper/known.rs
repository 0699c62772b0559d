//! A mapper's knowledge of the ids of a batch, as columns.

use super::record::{Pending, Record};
use super::rules::Policy;
use super::texts::Texts;
use super::{Mapper, MapperSettings};
use crate::Result;
use crate::segment::values::columns::{FoundValues, Ids};

/// A mapper's knowledge of the ids of a batch.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// C: whether the id is mapped.
    pub mapped: Vec<bool>,
    /// The id that it is mapped to; a mapping may have none.
    pub values: Texts,
    /// P: whether sending began and its end is not known. Beside a mapping this is a remnant.
    pub pending: Vec<bool>,
    /// When sending began, in microseconds since 1970; 0 where it is not pending.
    pub since: Vec<i64>,
    /// The decision about a single pending id.
    pub resolved: Vec<Option<Policy>>,
    /// Until when the mapping is kept at least, or the pending entry of an id that is not mapped; 0
    /// where there is none.
    pub persist_until: Vec<i64>,
    /// The claim of the transaction that began to send it; 0 without one.
    pub(super) claims: Vec<u64>,
    /// The attempt that began to send it; 0 if an older build wrote it.
    attempts: Vec<u64>,
    /// Until when the pending entry is kept at least, also beside a mapping; 0 where there is none.
    pending_untils: Vec<i64>,
}

impl Known {
    pub(super) fn read(found: &FoundValues, settings: MapperSettings, now_us: i64) -> Result<Self> {
        let mut known = Self::default();
        for row in 0..found.len() {
            let mut record = match found.value(row) {
                Some(bytes) => Record::decode(bytes, found.persist_until(row))?,
                None => Record::default(),
            };
            if settings.exact_expiry && record.until <= now_us {
                (record.is_mapped, record.value) = (false, None);
            }
            known.push(&record);
        }
        Ok(known)
    }

    /// The pending entry of a row.
    pub(super) fn pending_of(&self, row: usize) -> Option<Pending> {
        let (since, claim, attempt) = (self.since[row], self.claims[row], self.attempts[row]);
        let (resolved, until) = (self.resolved[row], self.pending_untils[row]);
        self.pending[row].then_some(Pending { since, claim, attempt, resolved, until })
    }

    /// The whole entry of a row.
    pub(super) fn record_of(&self, row: usize) -> Record<'_> {
        let pending = self.pending_of(row);
        if !self.mapped[row] {
            return Record { pending, ..Record::default() };
        }
        Record { pending, ..Record::mapped(self.values.get(row), self.persist_until[row]) }
    }

    /// Whether a row can have no mirror that maps it to this id: it is mapped to another one, or in
    /// doubt, which a mapping would end unasked.
    pub(super) fn is_taken(&self, row: usize, id: &[u8]) -> bool {
        self.is_to_another(row, id) || self.pending[row] && !self.mapped[row]
    }

    /// Whether a row is mapped to another id than this.
    pub(super) fn is_to_another(&self, row: usize, id: &[u8]) -> bool {
        self.mapped[row] && self.values.get(row) != Some(id)
    }

    /// Some rows of it.
    pub(super) fn take(&self, rows: &[usize]) -> Self {
        let mut taken = Self::default();
        for row in rows.iter().copied() {
            taken.mapped.push(self.mapped[row]);
            taken.values.push(self.values.get(row));
            taken.pending.push(self.pending[row]);
            taken.since.push(self.since[row]);
            taken.resolved.push(self.resolved[row]);
            taken.claims.push(self.claims[row]);
            taken.attempts.push(self.attempts[row]);
            taken.pending_untils.push(self.pending_untils[row]);
            taken.persist_until.push(self.persist_until[row]);
        }
        taken
    }

    fn push(&mut self, record: &Record) {
        self.mapped.push(record.is_mapped);
        self.values.push(record.value);
        self.pending.push(record.pending.is_some());
        self.since.push(record.pending.map_or(0, |pending| pending.since));
        self.resolved.push(record.pending.and_then(|pending| pending.resolved));
        self.claims.push(record.pending.map_or(0, |pending| pending.claim));
        self.attempts.push(record.pending.map_or(0, |pending| pending.attempt));
        let pending_until = record.pending.map_or(0, |pending| pending.until);
        self.pending_untils.push(pending_until);
        self.persist_until.push(if record.is_mapped { record.until } else { pending_until });
    }
}

impl Mapper {
    /// Look up some ids.
    pub fn lookup(&self, ids: &Ids, now_us: i64) -> Result<Known> {
        Known::read(&self.values.look(ids)?, self.settings, now_us)
    }
}
