//! Files of objects that stay on a local disk, for all handles of a machine: a file is fetched
//! once.
//!
//! Only objects that never change are kept: those that whole files are stored in. Each has a file
//! of its own here, which replicas link. What is in use by no replica goes, the oldest first, once
//! all files together are larger than the bound.

use std::fs::{self, File, FileTimes, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::{Listed, ObjectStore, Put};
use crate::sys::interrupt;
use crate::{Error, Result};

const FILE: &str = "object-";
const LOCK: &str = ".lock";
const PART: &str = ".part";
/// How long to wait for another process's download, and how often to look. One that was stopped in
/// the middle would keep everybody waiting.
const PATIENCE: Duration = Duration::from_secs(if cfg!(any(test, feature = "small")) { 2 } else { 30 });
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// An object store with a cache in front.
#[derive(Debug)]
pub struct Cached<S> {
    store: S,
    /// What tells this place from others in the same directory.
    place: String,
    directory: PathBuf,
    most_bytes: u64,
}

impl<S: ObjectStore> Cached<S> {
    /// A cache of at most `most_bytes` in `directory`, which is on the file system of the replicas.
    pub fn new(store: S, place: &str, directory: &Path, most_bytes: u64) -> Self {
        Self { store, place: place.to_owned(), directory: directory.to_path_buf(), most_bytes }
    }

    fn path(&self, name: &str) -> PathBuf {
        let hash = xxhash_rust::xxh3::xxh3_128(format!("{}\n{name}", self.place).as_bytes());
        self.directory.join(format!("{FILE}{hash:032x}"))
    }

    /// Give the file of an object a name in a replica, if it is here.
    fn link(&self, name: &str, to: &Path) -> io::Result<()> {
        let kept = self.path(name);
        fs::hard_link(&kept, to)?;
        let now = FileTimes::new().set_modified(SystemTime::now());
        // It only decides what goes first.
        drop(File::options().write(true).open(&kept).and_then(|file| file.set_times(now)));
        Ok(())
    }

    /// Keep a replica's file for others. If that fails, it is fetched again one day.
    fn keep(&self, name: &str, from: &Path) {
        if fs::hard_link(from, self.path(name)).is_ok() {
            drop(self.evict());
        }
    }

    /// Remove what is in use nowhere, the oldest first, until the rest is within the bound.
    fn evict(&self) -> io::Result<()> {
        let mut files = Vec::new();
        let mut sum = 0;
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if !name.to_string_lossy().starts_with(FILE) {
                continue;
            }
            let Ok(found) = entry.metadata() else { continue };
            sum += found.len();
            files.push((found.modified()?, found.len(), found.nlink(), entry.path()));
        }
        files.sort();
        for (modified, length, links, path) in files {
            let name = path.to_string_lossy();
            let is_aside = name.ends_with(LOCK) || name.ends_with(PART);
            let is_old = modified.elapsed().is_ok_and(|age| age > Duration::from_secs(3_600));
            // A process that died left the latter.
            if is_aside && is_old || !is_aside && links == 1 && sum > self.most_bytes {
                fs::remove_file(&path)?;
                sum -= length;
            }
        }
        Ok(())
    }
}

impl<S: ObjectStore> ObjectStore for Cached<S> {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        self.store.put_new(name, bytes)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.store.put(name, bytes)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.store.get(name)
    }

    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>> {
        self.store.get_range(name, offset, length)
    }

    fn put_file(&self, name: &str, path: &Path) -> Result<Put> {
        let put = self.store.put_file(name, path)?;
        self.keep(name, path);
        Ok(put)
    }

    fn get_file(&self, name: &str, path: &Path, bytes: u64) -> Result<bool> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if self.link(name, path).is_ok() {
            return Ok(true);
        }
        let kept = self.path(name);
        let aside = |ending: &str| PathBuf::from(format!("{}{ending}", kept.display()));
        // One download at a time on a machine; without the lock there are two.
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(aside(LOCK));
        let locked = lock.ok().map(locked_in_time).transpose()?.flatten();
        if self.link(name, path).is_ok() {
            return Ok(true);
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let part = aside(&format!(".{}.{count}{PART}", std::process::id()));
        let found = self.store.get_file(name, &part, bytes).and_then(|is_there| {
            if is_there {
                fs::rename(&part, path).map_err(Error::io("rename", &part))?;
                self.keep(name, path);
            }
            Ok(is_there)
        });
        drop(fs::remove_file(&part));
        if locked.is_some() {
            drop(fs::remove_file(aside(LOCK)));
        }
        found
    }

    fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.store.list(prefix)
    }

    fn delete(&self, name: &str) -> Result<()> {
        drop(fs::remove_file(self.path(name)));
        self.store.delete(name)
    }

    fn place(&self) -> String {
        self.store.place()
    }

    fn lanes(&self) -> usize {
        self.store.lanes()
    }

    fn takes_threads(&self) -> bool {
        self.store.takes_threads()
    }

    fn forget(&self, name: &str) {
        drop(fs::remove_file(self.path(name)));
        self.store.forget(name);
    }

    fn pause(&self, duration: Duration) {
        self.store.pause(duration);
    }
}
/// The lock of a download, taken; none if it cannot be had, or somebody else holds it for too long.
fn locked_in_time(lock: File) -> Result<Option<File>> {
    let end = Instant::now() + PATIENCE;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(Some(lock)),
            Err(TryLockError::WouldBlock) if Instant::now() < end => interrupt::check()?,
            Err(_) => return Ok(None),
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_is_waited_for_but_not_without_end() {
        let directory = tempfile::tempdir().unwrap();
        let open = || File::create(directory.path().join("object-1.lock")).unwrap();
        let held = open();
        held.lock().unwrap();
        assert!(locked_in_time(open()).unwrap().is_none());
        let waiting = open();
        let waited = std::thread::spawn(move || locked_in_time(waiting));
        drop(held);
        assert!(waited.join().unwrap().unwrap().is_some());
        let interrupted = interrupt::listening(
            || true,
            || {
                let _held = locked_in_time(open()).unwrap();
                std::thread::sleep(interrupt::SLICE);
                locked_in_time(open())
            },
        );
        assert!(matches!(interrupted, Err(Error::Interrupted)));
    }
}
