//! A machine in memory that loses power on command: data that was not synced is kept, dropped or
//! torn, as a seed decides.
//!
//! It assumes this of real systems, and no more:
//! - a write is durable only after a sync of its file, sector by sector in any order and in any of
//!   the versions written since;
//! - a file's length is durable only after a sync of the file; a sector that was lost below it
//!   reads as zeros;
//! - a name (made, linked or removed) is durable only after a sync of its directory, each name for
//!   itself;
//! - a failed sync of a file takes the pages for clean: some of them may be lost though reading
//!   still shows them, each handle that is open at that time reports it once, and later ones never
//!   do;
//! - a failed sync of a directory changes nothing (file systems stop altogether when their journal
//!   fails);
//! - a lock goes with its process.

mod content;
mod disk;
pub(in crate::testing) mod random;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::io::{File, FileId, FileSystem, Mapping, ProcessId};
pub use disk::Fault;
use disk::World;

/// One process on a simulated machine. Clones are the same process.
#[derive(Clone, Debug)]
pub struct Simulated {
    world: Arc<Mutex<World>>,
    process: u64,
}

/// An open file of a process.
#[derive(Debug)]
struct Handle {
    system: Simulated,
    id: u64,
    inode: u64,
}

impl Simulated {
    /// A machine with the empty directory `/`, and its first process. Everything left to chance
    /// follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { world: Arc::new(Mutex::new(World::new(seed))), process: 0 }
    }

    /// Another process on the same machine.
    #[must_use]
    pub fn process(&self) -> Self {
        let process = self.world().start_process();
        Self { world: self.world.clone(), process }
    }

    /// Operations of this process that change something, so far.
    pub fn changes(&self) -> u64 {
        self.world().process(self.process).changes
    }

    /// All operations of this process so far, with reads.
    pub fn operations(&self) -> u64 {
        self.world().process(self.process).operations
    }

    /// Kill this process at its change number `change` (counted from 1): whether that change still
    /// happens is left to chance.
    pub fn crash_at(&self, change: u64) {
        self.world().process(self.process).crash_at = Some(change);
    }

    /// How often this process began to write something before its sync.
    pub fn started(&self) -> u64 {
        self.world().process(self.process).started
    }

    /// Let operation number `operation` (counted from 1, with reads) of this process fail.
    pub fn fail_at(&self, operation: u64, fault: Fault) {
        self.world().process(self.process).fault = Some((operation, fault));
    }

    /// Whether the fault that was planned has happened.
    pub fn has_failed(&self) -> bool {
        self.world().process(self.process).fault.is_none()
    }

    /// From now on every request for a lock on this machine is granted, as on some network file
    /// systems.
    pub fn let_locks_lie(&self) {
        self.world().locks_lie = true;
    }

    /// Kill this process; what it wrote stays in the machine's memory.
    pub fn kill(&self) {
        self.world().kill(self.process);
    }

    /// Whether the process was killed.
    pub fn is_dead(&self) -> bool {
        self.world().process(self.process).is_dead
    }

    /// Cut the power: all processes die, and a part of the data that was not synced is lost, as
    /// `seed` decides.
    pub fn lose_power(&self, seed: u64) {
        self.world().lose_power(seed);
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, (inode, id): (u64, u64)) -> Arc<dyn File> {
        Arc::new(Handle { system: self.clone(), id, inode })
    }
}

impl FileSystem for Simulated {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let opened = self.world().change(self.process, |world| world.create(path))?;
        Ok(self.handle(opened))
    }

    fn open(&self, path: &Path, _write: bool) -> io::Result<Arc<dyn File>> {
        let opened = self.world().look(self.process, |world| world.open(path))?;
        Ok(self.handle(opened))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.world().change(self.process, |world| world.link(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.world().change(self.process, |world| world.remove(path))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.world().change(self.process, |world| world.create_directory(path))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.world().change(self.process, |world| world.sync_directory(path))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.world().look(self.process, |world| world.list(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.world().look(self.process, |world| Ok(world.exists(path)))
    }

    fn identify(&self, path: &Path) -> io::Result<Option<FileId>> {
        self.world().look(self.process, |world| Ok(world.identify(path)))
    }

    fn process(&self) -> ProcessId {
        ProcessId { place: 1, number: self.process, started: 0 }
    }

    fn is_alive(&self, process: &ProcessId) -> Option<bool> {
        Some(!self.world().process(process.number).is_dead)
    }

    fn is_local(&self, _directory: &Path) -> bool {
        !self.world().locks_lie
    }

    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.world().fill_random(bytes);
        Ok(())
    }

    /// No other process makes progress while a simulated process waits.
    fn pause(&self, _duration: Duration) {}
}

impl File for Handle {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let filled = self.read_up_to(buffer, offset)?;
        if filled < buffer.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn read_up_to(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut world = self.system.world();
        let flip = world.look_or_flip(self.system.process)?;
        let filled = world.read(self.inode, buffer, offset);
        if let Some(bit) = flip.filter(|_| filled > 0) {
            buffer[(bit / 8) as usize % filled] ^= 1 << (bit % 8);
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.system.world().write(self.system.process, self.inode, bytes, offset)
    }

    fn extend(&self, length: u64) -> io::Result<()> {
        let extend = |world: &mut World| {
            world.extend(self.inode, length);
            Ok(())
        };
        self.system.world().change(self.system.process, extend)
    }

    fn sync(&self) -> io::Result<()> {
        self.system.world().sync(self.system.process, self.inode, self.id)
    }

    fn start_writing(&self, _bytes: std::ops::Range<u64>) {
        // A disk that began to write promises nothing: only the sync counts.
        self.system.world().process(self.system.process).started += 1;
    }

    fn identify(&self) -> io::Result<FileId> {
        self.system.world().look(self.system.process, |_| Ok(disk::id_of(self.inode)))
    }

    fn len(&self) -> io::Result<u64> {
        self.system.world().look(self.system.process, |world| Ok(world.length(self.inode)))
    }

    fn map(&self, length: u64) -> io::Result<Mapping> {
        let mut bytes = vec![0; length as usize];
        self.read_at(&mut bytes, 0)?;
        Ok(Mapping::Copied(bytes.into()))
    }

    fn try_lock(&self) -> io::Result<bool> {
        let process = self.system.process;
        self.system.world().look(process, |world| Ok(world.try_lock(process, self.inode, self.id)))
    }

    fn try_share(&self) -> io::Result<bool> {
        let process = self.system.process;
        self.system.world().look(process, |world| Ok(world.try_share(process, self.inode, self.id)))
    }

    fn names(&self) -> io::Result<u64> {
        self.system.world().look(self.system.process, |world| Ok(world.names_of(self.inode)))
    }

    fn clear(&self, bytes: std::ops::Range<u64>) {
        let clear = |world: &mut World| {
            world.clear(self.inode, bytes);
            Ok(())
        };
        // It promises nothing.
        drop(self.system.world().change(self.system.process, clear));
    }

    fn unlock(&self) -> io::Result<()> {
        self.system.world().unlock(self.inode, self.id);
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.system.world().close(self.inode, self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(system: &Simulated) -> Arc<dyn File> {
        system.create_directory(Path::new("/d")).unwrap();
        system.sync_directory(Path::new("/")).unwrap();
        let file = system.create(Path::new("/d/f")).unwrap();
        system.sync_directory(Path::new("/d")).unwrap();
        file
    }

    fn bytes(system: &Simulated) -> Vec<u8> {
        let file = system.open(Path::new("/d/f"), false).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn what_was_synced_survives_and_the_rest_may_be_torn() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let system = Simulated::new(seed);
            let file = file(&system);
            file.write_at(&[1; 700], 0).unwrap();
            file.sync().unwrap();
            file.write_at(&[2; 1500], 700).unwrap();
            system.lose_power(seed);
            assert!(file.sync().is_err());
            let left = bytes(&system.process());
            assert!(left[..700] == [1; 700] && (left.len() == 700 || left.len() == 2200));
            let kept: usize = left.iter().map(|byte| usize::from(*byte == 2)).sum();
            seen.insert((left.len(), kept));
        }
        assert!(seen.contains(&(700, 0)) && seen.contains(&(2200, 1500)) && seen.len() > 5, "{seen:?}");
    }

    #[test]
    fn a_name_is_durable_only_after_its_directory_was_synced() {
        let lost = (0..100).filter(|seed| {
            let system = Simulated::new(0);
            let file = file(&system);
            file.write_at(b"x", 0).unwrap();
            file.sync().unwrap();
            system.link(Path::new("/d/f"), Path::new("/d/g")).unwrap();
            system.lose_power(*seed);
            let system = system.process();
            assert!(system.exists(Path::new("/d/f")).unwrap());
            !system.exists(Path::new("/d/g")).unwrap()
        });
        assert!((20..80).contains(&lost.count()));
    }

    #[test]
    fn after_a_failed_sync_a_file_opened_later_syncs_in_vain() {
        let lost = (0..100).filter(|seed| {
            let system = Simulated::new(*seed);
            let (file, early) = (file(&system), system.open(Path::new("/d/f"), true).unwrap());
            file.write_at(b"x", 0).unwrap();
            system.fail_at(system.operations() + 1, Fault::Broken);
            assert!(file.sync().is_err());
            let late = system.open(Path::new("/d/f"), true).unwrap();
            assert!(early.sync().is_err(), "hears of it once");
            assert!(late.sync().is_ok() && early.sync().is_ok() && file.sync().is_ok());
            system.lose_power(0);
            bytes(&system.process()) != b"x"
        });
        assert!((20..80).contains(&lost.count()));
    }

    #[test]
    fn a_lock_dies_with_its_process() {
        let one = Simulated::new(0);
        let two = one.process();
        let (a, b) = (file(&one), two.open(Path::new("/d/f"), true).unwrap());
        assert!(a.try_lock().unwrap() && !b.try_lock().unwrap());
        one.crash_at(one.changes() + 1);
        assert!(a.write_at(b"x", 0).is_err() && one.is_dead());
        assert!(b.try_lock().unwrap());
    }
}
