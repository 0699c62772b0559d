//! Garbage collection: files that no manifest names, by the kind of their owner.
//!
//! | file | goes |
//! |---|---|
//! | a manifest, segment, filter, log or file of values that the newest manifest and no pin names | when the next manifest is published |
//! | the file of a log that is over, kept for the next one | when that takes it; if nobody writes, or its keeper died, with the next maintenance |
//! | a temporary file | then, too: its writer held the lock, finds that it is gone, or needs no name (`io/spool.rs`) |
//! | what a compaction made that failed | at once; if it died, with the next maintenance |
//! | a part of a load that failed | at once; if it died, with the next maintenance, or the next load |
//! | a forgotten pin | with the next maintenance after its lease |
//! | a staged file whose job has no pin | with the next maintenance |
//! | what a writer made that died before it published | when its number is used again, or passed |

use std::path::PathBuf;
use std::time::Duration;

use super::lock::Guard;
use super::pin::{Pin, pinned};
use super::staged::{is_staged_name, job_of};
use super::{KeySpace, Writer};
use crate::Result;
use crate::format::manifest::Manifest;
use crate::format::names::FileKind;
use crate::sys::time::now_us;

impl Writer<'_> {
    /// Remove the files that this manifest does not name.
    pub(super) fn collect_garbage(&mut self, manifest: &Manifest) -> Result<()> {
        self.space.remove_all(&self.garbage(manifest)?)
    }

    /// The files that this manifest does not name, in the order in which they are to be removed:
    /// manifests oldest first, so that readers notice. None of these names is given again, so they
    /// may be removed after the lock is released.
    pub(super) fn garbage(&self, manifest: &Manifest) -> Result<Vec<PathBuf>> {
        let mut names = self.space.env.system.names(&self.space.directory)?;
        names.sort();
        let pinned = pinned(&self.space.env, &self.space.directory, &names)?;
        let live = || pinned.iter().chain([manifest]);
        // The segments of a frozen log are written under their own names before a manifest names
        // them.
        let is_reserved = |id: u64| manifest.frozen.is_some_and(|frozen| frozen.reserves(id));
        let has_segment =
            |id: u64| is_reserved(id) || live().any(|manifest| manifest.segments.iter().any(|entry| entry.id == id));
        let has_values = |id: u64| live().any(|manifest| manifest.values.iter().any(|entry| entry.id == id));
        let has_global_filter =
            |id: u64| live().any(|manifest| manifest.global_filters.iter().any(|entry| entry.id == id));
        let has_log = |id: u64| {
            live().any(|manifest| manifest.log.id == id || manifest.frozen.is_some_and(|frozen| frozen.id == id))
        };
        let is_old = |name: &str| {
            let Some(kind) = FileKind::of(name) else { return false };
            // Files with later numbers are being written.
            let is_unnamed = |is_named: &dyn Fn(u64) -> bool| {
                kind.number_in(name).is_some_and(|id| id < manifest.next_file && !is_named(id))
            };
            match kind {
                FileKind::Manifest => kind.number_in(name).is_some_and(|number| number < manifest.number),
                FileKind::Segment => is_unnamed(&has_segment),
                FileKind::Values => is_unnamed(&has_values),
                FileKind::GlobalFilter => is_unnamed(&has_global_filter),
                FileKind::Log => is_unnamed(&has_log),
                // Its writer held the lock that we hold now, so it died; or it prepared a manifest
                // that would follow the one before ours.
                FileKind::Temporary => true,
                FileKind::Pin | FileKind::New | FileKind::LoadPart | FileKind::OldLog => false,
            }
        };
        let (manifests, others): (Vec<_>, Vec<_>) =
            names.iter().filter(|name| is_old(name)).partition(|name| FileKind::Manifest.has(name));
        Ok(manifests.into_iter().chain(others).map(|name| self.space.directory.join(name)).collect())
    }
}

impl KeySpace {
    /// Remove files, in this order.
    pub(super) fn remove_all(&self, paths: &[PathBuf]) -> Result<()> {
        paths.iter().try_for_each(|path| self.env.system.remove_if_there(path))
    }

    /// Collect the orphans of interrupted work.
    pub(super) fn collect_orphans(&self) -> Result<()> {
        let names = self.env.system.names(&self.directory)?;
        self.collect_new(&names)?;
        self.collect_old_logs(&names)?;
        // Unless another load is writing now.
        let lock = self.load_lock()?;
        if let Some(held) = lock.take(Duration::ZERO, || {})? {
            self.collect_parts(&held)?;
        }
        self.collect_forgotten(&names, now_us())?;
        self.collect_staged(&names)
    }

    /// Collect what compaction made and did not publish; only maintenance does that.
    fn collect_new(&self, names: &[String]) -> Result<()> {
        for name in names.iter().filter(|name| FileKind::New.has(name) && !is_staged_name(name)) {
            self.env.system.remove_at(&self.directory.join(name))?;
        }
        Ok(())
    }

    /// Collect what maintenance made that failed: the next one may be long in coming, and where it
    /// found no room, nobody else would find any until then.
    pub(super) fn collect_failed(&self) -> Result<()> {
        self.collect_new(&self.env.system.names(&self.directory)?)
    }

    /// Collect the parts of an interrupted load, whose lock is free.
    pub(super) fn collect_parts(&self, _loading: &Guard<'_>) -> Result<()> {
        let names = self.env.system.names(&self.directory)?;
        for name in names.iter().filter(|name| FileKind::LoadPart.has(name)) {
            self.env.system.remove_at(&self.directory.join(name))?;
        }
        Ok(())
    }

    /// Collect pins whose lease is over.
    fn collect_forgotten(&self, names: &[String], now_us: i64) -> Result<()> {
        for name in names {
            if Pin::of(name).is_some_and(|pin| pin.ends_at < now_us) {
                self.env.system.remove_if_there(&self.directory.join(name))?;
            }
        }
        Ok(())
    }

    /// Collect the staged files of jobs that are over. A job lives as long as its pin.
    fn collect_staged(&self, names: &[String]) -> Result<()> {
        for name in names {
            let Some(job) = job_of(name) else { continue };
            let pin = self.directory.join(format!("{}{job}", FileKind::Pin.prefix()));
            if !self.env.system.has(&pin)? {
                self.env.system.remove_if_there(&self.directory.join(name))?;
            }
        }
        Ok(())
    }
}
