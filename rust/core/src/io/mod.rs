//! The one seam between the store and the file system, so that faults can be put in from behind.

mod disk;
mod map;
#[cfg(any(test, feature = "testing"))]
pub mod simulated;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use disk::Disk;
pub use map::Mapping;

/// A file system as the store needs it. Every name is whole; every change of a directory is durable only after
/// [`FileSystem::sync_directory`].
pub trait FileSystem: Send + Sync + std::fmt::Debug {
    /// Make a file that must not exist yet, for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Open a file that exists.
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>>;
    /// Give a file a second name, if that name is free: the atomic "publish if absent".
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Take a name away.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Make a directory; one that is there already is fine.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Make the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Whether the name is there.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Bytes that nobody can guess. (Names of temporary files need none: process, clock and a counter set them apart.)
    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string()))
    }
    /// Give others time to get on.
    fn pause(&self, duration: std::time::Duration) {
        std::thread::sleep(duration);
    }
}

/// An open file.
pub trait File: Send + Sync + std::fmt::Debug {
    /// Fill `buffer` from `offset`; a shorter file is an error of kind `UnexpectedEof`.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Fill `buffer` from `offset`, or as much of it as the file has; answers how much that is.
    fn read_up_to(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Write all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Make the file `length` bytes long, by zeros, unless it is longer.
    fn extend(&self, length: u64) -> io::Result<()>;
    /// Make what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// The first `length` bytes in memory, where the system allows it.
    fn map(&self, length: u64) -> io::Result<Mapping>;
    /// Take the file's lock, if it is free.
    fn try_lock(&self) -> io::Result<bool>;
    /// Take the file's lock once it is free, after those who waited before.
    fn lock(&self) -> io::Result<()> {
        while !self.try_lock()? {
            std::thread::yield_now();
        }
        Ok(())
    }
    /// Give the lock back.
    fn unlock(&self) -> io::Result<()>;
}

/// Write a new file whole and make its bytes (not yet its name) durable.
pub(crate) fn write_new(system: &dyn FileSystem, path: &Path, parts: &[&[u8]]) -> crate::Result<Arc<dyn File>> {
    let file = system.create(path).map_err(crate::Error::io("create", path))?;
    let mut offset = 0;
    for part in parts {
        file.write_at(part, offset).map_err(crate::Error::io("write", path))?;
        offset += part.len() as u64;
    }
    file.sync().map_err(crate::Error::io("sync", path))?;
    Ok(file)
}

/// Publish `bytes` under `path` if that name is free: temporary file, sync, hard link, sync of the directory.
/// Answers false when the name was taken.
pub(crate) fn publish(system: &dyn FileSystem, path: &Path, bytes: &[u8]) -> crate::Result<bool> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let temporary = temporary_name(path);
    write_new(system, &temporary, &[bytes])?;
    let linked = system.link(&temporary, path);
    // The temporary name has served; if taking it away fails, a sweep will find it.
    let removed = system.remove(&temporary);
    match linked {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(crate::Error::io("link", path)(error)),
    }
    removed.map_err(crate::Error::io("remove", &temporary))?;
    system.sync_directory(directory).map_err(crate::Error::io("sync", directory))?;
    Ok(true)
}

/// A name that no other process or thread picks at the same time.
fn temporary_name(path: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    path.with_file_name(format!("tmp-{name}-{}-{clock:x}-{count}", std::process::id()))
}
