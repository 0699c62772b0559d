//! The writer lock. It is held for one operation, and dies with its holder.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::alone::{self, Alone};
use super::lock::{Guard, Lock};
use crate::format::names::WRITER_LOCK;
use crate::io::{FileId, FileSystem};
use crate::{Error, Result};

/// Offset of the holder's name in the lock file; the watermark is before it.
const HOLDER_AT: u64 = 64;
const HOLDER_BYTES: usize = 192;
const WATERMARK_BYTES: usize = 24;
const MAGIC: [u8; 4] = *b"DHTN";
/// Offset of the record of a failed sync.
const FAILED_AT: u64 = 32;

/// The lock file of a key space: its lock, who holds it, and how far the log is durable.
#[derive(Debug)]
pub(crate) struct WriterLock {
    lock: Lock,
    /// The identity of that file: a lock on another file under its name excludes nobody.
    file: FileId,
    alone: Alone,
}

/// The held lock; dropping it releases it.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    lock: &'a WriterLock,
    _guard: Guard<'a>,
}

impl Taken<'_> {
    /// Before something is changed, and afterwards: no other process holds the lock, too.
    pub(crate) fn check_alone(&self) -> Result<()> {
        self.lock.alone.check(self.lock.lock.file())
    }

    /// Whether the log must be ended before anything is appended: somebody who holds the lock, too,
    /// may be about to write to it.
    pub(crate) fn must_end_log(&self) -> bool {
        !self.lock.alone.is_clean()
    }

    /// The log was ended, and the one that follows it is ours.
    pub(crate) fn ended_log(&self) {
        self.lock.alone.became_clean();
    }

    /// Another writer published what we were about to.
    pub(crate) fn lost(&self) {
        self.lock.alone.lost();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Before the lock is released, which happens after this.
        let WriterLock { lock, alone, .. } = self.lock;
        alone.leave(lock.file());
    }
}

/// A lock that outlasts a call. Its file is opened for it alone, so that it excludes the threads of
/// its own process too.
#[derive(Debug)]
pub(crate) struct Held {
    lock: WriterLock,
    /// The process that took it: a forked one has the same lock, and must not release it.
    process: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        if std::process::id() == self.process {
            self.lock.lock.release();
        }
    }
}

impl WriterLock {
    pub(crate) fn open(system: &dyn FileSystem, directory: &Path) -> Result<Self> {
        let path = directory.join(WRITER_LOCK);
        let lock = Self::named(system, &path)?;
        alone::probe(system, &path)?;
        Ok(lock)
    }

    /// A lock of another name, which does not block writers.
    pub(crate) fn named(system: &dyn FileSystem, path: &Path) -> Result<Self> {
        let lock = Lock::open(system, path)?;
        let file = lock.file().identity()?;
        Ok(Self { file, alone: Alone::new(system, path, file)?, lock })
    }

    /// Wait for the lock, for `limit` at most, and hold it as long as the answer lives.
    pub(crate) fn hold(self, limit: Duration) -> Result<Held> {
        if !self.lock.acquire(limit, || {})? {
            return Err(self.locked(limit));
        }
        let held = Held { lock: self, process: std::process::id() };
        held.lock.sign(&[])?;
        Ok(held)
    }

    /// The error of a wait without success.
    fn locked(&self, limit: Duration) -> Error {
        let (path, waited_ms) = (self.lock.path().to_path_buf(), limit.as_millis() as u64);
        Error::Locked { path, waited_ms, holder: self.holder() }
    }

    /// Wait for the lock, for `limit` at most; calls `meanwhile` repeatedly while it waits.
    pub(crate) fn take(&self, system: &dyn FileSystem, limit: Duration, meanwhile: impl FnMut()) -> Result<Taken<'_>> {
        let Some(guard) = self.lock.take(limit, meanwhile)? else {
            return Err(self.locked(limit));
        };
        self.alone.arrive(system, self.lock.file())?;
        let taken = Taken { lock: self, _guard: guard };
        self.sign(&self.alone.entry())?;
        self.check_in_place(system)?;
        Ok(taken)
    }

    /// The lock excludes only processes that find it under its name.
    fn check_in_place(&self, system: &dyn FileSystem) -> Result<()> {
        let path = self.lock.path();
        let there = system.identity(path)?;
        if there == Some(self.file) { Ok(()) } else { Err(Error::replaced(path)) }
    }

    /// The identity of the lock file.
    pub(crate) fn file(&self) -> FileId {
        self.file
    }

    /// Leave our name for those who wait, and `entry` behind it.
    fn sign(&self, entry: &[u8]) -> Result<()> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let mut text = format!("{} process {} since {since}", host(), std::process::id()).into_bytes();
        text.resize(HOLDER_BYTES, 0);
        text.extend(entry);
        self.lock.file().write(&text, HOLDER_AT)
    }

    fn holder(&self) -> String {
        let mut text = [0; HOLDER_BYTES];
        if self.lock.file().read(&mut text, HOLDER_AT).is_err() {
            return "an unknown process".into();
        }
        let text = String::from_utf8_lossy(&text);
        let text = text.trim_end_matches('\0');
        match text.rsplit_once(" since ").and_then(|(who, since)| Some((who, since.parse::<i64>().ok()?))) {
            Some((who, since)) => format!("{who} since {}", crate::sys::time::format_us(since)),
            None => text.to_owned(),
        }
    }

    /// Record that log `log` is durable up to `durable`. Not synced: after a power loss it may be
    /// lower than the truth, never higher.
    pub(crate) fn set_watermark(&self, log: u64, durable: u64) -> Result<()> {
        self.record(0, log, durable)
    }

    /// How far log `log` is known to be durable; 0 when the file does not tell.
    pub(crate) fn watermark(&self, log: u64) -> u64 {
        let mut bytes = [0; WATERMARK_BYTES];
        let read = self.lock.file().read(&mut bytes, 0);
        read.ok().and_then(|()| decoded(bytes, log)).unwrap_or(0)
    }

    /// Record that a sync of log `log` failed. Readers, which cannot repair that, must not rely on
    /// data beyond the watermark.
    pub(crate) fn set_failed(&self, log: u64) -> Result<()> {
        self.record(FAILED_AT, log, 0)
    }

    /// Record nothing of any log: no log has the number 0. Durable on return.
    pub(crate) fn forget_logs(&self) -> Result<()> {
        self.set_watermark(0, 0)?;
        self.set_failed(0)?;
        self.lock.file().sync()
    }

    fn record(&self, at: u64, log: u64, durable: u64) -> Result<()> {
        let mut bytes = [0; WATERMARK_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&log.to_le_bytes());
        bytes[16..].copy_from_slice(&durable.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        self.lock.file().write(&bytes, at)
    }
}

/// How far log `log` is known to be durable, according to the lock file in `directory`; 0 when it
/// does not tell.
pub(crate) fn watermark(system: &dyn FileSystem, directory: &Path, log: u64) -> u64 {
    recorded(system, directory, 0, log).unwrap_or(0)
}

/// Whether a sync of log `log` is known to have failed.
pub(crate) fn has_failed(system: &dyn FileSystem, directory: &Path, log: u64) -> bool {
    recorded(system, directory, FAILED_AT, log).is_some()
}

fn recorded(system: &dyn FileSystem, directory: &Path, at: u64, log: u64) -> Option<u64> {
    let mut bytes = [0; WATERMARK_BYTES];
    let read = system.open(&directory.join(WRITER_LOCK), false).and_then(|file| file.read_at(&mut bytes, at));
    read.ok().and_then(|()| decoded(bytes, log))
}

/// The record for log `log`.
fn decoded(bytes: [u8; WATERMARK_BYTES], log: u64) -> Option<u64> {
    let field = |at: usize| bytes[at..].first_chunk().map_or(0, |field| u64::from_le_bytes(*field));
    let sum = bytes[4..].first_chunk().map_or(0, |sum| u32::from_le_bytes(*sum));
    let is_good = bytes[..4] == MAGIC && crc32c::crc32c(&bytes[8..]) == sum;
    (is_good && field(8) == log).then(|| field(16))
}

/// This machine's name.
fn host() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name: String = name.trim().chars().take(64).collect();
        if name.is_empty() { "this host".into() } else { name }
    })
}
