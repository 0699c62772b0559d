//! A directory of the machine's own file system whose loss does no harm: nothing is synced.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Disk, File, FileId, FileSystem, Mapping, ProcessId};

/// [`Disk`] without syncs, for a copy of what is durable elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scratch;

/// A file that is never synced.
#[derive(Debug)]
struct Unsynced(Arc<dyn File>);

fn unsynced(file: Arc<dyn File>) -> Arc<dyn File> {
    Arc::new(Unsynced(file))
}

impl FileSystem for Scratch {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Disk.create(path).map(unsynced)
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        Disk.open(path, write).map(unsynced)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        Disk.create_directory(path)
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Disk.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Disk.exists(path)
    }

    fn identify(&self, path: &Path) -> io::Result<Option<FileId>> {
        Disk.identify(path)
    }

    fn create_private(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Disk.create_private(path).map(unsynced)
    }

    fn process(&self) -> ProcessId {
        Disk.process()
    }

    fn is_alive(&self, process: &ProcessId) -> Option<bool> {
        Disk.is_alive(process)
    }
}

impl File for Unsynced {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }

    fn read_up_to(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_up_to(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn extend(&self, length: u64) -> io::Result<()> {
        self.0.extend(length)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn free(&self) {
        self.0.free();
    }

    fn identify(&self) -> io::Result<FileId> {
        self.0.identify()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn map(&self, length: u64) -> io::Result<Mapping> {
        self.0.map(length)
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.0.try_lock()
    }

    fn lock(&self) -> io::Result<()> {
        self.0.lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}
