//! The environment of all key spaces of an open history.

use crate::io::{FileId, FileSystem};
use crate::objects::ObjectStore;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The environment of all key spaces of an open history.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) system: Arc<dyn FileSystem>,
    pub(crate) history: [u8; 16],
    pub(crate) read_only: bool,
    pub(crate) lock_timeout: std::time::Duration,
    /// The history's identity file: while it is there, a key space without files is an empty one.
    pub(crate) identity: PathBuf,
    /// The identity of that file when this history was opened; none for repairs, which may have to
    /// create it.
    pub(crate) identity_file: Option<FileId>,
    /// The bucket that holds the history, if the directory is a replica of it.
    pub(crate) objects: Option<Arc<dyn ObjectStore>>,
}

impl Environment {
    /// Where the history is, for errors: its directory, or the URL of the bucket.
    pub(crate) fn place(&self) -> PathBuf {
        let directory = self.identity.parent().unwrap_or(&self.identity);
        self.objects.as_ref().map_or_else(|| directory.to_path_buf(), |store| store.place().into())
    }

    /// The error for a directory that held files and is empty.
    pub(super) fn missing(&self, directory: &Path) -> Error {
        match self.check_present() {
            Ok(()) => Error::corrupt(directory, 0, "all manifests are gone"),
            Err(error) => error,
        }
    }

    /// Check that the history under this path is the one that was opened: another one is not ours,
    /// even if it is a copy.
    pub(crate) fn check_own(&self) -> Result<()> {
        match self.identity_file {
            Some(_) => self.check_present().or_else(|error| match error {
                Error::Fenced { .. } => Err(error),
                // The next operation that needs a missing file reports it.
                _ => Ok(()),
            }),
            None => Ok(()),
        }
    }

    /// Check that the history itself exists: a directory that is gone is not an empty history, and
    /// another history is not ours.
    pub(crate) fn check_present(&self) -> Result<()> {
        match self.system.identify(&self.identity) {
            Ok(Some(file)) if self.identity_file.is_some_and(|ours| ours != file) => {
                Err(Error::replaced(&self.identity))
            }
            Ok(Some(_)) => Ok(()),
            // Opening the history again makes another one.
            Ok(None) if self.objects.is_some() => Err(Error::copy_is_gone(&self.identity)),
            Ok(None) => Err(Error::io("find", &self.identity)(std::io::ErrorKind::NotFound.into())),
            Err(error) => Err(Error::io("find", &self.identity)(error)),
        }
    }
}
