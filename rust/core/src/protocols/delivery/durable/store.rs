//! The store that the durable rows need: read a few rows, and change many atomically.

use crate::Result;

/// One row that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Which row.
    pub key: String,
    /// The value it must still have; none if it must not exist.
    pub expected: Option<Vec<u8>>,
    /// The new value; none to remove it.
    pub new: Option<Vec<u8>>,
}

/// A row was not as expected, so nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overtaken {
    /// Which of the exchanges.
    pub at: usize,
    /// What the row is.
    pub found: Option<Vec<u8>>,
}

/// A row's key and value.
pub type KeyAndValue = (String, Vec<u8>);

/// Rows by key.
pub trait Rows: Send + Sync + std::fmt::Debug {
    /// All rows whose keys begin with `prefix`, in the order of their keys.
    fn scan(&self, prefix: &str) -> Result<Vec<KeyAndValue>>;

    /// One row.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>>;

    /// Many rows, in this order.
    fn get_all(&self, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Change all rows or, if one is not as expected, none. Only one process does this at a time.
    /// Durable on return.
    fn exchange(&self, changes: &[Exchange]) -> Result<std::result::Result<(), Overtaken>>;
}
