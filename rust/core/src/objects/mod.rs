//! Histories on object storage: what the engine asks of a store. The protocol is
//! `docs/object-storage.md`.

pub(crate) mod cache;
pub(crate) mod chain;
pub(crate) mod chance;
pub(crate) mod change;
pub(crate) mod collect;
pub(crate) mod commit;
pub(crate) mod gate;
pub(crate) mod names;
pub(crate) mod pins;
pub(crate) mod side_by_side;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use cache::Cached;

use crate::Result;

/// What became of a create-if-absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object was not there, and is now.
    Created,
    /// An object of this name is there already. It may be our own: a request that was stored and
    /// answered with an error comes back as this when it is sent again.
    Exists,
}

/// An object as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name, relative to the history.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// When it was written, by the store's clock, in microseconds since 1970.
    pub modified_us: i64,
}

/// A bucket, or a part of one, as the engine needs it. Names are relative to the history, and have
/// `/` between their parts. All calls may come from several threads at once.
///
/// An error of `put_new`, `put` and `put_file` means that nobody knows whether the object was
/// stored, now or later. `None` and `false` mean that the store itself said that there is no such
/// object; an answer that only may mean that (403 without the right to list) is an error.
pub trait ObjectStore: Send + Sync + std::fmt::Debug {
    /// Create an object if there is none of this name.
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put>;
    /// Write an object, whatever stands under its name.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<()>;
    /// A whole object; none if it is not there.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>>;
    /// A part of an object; none if it is not there. Shorter at the object's end.
    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>>;
    /// [`ObjectStore::put_new`] of a local file, in parts if it is large.
    fn put_file(&self, name: &str, path: &Path) -> Result<Put>;
    /// Write an object into a local file, which is made or replaced; answers whether the object is
    /// there. `bytes` is how many its writer stored: that saves the question.
    fn get_file(&self, name: &str, path: &Path, bytes: u64) -> Result<bool>;
    /// The objects whose names begin with `prefix`, in no order.
    fn list(&self, prefix: &str) -> Result<Vec<Listed>>;
    /// Remove an object, durably on return; an object that is not there is fine.
    fn delete(&self, name: &str) -> Result<()>;
    /// Where it is, for errors; empty if it has no name.
    fn place(&self) -> String {
        String::new()
    }
    /// How many requests it takes at the same time from one caller.
    fn lanes(&self) -> usize {
        1
    }
    /// Whether a thread that the caller waits for can send requests.
    fn takes_threads(&self) -> bool {
        true
    }
    /// What [`ObjectStore::get_file`] wrote was damaged: the next one asks the store itself.
    fn forget(&self, _name: &str) {}
    /// Wait before a request is tried again, so that others make progress.
    fn pause(&self, duration: std::time::Duration) {
        std::thread::sleep(duration);
    }
}
