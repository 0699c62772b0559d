//! The mirrors of a unit of work, before it commits.

use std::collections::HashMap;

use super::known::Known;
use super::mappings::RowError;

/// Which other ids cannot be mapped back.
#[derive(Default)]
pub(super) struct Mirrors {
    pub(super) is_on: bool,
    pub(super) known: Known,
    /// The other ids of the unit's mappings, each with the id that is mapped to it.
    pub(super) of_unit: HashMap<Vec<u8>, Vec<u8>>,
}

impl Mirrors {
    /// Whether the unit is going to map this id back.
    pub(super) fn contains(&self, id: &[u8]) -> bool {
        self.of_unit.contains_key(id)
    }

    /// Why a row cannot be mapped to this other id.
    pub(super) fn refuse(&mut self, row: usize, value: &[u8], id: Vec<u8>) -> Option<RowError> {
        if !self.is_on || value.is_empty() {
            return None;
        }
        if self.known.is_taken(row, &id) || self.of_unit.get(value).is_some_and(|known| *known != id) {
            return Some(RowError::MirrorExists);
        }
        self.of_unit.insert(value.to_vec(), id);
        None
    }
}
