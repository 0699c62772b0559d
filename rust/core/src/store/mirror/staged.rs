//! Staged files in a bucket: tasks store them before any commit names them, and the process that
//! commits fetches them.
//!
//! Like a load's files they are stored for a commit of at most a certain number, so a collector
//! knows when nobody can name them any more. A commit with a higher number stores them again.

use std::path::Path;

use super::Mirror;
use crate::format::names::FileKind;
use crate::objects::change::Stored;
use crate::objects::side_by_side::side_by_side;
use crate::store::KeySpace;
use crate::store::staged::Job;
use crate::{Error, Result};

/// How many commits may come between the reservation of a job and its own commit, without storing
/// its files again.
const AHEAD: u64 = 4096;

/// What the process that commits asks the store for first.
enum Task<'a> {
    Fetch((&'a Stored, &'a Path)),
    Look(&'a Job),
}

impl KeySpace {
    /// Store a staged file in the bucket; none where tasks and the committing process see one
    /// directory.
    pub(in crate::store) fn store_staged(&self, job: &Job, path: &Path, id: u64) -> Result<Option<Stored>> {
        let Some(mirror) = self.mirror.as_deref() else { return Ok(None) };
        let last = mirror.pinned_before(&job.pin)?.commit + AHEAD;
        let stored = self.store_file(mirror, last, path, &FileKind::Segment.name(id))?;
        self.env.system.remove_if_there(path)?;
        Ok(Some(stored))
    }

    /// Fetch staged files, several at a time, to where [`KeySpace::staged_path`] says; and see
    /// meanwhile whether this job is alive, if there is one to look after.
    pub(crate) fn fetch_staged(&self, files: Vec<(&Stored, &Path)>, job: Option<&Job>) -> Result<()> {
        let Some(mirror) = self.mirror.as_deref() else { return Ok(()) };
        let tasks = files.into_iter().map(Task::Fetch).chain(job.map(Task::Look)).collect();
        side_by_side(mirror.chain.store().lanes(), tasks, |task| match task {
            Task::Fetch((stored, path)) => self.fetch_one_staged(mirror, stored, path),
            Task::Look(job) => self.check_alive(job),
        })
        .map(drop)
    }

    fn fetch_one_staged(&self, mirror: &Mirror, stored: &Stored, path: &Path) -> Result<()> {
        if self.env.system.has(path)? {
            return Ok(());
        }
        mirror.last_of(stored)?;
        self.fetch_one(&mirror.chain, path, stored).map_err(|error| match mirror.chain.has(&stored.object) {
            Ok(false) => Error::Conflict(format!(
                "{} is not in the bucket: it was collected because too many commits came since its task stored it, or \
                     somebody deleted it; nothing was begun: decide again, from a new job",
                mirror.chain.full_name(&stored.object)
            )),
            _ => error,
        })
    }

    /// The next manifest will name this file, which stands in an object already.
    pub(in crate::store) fn expect_staged(&self, id: u64, stored: &Stored) -> Result<()> {
        let Some(mirror) = self.mirror.as_deref() else { return Ok(()) };
        let last = mirror.last_of(stored)?;
        mirror.lock().staged.insert(FileKind::Segment.name(id), (last, stored.clone()));
        Ok(())
    }
}

impl Mirror {
    /// The last commit that may be the first to name this object.
    fn last_of(&self, stored: &Stored) -> Result<u64> {
        let last = self.chain.names().number_of_data(&stored.object);
        last.ok_or_else(|| Error::Config("a receipt names an object that is no staged file of this trigger".into()))
    }
}
