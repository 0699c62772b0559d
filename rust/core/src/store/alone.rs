//! Proof that nobody else holds the lock, for file systems whose locks do not exclude.
//!
//! Two registers stand in the lock file. Each writer that takes the lock writes its name into
//! `LATEST`, then looks whether `WITHIN` is free, then writes its name there, and before it changes
//! anything reads `LATEST` again (Lamport's fast mutual exclusion, of which this is the part that
//! notices). A writer that leaves says in `WITHIN` which of its visits ended.
//!
//! A writer is *clean* if the one that came last also left last, and nothing moved while it
//! arrived. Of two clean writers at most one changes anything. Any other writer may stand beside
//! one that sleeps between its check and its append: it ends the log first, by a manifest whose
//! name is given once, so that the sleeper's frame ends up in a log that nobody reads. After each
//! change `LATEST` is read once more, so that the sleeper does not acknowledge it.
//! `tests/alone_model.rs` searches all interleavings. Where locks exclude, only a writer that died
//! while it held the lock costs a log.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::io::{FileId, FileSystem, NamedFile, ProcessId};
use crate::{Error, Result};

/// Where the registers stand in the lock file: behind the holder's text, so that one write serves
/// for both.
const WITHIN_AT: u64 = 256;
const LATEST_AT: u64 = 320;
/// Bytes of `WITHIN`: who is, and behind it which visit ended last.
const WITHIN: usize = 64;
const LEFT_AT: usize = 56;
const LATEST: usize = 16;
const BOTH: usize = (LATEST_AT - WITHIN_AT) as usize + LATEST;
/// Number of reads that must show no change while a writer is in `WITHIN` that is not known to be
/// dead.
const LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// One handle's name among all that take this lock.
#[derive(Debug)]
pub(super) struct Alone {
    name: [u8; LATEST],
    process: ProcessId,
    /// The lock file: the registers in a copy of it mean nothing.
    file: u64,
    /// Visits of this handle, and the one in which it last wrote to `LATEST`: what it wrote there
    /// in an earlier visit is not it any more.
    visit: AtomicU32,
    came_in: AtomicU32,
    /// Whether `LATEST` was ours when we looked last.
    is_sure: AtomicBool,
    /// Whether only clean writers can be at work in the log that we write to.
    is_clean: AtomicBool,
}

/// The content of the registers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Registers([u8; BOTH]);

impl Registers {
    fn read(file: &NamedFile) -> Result<Self> {
        let mut bytes = [0; BOTH];
        // A file of an older build is shorter: `WITHIN` is free.
        file.read_up_to(&mut bytes, WITHIN_AT)?;
        Ok(Self(bytes))
    }

    fn latest(&self) -> &[u8] {
        &self.0[BOTH - LATEST..]
    }

    fn within(&self) -> &[u8] {
        &self.0[..WITHIN]
    }

    fn is_free(&self) -> bool {
        self.within()[..LEFT_AT].iter().all(|byte| *byte == 0)
    }

    /// Whether the writer that came last has left, and nobody has been refused since.
    fn is_clean(&self) -> bool {
        let (left, latest) = (&self.within()[LEFT_AT..], self.latest());
        let is_unused = left == [0; WITHIN - LEFT_AT] && latest == [0; LATEST];
        let is_left = left[4..] != [0; 4] && left[..4] == crc32c::crc32c(latest).to_le_bytes();
        self.is_free() && (is_unused || is_left)
    }

    /// The process in `WITHIN`; none where that cannot be read.
    fn process(&self) -> Option<ProcessId> {
        let is_good = self.field(48) == u64::from(crc32c::crc32c(&self.within()[..48]));
        is_good.then(|| ProcessId { place: self.field(16), number: self.field(24), started: self.field(32) })
    }

    fn field(&self, at: usize) -> u64 {
        self.within()[at..].first_chunk().map_or(0, |field| u64::from_le_bytes(*field))
    }
}

impl Alone {
    pub(super) fn new(system: &dyn FileSystem, path: &Path, file: FileId) -> Result<Self> {
        let mut name = [0; LATEST];
        system.randomness_for(path, &mut name)?;
        let mut id = [0; 24];
        id[..8].copy_from_slice(&file.number.to_le_bytes());
        id[8..].copy_from_slice(&file.born_ns.to_le_bytes());
        let file = xxhash_rust::xxh3::xxh3_64(&id);
        let (visit, came_in) = (AtomicU32::new(0), AtomicU32::new(0));
        let (is_sure, is_clean) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { name, process: system.process(), file, visit, came_in, is_sure, is_clean })
    }

    /// What stands in `LATEST` while nobody has come after us.
    fn latest(&self) -> [u8; LATEST] {
        let mut bytes = self.name;
        bytes[12..].copy_from_slice(&self.came_in.load(Ordering::Relaxed).to_le_bytes());
        bytes
    }

    /// The content of `WITHIN` while we hold it.
    pub(super) fn entry(&self) -> [u8; WITHIN] {
        let mut bytes = [0; WITHIN];
        bytes[..LATEST].copy_from_slice(&self.name);
        let ProcessId { place, number, started } = self.process;
        for (at, field) in [(16, place), (24, number), (32, started), (40, self.file)] {
            bytes[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }
        let sum = u64::from(crc32c::crc32c(&bytes[..48]));
        bytes[48..LEFT_AT].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// We hold the lock: announce this writer, and make sure that no writer in `WITHIN` can still
    /// be alive.
    pub(super) fn arrive(&self, system: &dyn FileSystem, file: &NamedFile) -> Result<()> {
        self.is_sure.store(false, Ordering::Relaxed);
        self.is_clean.store(false, Ordering::Relaxed);
        let visit = self.visit.load(Ordering::Relaxed).wrapping_add(1).max(1);
        self.visit.store(visit, Ordering::Relaxed);
        let before = Registers::read(file)?;
        let mut seen = before;
        if seen.latest() != self.latest() {
            self.came_in.store(visit, Ordering::Relaxed);
            file.write(&self.latest(), LATEST_AT)?;
            seen = Registers::read(file)?;
        }
        self.is_clean.store(before.is_clean() && seen.within() == before.within(), Ordering::Relaxed);
        // Our own name may have stayed there when we lost to another.
        if seen.is_free() || seen.within()[..LATEST] == self.name {
            return Ok(());
        }
        let process = seen.process();
        if process.is_some() && seen.field(40) != self.file {
            return Ok(());
        }
        Self::watch(system, file, seen, || process.and_then(|process| system.is_alive(&process)))
    }

    /// A writer is in `WITHIN`: wait for its end. A process that is killed lets its locks go a
    /// moment before the system calls it dead. Where nobody can tell whether the writer is alive:
    /// if it is, the registers change.
    fn watch(
        system: &dyn FileSystem,
        file: &NamedFile,
        seen: Registers,
        is_alive: impl Fn() -> Option<bool>,
    ) -> Result<()> {
        for _ in 0..LOOKS {
            if is_alive() == Some(false) {
                return Ok(());
            }
            system.pause(BETWEEN_LOOKS);
            if Registers::read(file)? != seen {
                return Err(Error::not_alone(&file.path, "another writer works at the same time"));
            }
        }
        if is_alive() == Some(true) {
            return Err(Error::not_alone(&file.path, "another writer works under the same lock"));
        }
        Ok(())
    }

    /// Whether nobody else can be about to append where we would.
    pub(super) fn is_clean(&self) -> bool {
        self.is_clean.load(Ordering::Relaxed)
    }

    /// We published a log that is ours.
    pub(super) fn became_clean(&self) {
        self.is_clean.store(true, Ordering::Relaxed);
    }

    /// Another writer published what we were about to.
    pub(super) fn lost(&self) {
        self.is_sure.store(false, Ordering::Relaxed);
        self.is_clean.store(false, Ordering::Relaxed);
    }

    /// Before anything is changed, and afterwards: nobody has come since we arrived.
    pub(super) fn check(&self, file: &NamedFile) -> Result<()> {
        if Registers::read(file)?.latest() == self.latest() {
            self.is_sure.store(true, Ordering::Relaxed);
            return Ok(());
        }
        self.is_sure.store(false, Ordering::Relaxed);
        Err(Error::not_alone(&file.path, "another writer took the same lock"))
    }

    /// Clear our name.
    pub(super) fn leave(&self, file: &NamedFile) {
        let look = || Registers::read(file).or_else(|_| Registers::read(file));
        let mut gone = [0; WITHIN];
        let is_sure = self.is_sure.load(Ordering::Relaxed)
            || look().is_ok_and(|seen| seen.within()[..LATEST] == self.name && seen.latest() == self.latest());
        if is_sure && self.is_clean() {
            gone[LEFT_AT..LEFT_AT + 4].copy_from_slice(&crc32c::crc32c(&self.latest()).to_le_bytes());
            gone[LEFT_AT + 4..].copy_from_slice(&self.visit.load(Ordering::Relaxed).to_le_bytes());
        } else if !look().is_ok_and(|seen| seen.within()[..LATEST] == self.name) {
            // What stands there is another's.
            return;
        }
        // Zeros alone let others in, but not as clean ones. As long as the entry names us, nobody
        // else gets in: retry once if clearing it fails.
        if file.write(&gone, WITHIN_AT).is_err() {
            drop(file.write(&gone, WITHIN_AT));
        }
    }
}

/// Whether a file's lock keeps a second open file out. Cheap: this runs for every trigger that is
/// opened for writing.
pub(crate) fn probe(system: &dyn FileSystem, path: &Path) -> Result<()> {
    let is_exclusive = || -> std::io::Result<bool> {
        let open = || system.open(path, true).or_else(|_| system.open(path, false));
        let (first, second) = (open()?, open()?);
        if !first.try_lock()? {
            // Another process has the lock, and we do not get it.
            return Ok(true);
        }
        let excludes = !second.try_lock()?;
        drop((first.unlock(), second.unlock()));
        Ok(excludes)
    };
    // Where a file cannot be locked at all (for lack of a right, say), the next write reports it.
    if is_exclusive().unwrap_or(true) { Ok(()) } else { Err(lies(path)) }
}

/// [`probe`], with a second process too, where one can be started.
pub(crate) fn probe_among_processes(system: &dyn FileSystem, path: &Path) -> Result<()> {
    probe(system, path)?;
    let Ok(file) = system.open(path, true) else { return Ok(()) };
    if !file.try_lock().unwrap_or(false) {
        return Ok(());
    }
    let excludes = system.excludes_processes(path);
    drop(file.unlock());
    if excludes == Some(false) { Err(lies(path)) } else { Ok(()) }
}

fn lies(path: &Path) -> Error {
    Error::not_alone(path, "the lock of this file was given twice")
}
