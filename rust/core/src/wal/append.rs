//! Appending a frame, and making room behind it: the sync of a later frame that changes neither the
//! length of the file nor its blocks has less to write. Where the file was another log's before,
//! its blocks are room already (`recycle.rs`).

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use super::Log;
use super::frame::HEADER;
use crate::{Error, Result};

/// Least room behind a frame, in bytes.
pub(super) const ROOM: u64 = 16 << 10;
pub(super) const BLOCK: u64 = 4096;
/// Longest frame with room of written zeros. Its sync writes the frame and nothing else, in half
/// the time. Longer frames get room without blocks: zeros would double what is written of them.
pub(super) const SHORT: u64 = 8 << 10;
/// Maximum room of written zeros; it grows with the log, so that a small one stays small.
const MOST_ZEROS: u64 = 128 << 10;
/// Room behind a longer frame: for this number of its kind, up to a limit.
const FRAMES_OF_ROOM: u64 = 8;
const MOST_ROOM: u64 = 2 << 20;

impl Log {
    /// Append a frame's bytes at `position`, where the frames end.
    pub(crate) fn append(&self, bytes: &[u8], position: u64) -> Result<()> {
        let end = position + bytes.len() as u64;
        if end > self.room.load(Ordering::Relaxed) && self.is_written_with_room(bytes, position)? {
            return Ok(());
        }
        self.write_frame(bytes, position).map_err(|error| self.failed(error))
    }

    /// Begin to write what was appended to the disk, for the sync that follows. More frames before
    /// that sync have their last page written twice: they pay for long ones only.
    pub(crate) fn start_writing(&self, bytes: Range<u64>, is_last: bool) -> bool {
        let starts = is_last || bytes.end - bytes.start > SHORT;
        if starts {
            self.file.file.start_writing(bytes);
        }
        starts
    }

    /// Write a frame; over the remains of another log with zeros behind it, as long as the header
    /// that may follow.
    fn write_frame(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let (file, end) = (&*self.file.file, position + bytes.len() as u64);
        let remains = if self.has_remains { self.room.load(Ordering::Relaxed).saturating_sub(end) } else { 0 };
        let zeros = &[0; HEADER][..remains.min(HEADER as u64) as usize];
        if zeros.is_empty() {
            return file.write_at(bytes, position);
        }
        if bytes.len() as u64 > SHORT {
            // First, so that readers find the frame whole or not at all.
            file.write_at(zeros, end)?;
            return file.write_at(bytes, position);
        }
        file.write_at(&[bytes, zeros].concat(), position)
    }

    /// Make room for a frame at `position` and for later ones; answers whether the frame was
    /// written with it. Without room the file grows with the frame. If nothing can be written at
    /// all, writing the frame reports it.
    fn is_written_with_room(&self, bytes: &[u8], position: u64) -> Result<bool> {
        let (size, end, file) = (bytes.len() as u64, position + bytes.len() as u64, &*self.file.file);
        if size > SHORT {
            let length = (end + (FRAMES_OF_ROOM * size).clamp(ROOM, MOST_ROOM)).next_multiple_of(BLOCK);
            if file.extend(length).is_ok() {
                self.room.store(length, Ordering::Relaxed);
            }
            return Ok(false);
        }
        // Another process may have made room.
        let length = self.len()?;
        if length >= end {
            self.room.store(length, Ordering::Relaxed);
            return Ok(false);
        }
        let length = (end + position.clamp(ROOM, MOST_ZEROS)).next_multiple_of(BLOCK);
        let mut whole = Vec::with_capacity((length - position) as usize);
        whole.extend_from_slice(bytes);
        whole.resize((length - position) as usize, 0);
        match file.write_at(&whole, position) {
            Ok(()) => {
                self.room.store(length, Ordering::Relaxed);
                Ok(true)
            }
            // The frame alone may fit.
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io("append to", &self.file.path)(error)
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
