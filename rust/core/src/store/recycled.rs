//! The file of the last log that is over: the next log takes it, or it goes once nobody writes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{KeySpace, SpaceSettings, View, Writer};
use crate::format::names::FileKind;
use crate::wal::{FrameForms, Log, Owner, recycle};
use crate::{Error, Result};

/// The file that this handle keeps.
#[derive(Debug, Default)]
pub(super) struct Recycled(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    path: Option<PathBuf>,
    /// The log, and how long it was, when somebody asked last whether anything is written.
    seen: (u64, u64),
    /// Whether the rest of that log was given back.
    is_cleared: bool,
}

impl Recycled {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The log, and where its frames end.
fn place(view: &View) -> (u64, u64) {
    (view.log.id, view.memtable.position)
}

impl KeySpace {
    /// Keep the file of a log that is over for the next one, if this handle has none. Answers
    /// whether it is kept.
    pub(super) fn keep_log(&self, path: &Path) -> bool {
        let number = path.file_name().and_then(|name| FileKind::Log.number_in(&name.to_string_lossy()));
        // Logs of values are of all lengths, and their writers wait for more than a sync.
        let Some(number) = number.filter(|_| self.mirror.is_none() && !self.makes_room) else { return false };
        let mut kept = self.recycled.lock();
        if kept.path.is_some() {
            return false;
        }
        let to = FileKind::OldLog.path(&self.directory, number);
        // Where that fails, it is removed, which reports what is wrong.
        let is_kept = recycle::retire(&*self.env.system, path, &to).unwrap_or(false);
        kept.path = is_kept.then_some(to);
        is_kept
    }

    /// A new log in the file that this handle keeps; none if it has none that can be taken. Only
    /// the holder of the writer lock makes logs.
    pub(super) fn recycled_log(&self, path: &Path, id: u64, owner: Owner, frames: FrameForms) -> Result<Option<Log>> {
        let Some(old) = self.recycled.lock().path.take() else { return Ok(None) };
        let system = &*self.env.system;
        if let Ok(Some(log)) = Log::recycle(system, &old, path, id, owner, frames) {
            return Ok(Some(log));
        }
        // Somebody removed it, or the disk fails, which making a new log reports.
        system.remove_if_there(&old)?;
        system.remove_if_there(path)?;
        Ok(None)
    }

    /// If nobody has written since the last call, give back the file that is kept, and the rest of
    /// the present log's. Answers whether anything may be kept still.
    pub(crate) fn release_if_idle(&self) -> Result<bool> {
        let now = self.glance(|view| Ok((place(view), view.log.has_remains)))?;
        let Some((now, has_remains)) = now else { return Ok(false) };
        let is_cleared = {
            let mut kept = self.recycled.lock();
            if std::mem::replace(&mut kept.seen, now) != now {
                kept.is_cleared = false;
                return Ok(has_remains || kept.path.is_some());
            }
            kept.is_cleared
        };
        self.remove_kept_log()?;
        // Where there is nothing to give back, the lock is left to others.
        if has_remains && !is_cleared {
            // Closing the history waits for this, so this waits for no other process.
            let cleared = self.write_if_free(SpaceSettings::STORED, |writer| {
                // If another process writes, it gives back the rest when it ends.
                if writer.space.present().as_ref().is_some_and(|view| place(view) == now) {
                    writer.clear_remains();
                }
                Ok(())
            });
            if let Err(Error::Locked { .. }) = cleared {
                return Ok(true);
            }
            cleared?;
            self.recycled.lock().is_cleared = true;
        }
        Ok(false)
    }

    /// Remove the file that this handle keeps.
    pub(super) fn remove_kept_log(&self) -> Result<()> {
        let old = self.recycled.lock().path.take();
        old.map_or(Ok(()), |old| self.env.system.remove_if_there(&old))
    }

    /// Collect the files that others kept. One who lives makes a new log then.
    pub(super) fn collect_old_logs(&self, names: &[String]) -> Result<()> {
        let ours = self.recycled.lock().path.clone();
        for name in names.iter().filter(|name| FileKind::OldLog.has(name)) {
            let path = self.directory.join(name);
            if ours.as_ref() != Some(&path) {
                self.env.system.remove_if_there(&path)?;
            }
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// Give back the blocks of older logs behind the frames of the present one.
    pub(super) fn clear_remains(&self) {
        if let Some(view) = self.space.present().as_ref() {
            view.log.clear_remains(view.memtable.position);
        }
    }
}

impl Drop for KeySpace {
    fn drop(&mut self) {
        // If this fails, maintenance collects it.
        drop(self.remove_kept_log());
    }
}
