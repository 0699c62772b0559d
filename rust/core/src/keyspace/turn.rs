//! The writers' turn: a lock that is held for one operation, and dies with its holder.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::io::{File, FileSystem};
use crate::{Error, Result};

/// Where the holder's name stands in the turn file; before it stands the watermark.
const HOLDER_AT: u64 = 64;
const HOLDER_BYTES: usize = 192;
const WATERMARK_BYTES: usize = 24;
const MAGIC: [u8; 4] = *b"DHTN";
/// Where the record of a failed sync stands.
const FAILED_AT: u64 = 32;

/// The turn file of a key space: its lock, who holds it, and how far the log is durable.
#[derive(Debug)]
pub(crate) struct Turn {
    path: PathBuf,
    file: Arc<dyn File>,
    /// The threads of this process queue here; the file's lock is for the other processes.
    queue: Mutex<()>,
}

/// The turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Guard<'a> {
    turn: &'a Turn,
    _queue: MutexGuard<'a, ()>,
}

/// A turn that outlasts a call. Its file is open for it alone, so that it excludes the threads of its own process too.
#[derive(Debug)]
pub(crate) struct Held {
    turn: Turn,
}

impl Drop for Held {
    fn drop(&mut self) {
        // As with a guard; and closing the file gives the lock back anyway.
        drop(self.turn.file.unlock());
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // If this fails the lock stays until the file is closed: others wait and are told who holds it.
        drop(self.turn.file.unlock());
    }
}

impl Turn {
    pub(crate) const FILE_NAME: &'static str = "turn";

    pub(crate) fn open(system: &dyn FileSystem, path: &Path) -> Result<Self> {
        let opened = match system.open(path, true) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => match system.create(path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => system.open(path, true),
                other => other,
            },
            other => other,
        };
        let file = opened.map_err(Error::io("open", path))?;
        Ok(Self { path: path.to_path_buf(), file, queue: Mutex::new(()) })
    }

    /// Wait for the turn, for `limit` at most.
    pub(crate) fn take(&self, limit: Duration) -> Result<Guard<'_>> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.wait(limit)?;
        let guard = Guard { turn: self, _queue: queue };
        self.sign()?;
        Ok(guard)
    }

    /// Wait for the turn, and keep it as long as the answer lives.
    pub(crate) fn hold(self, limit: Duration) -> Result<Held> {
        self.wait(limit)?;
        let held = Held { turn: self };
        held.turn.sign()?;
        Ok(held)
    }

    fn wait(&self, limit: Duration) -> Result<()> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(20);
        while !self.file.try_lock().map_err(Error::io("lock", &self.path))? {
            let waited = start.elapsed();
            if waited >= limit {
                let waited_ms = waited.as_millis() as u64;
                return Err(Error::Locked { path: self.path.clone(), waited_ms, holder: self.holder() });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Leave our name for those who wait.
    fn sign(&self) -> Result<()> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let mut text = format!("{} process {} since {since}", host(), std::process::id()).into_bytes();
        text.resize(HOLDER_BYTES, 0);
        self.file.write_at(&text, HOLDER_AT).map_err(Error::io("write", &self.path))
    }

    fn holder(&self) -> String {
        let mut text = [0; HOLDER_BYTES];
        if self.file.read_at(&mut text, HOLDER_AT).is_err() {
            return "an unknown process".into();
        }
        let text = String::from_utf8_lossy(&text);
        let text = text.trim_end_matches('\0');
        match text.rsplit_once(" since ").and_then(|(who, since)| Some((who, since.parse::<i64>().ok()?))) {
            Some((who, since)) => format!("{who} since {}", crate::time::format_us(since)),
            None => text.to_owned(),
        }
    }

    /// Remember that log `log` is durable up to `durable`. Not synced, so after a power loss it may say less than the truth,
    /// never more.
    pub(crate) fn set_watermark(&self, log: u64, durable: u64) -> Result<()> {
        self.record(0, log, durable)
    }

    /// Remember that a sync of log `log` failed: readers, who cannot mend it, must not rely on what is beyond the watermark.
    pub(crate) fn set_failed(&self, log: u64) -> Result<()> {
        self.record(FAILED_AT, log, 0)
    }

    fn record(&self, at: u64, log: u64, durable: u64) -> Result<()> {
        let mut bytes = [0; WATERMARK_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&log.to_le_bytes());
        bytes[16..].copy_from_slice(&durable.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        self.file.write_at(&bytes, at).map_err(Error::io("write", &self.path))
    }
}

/// How far log `log` is known to be durable, by the turn file in `directory`; 0 when it does not say.
pub(crate) fn watermark(system: &dyn FileSystem, directory: &Path, log: u64) -> u64 {
    recorded(system, directory, 0, log).unwrap_or(0)
}

/// Whether a sync of log `log` is known to have failed.
pub(crate) fn has_failed(system: &dyn FileSystem, directory: &Path, log: u64) -> bool {
    recorded(system, directory, FAILED_AT, log).is_some()
}

fn recorded(system: &dyn FileSystem, directory: &Path, at: u64, log: u64) -> Option<u64> {
    let mut bytes = [0; WATERMARK_BYTES];
    let read = system.open(&directory.join(Turn::FILE_NAME), false).and_then(|file| file.read_at(&mut bytes, at));
    let field = |at: usize| bytes[at..].first_chunk().map_or(0, |field| u64::from_le_bytes(*field));
    let sum = bytes[4..].first_chunk().map_or(0, |sum| u32::from_le_bytes(*sum));
    let is_good = read.is_ok() && bytes[..4] == MAGIC && crc32c::crc32c(&bytes[8..]) == sum;
    (is_good && field(8) == log).then(|| field(16))
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().take(64).collect();
    if name.is_empty() { "this host".into() } else { name }
}
