//! Proof that nobody else holds the lock, should the file system's locks only say yes.
//!
//! Two registers stand in the lock file. Each writer that takes the lock writes its name into
//! `LATEST`, then looks whether `WITHIN` is free, then writes its name there, and before it changes
//! anything reads `LATEST` again. Of two who are at it at once each either sees the other's name in
//! `WITHIN`, or the other sees that `LATEST` is no longer its own: at most one changes anything
//! (Lamport's fast mutual exclusion, of which this is the part that notices). Where locks exclude,
//! both registers are always as they should be, but for a writer that died with it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::io::{FileId, FileSystem, NamedFile, ProcessId};
use crate::{Error, Result};

/// Where the registers stand in the lock file: behind the holder's text, so that one write serves
/// for both.
pub(super) const WITHIN_AT: u64 = 256;
const LATEST_AT: u64 = 320;
/// Bytes of `WITHIN`.
pub(super) const WITHIN: usize = 56;
const LATEST: usize = 16;
const BOTH: usize = (LATEST_AT - WITHIN_AT) as usize + LATEST;
/// Of a writer that cannot be asked whether it is alive, so many looks must show no change.
const LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// One handle's name among all that take this lock.
#[derive(Debug)]
pub(super) struct Alone {
    name: [u8; LATEST],
    process: ProcessId,
    /// The lock file: a copy of it says nothing of those who are within there.
    file: u64,
    /// Whether `WITHIN` is known to be ours until we leave.
    is_sure: AtomicBool,
}

/// What the registers say.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Registers([u8; BOTH]);

impl Registers {
    fn read(file: &NamedFile) -> Result<Self> {
        let mut bytes = [0; BOTH];
        // A file of an older build is shorter: nobody is within.
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
        self.within().iter().all(|byte| *byte == 0)
    }

    /// The process that is within; none where that cannot be read.
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
        let (file, is_sure) = (xxhash_rust::xxh3::xxh3_64(&id), AtomicBool::new(false));
        Ok(Self { name, process: system.process(), file, is_sure })
    }

    /// What stands in `WITHIN` while we are.
    pub(super) fn entry(&self) -> [u8; WITHIN] {
        let mut bytes = [0; WITHIN];
        bytes[..LATEST].copy_from_slice(&self.name);
        let ProcessId { place, number, started } = self.process;
        for (at, field) in [(16, place), (24, number), (32, started), (40, self.file)] {
            bytes[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }
        let sum = u64::from(crc32c::crc32c(&bytes[..48]));
        bytes[48..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// We hold the lock: say that we come, and make sure that nobody is within who can still be
    /// alive.
    pub(super) fn arrive(&self, system: &dyn FileSystem, file: &NamedFile) -> Result<()> {
        self.is_sure.store(false, Ordering::Relaxed);
        let mut seen = Registers::read(file)?;
        if seen.latest() != self.name {
            file.write(&self.name, LATEST_AT)?;
            seen = Registers::read(file)?;
        }
        // Our own name may have stayed there when we lost to another.
        if seen.is_free() || seen.within()[..LATEST] == self.name {
            return Ok(());
        }
        let process = seen.process();
        if process.is_some() && seen.field(40) != self.file {
            return Ok(());
        }
        match process.and_then(|process| system.is_alive(&process)) {
            Some(false) => Ok(()),
            // Whoever is alive and within may be about to leave only if the lock lies.
            Some(true) => Err(Error::not_alone(&file.path, "another writer is at work under the same lock")),
            None => Self::watch(system, file, seen),
        }
    }

    /// Nobody can say whether the writer within is alive: if it is, it moves.
    fn watch(system: &dyn FileSystem, file: &NamedFile, seen: Registers) -> Result<()> {
        for _ in 0..LOOKS {
            system.pause(BETWEEN_LOOKS);
            if Registers::read(file)? != seen {
                return Err(Error::not_alone(&file.path, "another writer is at it at the same time"));
            }
        }
        Ok(())
    }

    /// Before anything is changed: nobody has come since we arrived.
    pub(super) fn check(&self, file: &NamedFile) -> Result<()> {
        if Registers::read(file)?.latest() == self.name {
            self.is_sure.store(true, Ordering::Relaxed);
            return Ok(());
        }
        self.is_sure.store(false, Ordering::Relaxed);
        Err(Error::not_alone(&file.path, "another writer took the same lock"))
    }

    /// We are done.
    pub(super) fn leave(&self, file: &NamedFile) {
        // Who lost must not clear what a winner may have written over it since: only while nobody
        // has come after us. What stays there keeps others out, so one look that fails is not
        // enough.
        let is_ours = || {
            let seen = Registers::read(file);
            seen.is_ok_and(|seen| seen.within()[..LATEST] == self.name && seen.latest() == self.name)
        };
        if !self.is_sure.load(Ordering::Relaxed) && !is_ours() && !is_ours() {
            return;
        }
        let gone = [0; WITHIN];
        // As long as it says that we are within, nobody else gets in: so once more, should it fail.
        if file.write(&gone, WITHIN_AT).is_err() {
            drop(file.write(&gone, WITHIN_AT));
        }
    }
}

/// Whether a file's lock keeps a second open file out. Cheap: it is asked of every trigger that is
/// opened for writing.
pub(crate) fn probe(system: &dyn FileSystem, path: &Path) -> Result<()> {
    let is_exclusive = || -> std::io::Result<bool> {
        let open = || system.open(path, true).or_else(|_| system.open(path, false));
        let (first, second) = (open()?, open()?);
        if !first.try_lock()? {
            // Somebody has it, and we do not get it.
            return Ok(true);
        }
        let excludes = !second.try_lock()?;
        drop((first.unlock(), second.unlock()));
        Ok(excludes)
    };
    // Where a file cannot be locked at all (for lack of a right, say), whoever writes will hear of
    // it.
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
