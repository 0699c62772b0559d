//! Administration: list pending ids, decide single ids, purge.

use super::known::Known;
use super::mappings::RowError;
use super::record::Record;
use super::rules::Policy;
use super::{Mapper, MapperSettings};
use crate::Result;
use crate::history::values::Entries;
use crate::segment::values::columns::Ids;
use crate::store::{Purge, Purged};

/// The entries of a mapper, batch by batch.
#[derive(Debug)]
pub struct PendingEntries {
    entries: Entries,
    settings: MapperSettings,
    now_us: i64,
    /// Whether ids that are not pending are left out.
    only_pending: bool,
}

/// Some entries, as columns.
#[derive(Clone, Debug, Default)]
pub struct PendingBatch {
    /// The ids as they came.
    pub ids: Vec<String>,
    /// The mapper's knowledge of them.
    pub known: Known,
}

impl Mapper {
    /// Decide single pending ids: at its next arrival such an id is treated by this policy, once,
    /// whatever the channel's policy is. [`Policy::Error`] takes a decision back. Rows whose id is
    /// not pending are left out. An id that is mapped too is decided for the time when its mapping
    /// no longer counts. Durable on return.
    pub fn resolve(&self, ids: &Ids, policy: Policy) -> Result<Vec<Option<RowError>>> {
        self.values.change(ids, |edit| {
            // A mapping whose time is over stays as it is.
            let known = Known::read(edit.found(), MapperSettings::default(), 0)?;
            let mut errors = Vec::with_capacity(ids.len());
            for row in 0..ids.len() {
                let pending = known.pending_of(row);
                let error = RowError::of_form(ids.form(row)).or(pending.is_none().then_some(RowError::NotPending));
                if let (None, Some(mut pending)) = (error, pending) {
                    pending.resolved = (policy != Policy::Error).then_some(policy);
                    Self::put(edit, ids.id(row), &Record { pending: Some(pending), ..known.record_of(row) })?;
                }
                errors.push(error);
            }
            Ok(errors)
        })
    }

    /// The ids that are pending, also those that are mapped, in no order.
    pub fn pending(&self, now_us: i64) -> Result<PendingEntries> {
        self.listed(now_us, true)
    }

    /// All entries, in no order.
    pub fn entries(&self, now_us: i64) -> Result<PendingEntries> {
        self.listed(now_us, false)
    }

    fn listed(&self, now_us: i64, only_pending: bool) -> Result<PendingEntries> {
        Ok(PendingEntries { entries: self.values.entries()?, settings: self.settings, now_us, only_pending })
    }

    /// [`Mapper::purge`] by a now that may be checked against the machine's clock.
    ///
    /// # Errors
    /// `Config` when the clock is doubtful.
    pub fn purge_by(&self, purge: Purge, include_pending: bool) -> Result<Purged> {
        self.values.purge_by(purge, include_pending)
    }
}

impl PendingEntries {
    /// The next entries; none after the last. A batch may be empty.
    pub fn next_batch(&mut self) -> Result<Option<PendingBatch>> {
        let Some(batch) = self.entries.next_batch()? else { return Ok(None) };
        let all = Known::read(&batch.found, self.settings, self.now_us)?;
        let is_wanted = |row: &usize| all.pending[*row] || (all.mapped[*row] && !self.only_pending);
        let rows: Vec<usize> = (0..batch.ids.len()).filter(is_wanted).collect();
        let ids = rows.iter().map(|row| batch.ids[*row].clone()).collect();
        Ok(Some(PendingBatch { ids, known: all.take(&rows) }))
    }
}
