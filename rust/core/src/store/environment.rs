//! What all key spaces of an open history share, and what it says of directories that hold nothing.

use super::registry;
use crate::format::names::FileKind;
use crate::io::{FileId, FileSystem};
use crate::wal::START;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What all key spaces of an open history share.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) system: Arc<dyn FileSystem>,
    pub(crate) history: [u8; 16],
    pub(crate) read_only: bool,
    pub(crate) lock_timeout: std::time::Duration,
    /// The history's identity file: while it is there, a key space without files is an empty one.
    pub(crate) identity: PathBuf,
    /// Which file that was when this history was opened; none for repairs, which may have to make
    /// it.
    pub(crate) identity_file: Option<FileId>,
}

impl Environment {
    /// What to say when a directory that held files holds none.
    pub(super) fn missing(&self, directory: &Path) -> Error {
        match self.check_present() {
            Ok(()) => Error::corrupt(directory, 0, "all manifests are gone"),
            Err(error) => error,
        }
    }

    /// A key space without a manifest is a new one, or all its manifests are gone: then other files
    /// tell. Nothing but an empty first log is made before the first manifest is durable.
    pub(crate) fn check_new(&self, directory: &Path) -> Result<()> {
        self.check_present()?;
        // Asked before the directory is: a space that is named by then had its manifest before.
        let is_known = registry::is_known(self, directory)?;
        let names = self.system.names_if_any(directory)?;
        if names.iter().any(|name| FileKind::Manifest.number_in(name).is_some()) {
            return Ok(());
        }
        let first = FileKind::Log.path(directory, 1);
        let is_first = |name: &String| first.ends_with(name);
        let is_ours = |name: &String| FileKind::of(name).is_some_and(|kind| kind != FileKind::Temporary);
        let tells = |name: &String| is_ours(name) && !is_first(name);
        let has_frames = || -> std::io::Result<bool> {
            Ok(names.iter().any(is_first) && self.system.open(&first, false)?.len()? > START)
        };
        if names.iter().any(tells) || has_frames().map_err(Error::io("look at", &first))? {
            return Err(Error::corrupt(directory, 0, "all manifests are gone"));
        }
        if is_known {
            let witness = registry::path_of(self, directory);
            let reason = format!("all of its files are gone, although {} says that it was used", witness.display());
            return Err(Error::corrupt(directory, 0, reason));
        }
        Ok(())
    }

    /// A history that was put in the place of ours is not ours, even where it is a copy.
    pub(crate) fn check_own(&self) -> Result<()> {
        match self.identity_file {
            Some(_) => self.check_present().or_else(|error| match error {
                Error::Fenced { .. } => Err(error),
                // What is missing, whoever needs it will say.
                _ => Ok(()),
            }),
            None => Ok(()),
        }
    }

    /// The history itself must be there: a directory that went away is no empty history, and
    /// another one is not ours.
    pub(crate) fn check_present(&self) -> Result<()> {
        match self.system.identify(&self.identity) {
            Ok(Some(file)) if self.identity_file.is_some_and(|ours| ours != file) => {
                Err(Error::replaced(&self.identity))
            }
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Error::io("find", &self.identity)(std::io::ErrorKind::NotFound.into())),
            Err(error) => Err(Error::io("find", &self.identity)(error)),
        }
    }
}
