//! A log in the file of one that is over. To write over blocks that are there takes a sync half the
//! time: nothing else of the file changes. The remains of the old log pass for no frame of the new
//! one, as their mark is another, and zeros follow its last frame.
//!
//! Nobody who has the old log open may meet the new one in its file. So all who open a log share
//! its lock, and a file is taken only under the lock as a whole. That needs locks that no process
//! loses: where they may ([`FileSystem::is_local`]), files are not taken.

use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::frame::HEADER;
use super::{FrameForms, Log, Owner, START, header};
use crate::io::{FileSystem, NamedFile};
use crate::{Error, Result};

/// Lengths of files that are taken: shorter ones spare little, longer ones keep much.
const LENGTHS: RangeInclusive<u64> = if cfg!(any(test, feature = "small")) { 64..=1 << 20 } else { 1 << 20..=12 << 20 };

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Keep others from taking the file of a log that is open here.
pub(super) fn hold(system: &dyn FileSystem, file: &NamedFile) -> Result<()> {
    let path = &file.path;
    if !system.is_local(directory(path)) {
        return Ok(());
    }
    let is_ours = file.file.try_share().map_err(Error::io("lock", path))?;
    // Somebody may have taken it after it was opened.
    if is_ours && system.identity(path)? == Some(file.identity()?) {
        return Ok(());
    }
    Err(Error::io("open", path)(ErrorKind::NotFound.into()))
}

/// Keep the file of a log that is over under another name, if it is worth it, and nobody has it
/// open. Answers whether it is kept.
pub(crate) fn retire(system: &dyn FileSystem, log: &Path, to: &Path) -> Result<bool> {
    if !system.is_local(directory(log)) {
        return Ok(false);
    }
    let file = system.open_at(log, true)?;
    if !LENGTHS.contains(&file.length()?) || !file.is_alone()? || !system.link_if_free(log, to)? {
        return Ok(false);
    }
    system.remove_at(log).map(|()| true)
}

impl Log {
    /// [`Log::create`] in the file of a log that is over; none where that is not possible.
    pub(crate) fn recycle(
        system: &dyn FileSystem,
        old: &Path,
        path: &Path,
        id: u64,
        owner: Owner,
        frames: FrameForms,
    ) -> Result<Option<Self>> {
        let mut file = system.open_at(old, true)?;
        if !file.is_alone()? {
            return Ok(None);
        }
        let mut drawn = [0; 8];
        system.randomness_for(path, &mut drawn)?;
        let (mark, length) = (u64::from_le_bytes(drawn) | 1, file.length()?);
        let version = frames.version();
        let mut bytes = header(id, owner, (version, mark), true);
        bytes.resize(START as usize + HEADER, 0);
        file.write(&bytes, 0)?;
        file.sync()?;
        system.link_at(old, path)?;
        system.remove_at(old)?;
        file.path = path.to_path_buf();
        hold(system, &file)?;
        let (identity, room) = (file.identity()?, Arc::new(AtomicU64::new(length.max(bytes.len() as u64))));
        let (frames, is_closed, has_remains) = (FrameForms::of_version(version), false, true);
        Ok(Some(Self { id, file, inherited: START, mark, frames, identity, is_closed, room, has_remains }))
    }

    /// Whether a later log of the same owner has the file that this name of log `id` refers to.
    pub(crate) fn is_taken(system: &dyn FileSystem, path: &Path, id: u64, owner: Owner) -> Result<bool> {
        let (log, whose) = Self::open_any(system, path, false)?;
        Ok(log.has_remains && log.id > id && whose == owner)
    }

    /// Give back the blocks behind `end`, where the frames end. Nobody may be appending.
    pub(crate) fn clear_remains(&self, end: u64) {
        if self.has_remains {
            self.file.file.clear(end..self.room.load(Ordering::Relaxed).max(end));
        }
    }
}
