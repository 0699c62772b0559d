//! Writing a large file to the disk while it is made, in small pieces; and beginning to write what
//! will be synced soon.
//!
//! A sync of the log waits for what other files have under way on the same disk. A disk that takes
//! few requests at a time (a virtual one has room for 1 MiB) does not even accept the log's.

use std::fs::File;
use std::io;
use std::ops::Range;

#[cfg(target_os = "linux")]
pub(super) fn write_back(file: &File, before: Range<u64>, next: Range<u64>) -> io::Result<()> {
    use libc::{SYNC_FILE_RANGE_WAIT_AFTER, SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE};

    ask(file, before, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)?;
    ask(file, next, SYNC_FILE_RANGE_WRITE)
}

/// The kernel keeps an error of this for the next sync: only a call that waits removes it.
#[cfg(target_os = "linux")]
pub(super) fn start(file: &File, bytes: Range<u64>) {
    drop(ask(file, bytes, libc::SYNC_FILE_RANGE_WRITE));
}

#[cfg(target_os = "linux")]
fn ask(file: &File, bytes: Range<u64>, how: libc::c_uint) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    // A length of zero would mean the rest of the file.
    if bytes.is_empty() {
        return Ok(());
    }
    let (start, length) = (bytes.start as libc::off64_t, (bytes.end - bytes.start) as libc::off64_t);
    // SAFETY: the call takes numbers only, and the descriptor is open while `file` is borrowed.
    #[expect(unsafe_code, reason = "no safe wrapper of sync_file_range is kept")]
    let answer = unsafe { libc::sync_file_range(file.as_raw_fd(), start, length, how) };
    let error = match answer {
        0 => return Ok(()),
        _ => io::Error::last_os_error(),
    };
    match error.raw_os_error() {
        // Nothing was written: the sync at the end does it.
        Some(libc::ENOSYS | libc::EINVAL | libc::ESPIPE | libc::EOPNOTSUPP | libc::EINTR) => Ok(()),
        _ => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn write_back(_file: &File, _before: Range<u64>, _next: Range<u64>) -> io::Result<()> {
    Ok(())
}

/// Give back the blocks of these bytes. Where the file system cannot, they stay.
#[cfg(target_os = "linux")]
pub(super) fn clear(file: &File, bytes: Range<u64>) {
    use rustix::fs::{FallocateFlags, fallocate};

    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, how, bytes.start, bytes.end.saturating_sub(bytes.start)).ok();
}

#[cfg(not(target_os = "linux"))]
pub(super) fn clear(_file: &File, _bytes: Range<u64>) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn start(_file: &File, _bytes: Range<u64>) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_file_is_written_back_piece_by_piece() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 3 << 12]).unwrap();
        write_back(&file, 0..0, 0..1 << 12).unwrap();
        write_back(&file, 0..1 << 12, 1 << 12..3 << 12).unwrap();
    }

    #[test]
    fn a_file_begun_to_be_written_reads_and_syncs_as_before() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 3 << 12]).unwrap();
        start(&file, 1 << 12..3 << 12);
        start(&file, 0..0);
        file.sync_data().unwrap();
        let mut read = vec![0; 3 << 12];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn what_cannot_be_written_back_is_left_to_the_sync() {
        let (_reader, writer) = std::io::pipe().unwrap();
        write_back(&File::from(OwnedFd::from(writer)), 0..8, 8..16).unwrap();
    }

    #[test]
    fn a_descriptor_that_cannot_write_back_is_an_error() {
        use std::os::unix::fs::OpenOptionsExt;
        // A descriptor that names a file and opens nothing.
        let named = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open("/").unwrap();
        assert_eq!(write_back(&named, 0..8, 8..16).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
