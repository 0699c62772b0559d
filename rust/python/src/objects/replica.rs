//! The local copy of a history in a bucket. It belongs to one handle and holds nothing that the
//! bucket lacks.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::IDENTITY;
use dochistory_core::Error;

const PREFIX: &str = "dochistory-replica-";
const LOCK: &str = "lock";

/// A directory that is removed with this value. If the process dies first, the next one that opens
/// a history with the same cache removes it.
pub(crate) struct Replica {
    url: String,
    directory: PathBuf,
    lock: PathBuf,
    /// Locked as long as the replica is in use.
    _locked: File,
    /// The process that made it: a forked one must not remove it.
    process: u32,
}

impl Replica {
    /// A new directory in `cache`, or where the system keeps temporary files.
    pub(crate) fn make(url: &str, cache: Option<PathBuf>) -> dochistory_core::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let cache = cache.unwrap_or_else(std::env::temp_dir);
        let refused = |source| Error::Io { operation: "make a replica in", path: cache.clone(), source };
        std::fs::create_dir_all(&cache).map_err(refused)?;
        sweep(&cache);
        let process = std::process::id();
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = cache.join(format!("{PREFIX}{process}-{clock:x}-{count}"));
        let lock = directory.with_extension(LOCK);
        let locked = OpenOptions::new().write(true).create_new(true).open(&lock).map_err(refused)?;
        locked.lock().map_err(refused)?;
        DirBuilder::new().mode(0o700).create(&directory).map_err(refused)?;
        Ok(Self { url: url.to_owned(), directory, lock, _locked: locked, process })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether nobody has deleted it. Who cleans up goes by age, and this file is as old as it.
    pub(crate) fn is_there(&self) -> bool {
        self.directory.join(IDENTITY).exists()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if std::process::id() == self.process {
            drop(remove(&self.directory, &self.lock));
        }
    }
}

fn remove(directory: &Path, lock: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::remove_file(lock)
}

/// Remove what processes left that died. Whatever cannot be removed stays.
fn sweep(cache: &Path) {
    let Ok(entries) = std::fs::read_dir(cache) else { return };
    for entry in entries.flatten() {
        let lock = entry.path();
        let is_lock = lock.extension().is_some_and(|extension| extension == LOCK)
            && entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !is_lock {
            continue;
        }
        let Ok(file) = File::open(&lock) else { continue };
        if file.try_lock().is_ok() {
            drop(remove(&lock.with_extension(""), &lock));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str) -> PathBuf {
        let cache = std::env::temp_dir().join(format!("dochistory-cache-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&cache));
        cache
    }

    fn count(cache: &Path) -> usize {
        std::fs::read_dir(cache).unwrap().count()
    }

    #[test]
    fn a_replica_ends_with_its_value() {
        let cache = cache("ends");
        let one = Replica::make("s3://b/x", Some(cache.clone())).unwrap();
        let two = Replica::make("s3://b/x", Some(cache.clone())).unwrap();
        assert_ne!(one.directory(), two.directory());
        assert!(one.directory().is_dir());
        drop((one, two));
        assert_eq!(count(&cache), 0);
        std::fs::remove_dir_all(cache).unwrap();
    }

    #[test]
    fn what_a_dead_process_left_is_swept_and_the_rest_is_not() {
        let cache = cache("swept");
        let live = Replica::make("s3://b/x", Some(cache.clone())).unwrap();
        let dead = cache.join(format!("{PREFIX}1-0-0"));
        std::fs::create_dir(&dead).unwrap();
        std::fs::write(dead.join("segment"), b"x").unwrap();
        std::fs::write(dead.with_extension(LOCK), b"").unwrap();
        std::fs::create_dir(cache.join("of-somebody-else")).unwrap();
        let next = Replica::make("s3://b/x", Some(cache.clone())).unwrap();
        assert!(!dead.exists());
        assert!(live.directory().is_dir() && next.directory().is_dir());
        assert!(cache.join("of-somebody-else").is_dir());
        drop((live, next));
        std::fs::remove_dir_all(cache).unwrap();
    }
}
