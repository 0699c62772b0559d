//! The machine's file system, of which a test changes what it needs to.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dochistory_core::io::{Disk, File, FileId, FileSystem, ProcessId};

/// The steps of a file system that a test may change; the others are those of [`Disk`].
pub trait Changes: Debug + Send + Sync {
    fn exists(&self, path: &Path) -> io::Result<bool> {
        Disk.exists(path)
    }

    fn is_alive(&self, process: &ProcessId) -> Option<bool> {
        Disk.is_alive(process)
    }

    fn pause(&self, duration: Duration) {
        Disk.pause(duration);
    }

    fn is_local(&self) -> bool {
        false
    }

    fn before_create(&self, _path: &Path) {}

    fn before_link(&self, _from: &Path) {}

    /// A file that was created or opened.
    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        file
    }
}

/// [`Disk`] with changes.
#[derive(Clone, Debug, Default)]
pub struct Forwarding<C>(pub C);

impl<C: Changes> FileSystem for Forwarding<C> {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.0.before_create(path);
        Ok(self.0.file(Disk.create(path)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        Ok(self.0.file(Disk.open(path, write)?))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.before_link(from);
        Disk.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        Disk.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        Disk.sync_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Disk.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn identify(&self, path: &Path) -> io::Result<Option<FileId>> {
        Disk.identify(path)
    }

    fn process(&self) -> ProcessId {
        Disk.process()
    }

    fn is_alive(&self, process: &ProcessId) -> Option<bool> {
        self.0.is_alive(process)
    }

    fn pause(&self, duration: Duration) {
        self.0.pause(duration);
    }

    fn is_local(&self, _directory: &Path) -> bool {
        self.0.is_local()
    }
}
