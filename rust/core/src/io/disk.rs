//! The machine's own file system.

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use super::{File, FileId, FileSystem, Mapping, ProcessId, stat, write_back};
use crate::sys::descriptors;

/// Rights of the owner and the group on a private file; others have none. The process's mask may
/// reduce them.
const PRIVATE: u32 = 0o640;
/// The exit code of `flock` when another process holds the lock; no other failure uses it.
const HELD: i32 = 75;

/// File systems of one machine that write over a file in place: ext2 to ext4, and XFS.
#[cfg(target_os = "linux")]
const LOCAL: [u64; 2] = [0xef53, 0x5846_5342];

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl FileSystem for Disk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let open = || OpenOptions::new().read(true).write(true).create_new(true).open(path);
        Ok(Arc::new(with_room(open)?))
    }

    fn create_private(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let open = || OpenOptions::new().read(true).write(true).create_new(true).mode(PRIVATE).open(path);
        Ok(Arc::new(with_room(open)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(with_room(|| OpenOptions::new().read(true).write(write).open(path))?))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            other => other,
        }
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        with_room(|| fs::File::open(path))?.sync_all()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        with_room(|| fs::read_dir(path))?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        fs::exists(path)
    }

    fn identify(&self, path: &Path) -> io::Result<Option<FileId>> {
        match stat::of_path(path) {
            Ok((file, _)) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn process(&self) -> ProcessId {
        let number = std::process::id();
        ProcessId { place: place(), number: number.into(), started: started(number).unwrap_or(0) }
    }

    fn is_alive(&self, process: &ProcessId) -> Option<bool> {
        if process.place != place() || process.place == 0 {
            return None;
        }
        let number = u32::try_from(process.number).ok()?;
        Some(started(number).is_some_and(|since| since == process.started))
    }

    #[cfg(target_os = "linux")]
    fn is_local(&self, directory: &Path) -> bool {
        rustix::fs::statfs(directory).is_ok_and(|there| LOCAL.contains(&(there.f_type as u64)))
    }

    fn excludes_processes(&self, path: &Path) -> Option<bool> {
        // The program of util-linux, which Linux systems have; without it the check is skipped.
        let program = ["/usr/bin/flock", "/bin/flock"].into_iter().find(|program| Path::new(program).exists())?;
        let mut command = Command::new(program);
        command.args(["--nonblock", "--conflict-exit-code", &HELD.to_string()]).arg(path).arg("true");
        let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        match ended.code()? {
            HELD => Some(true),
            0 => Some(false),
            _ => None,
        }
    }
}

/// Open something; if too many files are open, close idle ones first.
fn with_room<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match open() {
        Err(error) if descriptors::is_exhausted(&error) => {
            descriptors::release();
            open()
        }
        opened => opened,
    }
}

/// The scope of process numbers: this boot of this machine, and this namespace on it. 0 where the
/// system does not tell.
fn place() -> u64 {
    static PLACE: OnceLock<u64> = OnceLock::new();
    *PLACE.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let names = fs::read_link("/proc/self/ns/pid").ok();
        let (Some(boot), Some(names)) = (boot, names) else { return 0 };
        xxhash_rust::xxh3::xxh3_64(format!("{boot}{}", names.display()).as_bytes()).max(1)
    })
}

/// When a process started, in ticks since the system did; none if it does not exist or is a zombie.
fn started(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program's name, in brackets, may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

impl File for fs::File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn read_up_to(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match FileExt::read_at(self, &mut buffer[filled..], offset + filled as u64) {
                // Only this means the end of the file.
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn extend(&self, length: u64) -> io::Result<()> {
        if stat::of_file(self)?.1 < length { self.set_len(length) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn write_back(&self, before: Range<u64>, next: Range<u64>) -> io::Result<()> {
        write_back::write_back(self, before, next)
    }

    fn start_writing(&self, bytes: Range<u64>) {
        write_back::start(self, bytes);
    }

    fn free(&self) {
        drop(self.set_len(0));
    }

    fn clear(&self, bytes: Range<u64>) {
        write_back::clear(self, bytes);
    }

    fn names(&self) -> io::Result<u64> {
        stat::names_of_file(self)
    }

    fn identify(&self) -> io::Result<FileId> {
        Ok(stat::of_file(self)?.0)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(stat::of_file(self)?.1)
    }

    fn map(&self, length: u64) -> io::Result<Mapping> {
        Mapping::of(self, length)
    }

    fn try_lock(&self) -> io::Result<bool> {
        match fs::File::try_lock(self) {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn try_share(&self) -> io::Result<bool> {
        match fs::File::try_lock_shared(self) {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn lock(&self) -> io::Result<()> {
        fs::File::lock(self)
    }

    fn unlock(&self) -> io::Result<()> {
        fs::File::unlock(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_is_kept_out_by_a_lock_that_is_held() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let file = Disk.create(&path).unwrap();
        // Without the program there is no answer.
        assert_ne!(Disk.excludes_processes(&path), Some(true));
        assert!(file.try_lock().unwrap());
        assert_ne!(Disk.excludes_processes(&path), Some(false));
    }

    #[test]
    fn a_process_is_alive_until_it_ends_and_never_as_another() {
        let ours = Disk.process();
        assert_eq!(Disk.is_alive(&ours), Some(true));
        assert_eq!(Disk.is_alive(&ProcessId { started: ours.started + 1, ..ours }), Some(false));
        assert_eq!(Disk.is_alive(&ProcessId { place: ours.place ^ 1, ..ours }), None);
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let known = ProcessId { number: other.id().into(), started: started(other.id()).unwrap(), ..ours };
        assert_eq!(Disk.is_alive(&known), Some(true));
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(Disk.is_alive(&known), Some(false));
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_is_known_for_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let first = Disk.create(&path).unwrap().identify().unwrap();
        assert_eq!(Disk.identify(&path).unwrap(), Some(first));
        Disk.link(&path, &directory.path().join("other")).unwrap();
        assert_eq!(Disk.identify(&directory.path().join("other")).unwrap(), Some(first));
        Disk.remove(&path).unwrap();
        assert_eq!(Disk.identify(&path).unwrap(), None);
        Disk.create(&path).unwrap();
        assert_ne!(Disk.identify(&path).unwrap(), Some(first));
    }
}
