//! The file system and its files, with errors that name the operation and the path.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{File, FileId, FileSystem};
use crate::{Error, Result};

/// An open file that knows its path.
#[derive(Clone, Debug)]
pub(crate) struct NamedFile {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: PathBuf,
}

impl dyn FileSystem + '_ {
    /// The names in a directory, in no order.
    pub(crate) fn names(&self, directory: &Path) -> Result<Vec<String>> {
        self.list(directory).map_err(Error::io("list", directory))
    }

    /// The names in a directory; none if there is no such directory.
    pub(crate) fn names_if_any(&self, directory: &Path) -> Result<Vec<String>> {
        match self.list(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(Error::io("list", directory)),
        }
    }

    /// Whether the name is there.
    pub(crate) fn has(&self, path: &Path) -> Result<bool> {
        self.exists(path).map_err(Error::io("look for", path))
    }

    /// Which file has this name; none if the name is free.
    pub(crate) fn identity(&self, path: &Path) -> Result<Option<FileId>> {
        self.identify(path).map_err(Error::io("look at", path))
    }

    /// Open a file that exists.
    pub(crate) fn open_at(&self, path: &Path, write: bool) -> Result<NamedFile> {
        let file = self.open(path, write).map_err(Error::io("open", path))?;
        Ok(NamedFile { file, path: path.to_path_buf() })
    }

    /// Make a file that must not exist yet.
    pub(crate) fn create_at(&self, path: &Path) -> Result<NamedFile> {
        let file = self.create(path).map_err(Error::io("create", path))?;
        Ok(NamedFile { file, path: path.to_path_buf() })
    }

    /// [`FileSystem::create_private`].
    pub(crate) fn create_private_at(&self, path: &Path) -> Result<NamedFile> {
        let file = self.create_private(path).map_err(Error::io("create", path))?;
        Ok(NamedFile { file, path: path.to_path_buf() })
    }

    /// A file's content, or its first `most` bytes.
    pub(crate) fn content(&self, path: &Path, most: u64) -> Result<Vec<u8>> {
        let file = self.open_at(path, false)?;
        let mut bytes = vec![0; file.length()?.min(most) as usize];
        file.read(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Give a file a second name.
    pub(crate) fn link_at(&self, from: &Path, to: &Path) -> Result<()> {
        self.link(from, to).map_err(Error::io("link", to))
    }

    /// Give a file a second name; answers false if that name is taken.
    pub(crate) fn link_if_free(&self, from: &Path, to: &Path) -> Result<bool> {
        match self.link(from, to) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            linked => linked.map_err(Error::io("link", to)).map(|()| true),
        }
    }

    /// Remove a name.
    pub(crate) fn remove_at(&self, path: &Path) -> Result<()> {
        self.remove(path).map_err(Error::io("remove", path))
    }

    /// Remove a name that another process may have removed already.
    pub(crate) fn remove_if_there(&self, path: &Path) -> Result<()> {
        match self.remove(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Error::io("remove", path)),
        }
    }

    /// Make a directory; one that is there already is fine.
    pub(crate) fn make_directory(&self, path: &Path) -> Result<()> {
        self.create_directory(path).map_err(Error::io("create", path))
    }

    /// Make the names in a directory durable.
    pub(crate) fn sync_names(&self, directory: &Path) -> Result<()> {
        self.sync_directory(directory).map_err(Error::io("sync", directory))
    }

    /// Random bytes for the file at `path`.
    pub(crate) fn randomness_for(&self, path: &Path, bytes: &mut [u8]) -> Result<()> {
        self.fill_random(bytes).map_err(Error::io("read randomness for", path))
    }
}

impl NamedFile {
    /// Fill `buffer` from `offset`.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_at(buffer, offset).map_err(Error::io("read", &self.path))
    }

    /// Fill `buffer` from `offset`, or as much of it as the file has; answers how much that is.
    pub(crate) fn read_up_to(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_up_to(buffer, offset).map_err(Error::io("read", &self.path))
    }

    /// Write all of `bytes` at `offset`.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(bytes, offset).map_err(Error::io("write", &self.path))
    }

    /// Make what was written durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync().map_err(Error::io("sync", &self.path))
    }

    /// Begin to write the bytes of `next` to the disk, once those of `before` have reached it.
    pub(crate) fn write_back(&self, before: Range<u64>, next: Range<u64>) -> Result<()> {
        self.file.write_back(before, next).map_err(Error::io("write", &self.path))
    }

    /// Whether nobody else has the file open who shares its lock, and it has one name only.
    pub(crate) fn is_alone(&self) -> Result<bool> {
        let is_free = self.file.try_lock().map_err(Error::io("lock", &self.path))?;
        Ok(is_free && self.file.names().map_err(Error::io("look at", &self.path))? == 1)
    }

    /// Length in bytes.
    pub(crate) fn length(&self) -> Result<u64> {
        self.file.len().map_err(Error::io("look at", &self.path))
    }

    /// Which file this is.
    pub(crate) fn identity(&self) -> Result<FileId> {
        self.file.identify().map_err(Error::io("look at", &self.path))
    }
}
