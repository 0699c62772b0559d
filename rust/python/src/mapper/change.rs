//! Changes of mappings, as a caller gives them.

use dochistory_core::history::values::Ids;
use dochistory_core::protocols::mapper::{Mapper, RowError, Texts, Unit, Untils};
use pyo3::prelude::*;

use super::arrays::{column, error_columns, ids, texts};
use super::settings::Kept;
use crate::clock;
use crate::errors::Outcome;
use crate::output;

/// The error of each row that was not written.
pub(super) type RowErrors = Vec<Option<RowError>>;
/// A function that changes mappings outside a unit.
pub(super) type Change = fn(&Mapper, &Ids<'_>, &Texts, Untils<'_>, i64) -> dochistory_core::Result<RowErrors>;
/// A function that changes mappings within a unit.
pub(super) type Join = fn(&mut Unit, &Ids<'_>, &Texts, Untils<'_>, i64) -> dochistory_core::Result<RowErrors>;

/// The arguments of a change.
pub(super) struct Given<'a, 'py> {
    pub(super) ids: &'a Bound<'py, PyAny>,
    pub(super) external_ids: Option<&'a Bound<'py, PyAny>>,
    pub(super) persist_until: Option<&'a Bound<'py, PyAny>>,
    pub(super) now: Option<&'a Bound<'py, PyAny>>,
}

impl<'a, 'py> Given<'a, 'py> {
    /// Of a change that only names ids.
    pub(super) fn only_ids(ids: &'a Bound<'py, PyAny>, now: Option<&'a Bound<'py, PyAny>>) -> Self {
        Self { ids, external_ids: None, persist_until: None, now }
    }

    /// Read the arguments, have `change` done outside Python, and answer its errors. Mappings are
    /// kept for `persist_us` where the caller does not say how long.
    pub(super) fn apply(
        self,
        mapper: &Mapper,
        persist_us: Option<i64>,
        change: impl FnOnce(&Ids<'_>, &Texts, Untils<'_>, i64) -> Outcome<RowErrors> + Send,
    ) -> Outcome<Bound<'py, PyAny>> {
        let py = self.ids.py();
        let now_us = clock::now_us(self.now)?;
        let kept = Kept::read(self.persist_until, persist_us, now_us)?;
        let array = ids("ids", self.ids)?;
        let external_ids = self.external_ids.map(|given| ids("external_ids", given)).transpose()?;
        let errors = crate::calls::outside(py, || {
            let column = column(&array)?;
            let ids = mapper.values().ids(&column);
            let texts = texts(external_ids.as_ref(), ids.len())?;
            change(&ids, &texts, kept.untils(), now_us)
        })?;
        Ok(output::record_batch(py, error_columns(array, &errors)?)?)
    }
}
