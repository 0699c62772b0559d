//! Which file it is, and how long.

use std::io;
use std::path::Path;

use super::FileId;

/// The identity and the length of the file of this name, or of an open one.
///
/// It does not ask for the file's times. Asking for them makes the next write change the inode, and
/// the next sync writes that, too: 40 µs each (Linux 6.13 and later, multigrain timestamps).
#[cfg(target_os = "linux")]
mod asked {
    use std::os::fd::AsFd;

    use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, makedev, statx};
    use rustix::io::Errno;

    use super::{FileId, Path, io, plainly};

    pub(crate) fn of_path(path: &Path) -> io::Result<(FileId, u64)> {
        match ask(CWD, path, AtFlags::empty()) {
            Err(Errno::NOSYS) => plainly::of_path(path),
            answer => Ok(told(&answer?)),
        }
    }

    pub(crate) fn of_file(file: &std::fs::File) -> io::Result<(FileId, u64)> {
        match ask(file, Path::new(""), AtFlags::EMPTY_PATH) {
            Err(Errno::NOSYS) => plainly::of_file(file),
            answer => Ok(told(&answer?)),
        }
    }

    pub(crate) fn names_of_file(file: &std::fs::File) -> io::Result<u64> {
        match statx(file, Path::new(""), AtFlags::EMPTY_PATH, StatxFlags::NLINK) {
            Err(Errno::NOSYS) => plainly::names_of_file(file),
            answer => Ok(answer?.stx_nlink.into()),
        }
    }

    fn ask(place: impl AsFd, path: &Path, flags: AtFlags) -> Result<Statx, Errno> {
        statx(place, path, flags, StatxFlags::INO | StatxFlags::SIZE | StatxFlags::BTIME)
    }

    fn told(answer: &Statx) -> (FileId, u64) {
        let has_birth = answer.stx_mask & StatxFlags::BTIME.bits() != 0 && answer.stx_btime.tv_sec >= 0;
        let born = has_birth.then(|| {
            u128::from(answer.stx_btime.tv_sec.unsigned_abs()) * 1_000_000_000 + u128::from(answer.stx_btime.tv_nsec)
        });
        let device = makedev(answer.stx_dev_major, answer.stx_dev_minor);
        (FileId { device, number: answer.stx_ino, born_ns: born.unwrap_or(0) }, answer.stx_size)
    }
}

/// With all that the system tells: for systems that cannot be asked for a part.
mod plainly {
    use std::fs::{File, Metadata};
    use std::os::unix::fs::MetadataExt;
    use std::time::UNIX_EPOCH;

    use super::{FileId, Path, io};

    pub(crate) fn of_path(path: &Path) -> io::Result<(FileId, u64)> {
        Ok(told(&std::fs::metadata(path)?))
    }

    pub(crate) fn of_file(file: &File) -> io::Result<(FileId, u64)> {
        Ok(told(&file.metadata()?))
    }

    pub(crate) fn names_of_file(file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.nlink())
    }

    fn told(metadata: &Metadata) -> (FileId, u64) {
        let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let born_ns = born.map_or(0, |born| born.as_nanos());
        (FileId { device: metadata.dev(), number: metadata.ino(), born_ns }, metadata.len())
    }
}

#[cfg(target_os = "linux")]
pub(crate) use asked::{names_of_file, of_file, of_path};
#[cfg(not(target_os = "linux"))]
pub(crate) use plainly::{names_of_file, of_file, of_path};

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{of_file, of_path, plainly};

    #[test]
    fn part_of_what_is_told_is_what_all_says() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"abc").unwrap();
        let found = plainly::of_path(file.path()).unwrap();
        assert_eq!(found.1, 3);
        assert_eq!(of_path(file.path()).unwrap(), found);
        assert_eq!(of_file(file.as_file()).unwrap(), found);
        assert_eq!(plainly::of_file(file.as_file()).unwrap(), found);
        let missing = of_path(&file.path().with_extension("gone")).unwrap_err();
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    }
}
