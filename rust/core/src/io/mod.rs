//! The one seam between the store and the file system, through which tests inject faults.

pub(crate) mod bytes;
mod disk;
mod map;
mod named;
pub(crate) mod pages;
mod scratch;
mod spool;
mod stat;
mod write_back;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use disk::Disk;
pub use map::Mapping;
pub(crate) use named::NamedFile;
pub(crate) use scratch::Scratch;
pub(crate) use spool::Spool;

/// Identifies a file, whatever its name. No two files that exist at the same time have the same
/// identity. A file that reuses the number of a deleted one has another birth time, where the
/// system tells that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// The device.
    pub device: u64,
    /// The file's number on it.
    pub number: u64,
    /// When the file was made, in nanoseconds since 1970; 0 where the system does not tell.
    pub born_ns: u128,
}

/// A process, so that others can check whether it is still alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    /// The scope of the number: a boot of a machine, and a namespace of numbers there; 0 where the
    /// system does not tell.
    pub place: u64,
    /// Its number.
    pub number: u64,
    /// When it started, because numbers are used again.
    pub started: u64,
}

/// A file system as the store needs it. Every name is whole; every change of a directory is durable
/// only after [`FileSystem::sync_directory`].
pub trait FileSystem: Send + Sync + std::fmt::Debug {
    /// Make a file that must not exist yet, for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Open a file that exists.
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>>;
    /// Give a file a second name, if that name is free: the atomic "publish if absent".
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Remove a name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Make a directory; one that is there already is fine.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Make the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Whether the name is there.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Which file has this name; none if the name is free.
    fn identify(&self, path: &Path) -> io::Result<Option<FileId>>;
    /// [`FileSystem::create`] for a file that only its owner and its group can read.
    fn create_private(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.create(path)
    }
    /// This process.
    fn process(&self) -> ProcessId;
    /// Whether a process is alive; none if that cannot be told from here.
    fn is_alive(&self, process: &ProcessId) -> Option<bool>;
    /// Whether a lock that this process holds on `path` keeps a second process out; none if that
    /// cannot be tried.
    fn excludes_processes(&self, _path: &Path) -> Option<bool> {
        None
    }
    /// Whether locks of files in this directory keep every other process out as long as they are
    /// held, and writing over a file takes no new blocks.
    fn is_local(&self, _directory: &Path) -> bool {
        false
    }
    /// Bytes that nobody can guess. (Names of temporary files need none: process, clock and a
    /// counter set them apart.)
    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string()))
    }
    /// Pause, so that other processes make progress.
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
    /// Begin to write the bytes of `next` to the disk, once those of `before` have reached it. It
    /// spares a later sync a burst, and promises nothing. After an error the file is not to be
    /// used.
    fn write_back(&self, _before: Range<u64>, _next: Range<u64>) -> io::Result<()> {
        Ok(())
    }
    /// Begin to write these bytes to the disk, so that the sync that comes soon has less to do. It
    /// promises nothing: that sync tells what failed.
    fn start_writing(&self, _bytes: Range<u64>) {}
    /// Give back the room of a file that could not be written whole, and that nothing names.
    fn free(&self) {}
    /// Give back the blocks of these bytes, which read as zeros then. It promises nothing.
    fn clear(&self, _bytes: Range<u64>) {}
    /// The number of the file's names; 0 if that is unknown.
    fn names(&self) -> io::Result<u64> {
        Ok(0)
    }
    /// Which file this is.
    fn identify(&self) -> io::Result<FileId>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// The first `length` bytes in memory, where the system allows it.
    fn map(&self, length: u64) -> io::Result<Mapping>;
    /// Take the file's lock, if it is free.
    fn try_lock(&self) -> io::Result<bool>;
    /// Take a part in the file's lock, if nobody has it alone. Others may have parts, too. It ends
    /// with the last of the file's users here, or with [`File::unlock`].
    fn try_share(&self) -> io::Result<bool> {
        Ok(true)
    }
    /// Take the file's lock once it is free, after those who waited before.
    fn lock(&self) -> io::Result<()> {
        while !self.try_lock()? {
            std::thread::yield_now();
        }
        Ok(())
    }
    /// Release the lock.
    fn unlock(&self) -> io::Result<()>;
}

/// A closed file, which must be opened again before it is used.
#[derive(Debug)]
pub(crate) struct Closed;

impl Closed {
    fn refuse<T>() -> io::Result<T> {
        Err(io::Error::other("the file is closed"))
    }
}

impl File for Closed {
    fn read_at(&self, _buffer: &mut [u8], _offset: u64) -> io::Result<()> {
        Self::refuse()
    }

    fn read_up_to(&self, _buffer: &mut [u8], _offset: u64) -> io::Result<usize> {
        Self::refuse()
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
        Self::refuse()
    }

    fn extend(&self, _length: u64) -> io::Result<()> {
        Self::refuse()
    }

    fn sync(&self) -> io::Result<()> {
        Self::refuse()
    }

    fn identify(&self) -> io::Result<FileId> {
        Self::refuse()
    }

    fn len(&self) -> io::Result<u64> {
        Self::refuse()
    }

    fn map(&self, _length: u64) -> io::Result<Mapping> {
        Self::refuse()
    }

    fn try_lock(&self) -> io::Result<bool> {
        Self::refuse()
    }

    fn unlock(&self) -> io::Result<()> {
        Self::refuse()
    }
}

/// Write a new file whole and make its bytes (not yet its name) durable.
pub(crate) fn write_new(system: &dyn FileSystem, path: &Path, parts: &[&[u8]]) -> crate::Result<NamedFile> {
    fill(system.create_at(path)?, parts)
}

fn fill(file: NamedFile, parts: &[&[u8]]) -> crate::Result<NamedFile> {
    let mut offset = 0;
    let written = parts.iter().try_for_each(|part| {
        let at = offset;
        offset += part.len() as u64;
        file.write(part, at)
    });
    match written.and_then(|()| file.sync()) {
        Ok(()) => Ok(file),
        Err(error) => {
            file.file.free();
            Err(error)
        }
    }
}

/// Publish `bytes` under `path` if that name is free: temporary file, sync, hard link, sync of the
/// directory. Answers false when the name was taken.
pub(crate) fn publish(system: &dyn FileSystem, path: &Path, bytes: &[u8]) -> crate::Result<bool> {
    let temporary = write_temporary(system, path, bytes)?;
    put_in_place(system, &temporary, path)
}

/// Write `bytes`, durably, under a temporary name for [`put_in_place`] or [`rename_if_free`].
pub(crate) fn write_temporary(system: &dyn FileSystem, path: &Path, bytes: &[u8]) -> crate::Result<PathBuf> {
    let temporary = temporary_name(path);
    write_new(system, &temporary, &[bytes])?;
    Ok(temporary)
}

/// [`publish`] of a file that only the owner and the group may read.
pub(crate) fn publish_private(system: &dyn FileSystem, path: &Path, bytes: &[u8]) -> crate::Result<bool> {
    let temporary = temporary_name(path);
    fill(system.create_private_at(&temporary)?, &[bytes])?;
    put_in_place(system, &temporary, path)
}

/// Give a temporary file its name, durably. Answers false when the name was taken.
pub(crate) fn put_in_place(system: &dyn FileSystem, temporary: &Path, path: &Path) -> crate::Result<bool> {
    let directory = path.parent().unwrap_or(Path::new("."));
    if !rename_if_free(system, temporary, path)? {
        return Ok(false);
    }
    system.sync_names(directory)?;
    Ok(true)
}

/// Give a temporary file its name, which is not durable on return. Answers false when the name was
/// taken.
pub(crate) fn rename_if_free(system: &dyn FileSystem, temporary: &Path, path: &Path) -> crate::Result<bool> {
    let linked = system.link_if_free(temporary, path);
    // The temporary name is no longer needed; if removing it fails, maintenance collects it.
    let removed = system.remove_if_there(temporary);
    if !linked? {
        return Ok(false);
    }
    removed.map(|()| true)
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
