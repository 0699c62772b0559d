//! Publishing by threads of maintenance. What takes long is done outside the lock: the manifest is
//! written before, and names are synced and files removed afterwards. Writers wait for little more
//! than a link.
//!
//! The manifest keeps the log, so nothing is lost where its name is not durable yet: the one before
//! it names the same frames, and files go only afterwards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::publish::Adopted;
use super::view::View;
use super::{KeySpace, SpaceSettings};
use crate::format::manifest::Manifest;
use crate::format::names::FileKind;
use crate::io::{rename_if_free, write_temporary};
use crate::segment::global::GlobalFilter;
use crate::store::Writer;
use crate::{Error, Result};

/// Maximum number of manifests that are prepared without success, because others published
/// meanwhile; then one is published under the lock as a whole.
const TRIES: usize = 4;

/// What changes: files that are given their names, and the manifest.
pub(super) struct Change<'a> {
    /// Files to name, by the kind of their numbers.
    pub(super) files: &'a [(FileKind, u64)],
    /// Whether the change still holds, after others published.
    pub(super) is_due: &'a dyn Fn(&Manifest) -> bool,
    pub(super) change: &'a dyn Fn(&mut Manifest),
    /// A global filter among the files, open already.
    pub(super) warm: Option<Arc<GlobalFilter>>,
}

impl<'a> Change<'a> {
    /// A change of the manifest alone.
    pub(super) fn of_manifest(change: &'a dyn Fn(&mut Manifest)) -> Self {
        Self { files: &[], is_due: &|_| true, change, warm: None }
    }

    /// The files with the names that they have, and those that they get.
    fn adopted(&self) -> Vec<Adopted> {
        self.files.iter().map(|(kind, id)| (FileKind::New, *kind, *id)).collect()
    }

    /// The manifest after the change; none where it is no longer due.
    fn apply(&self, mut manifest: Manifest) -> Option<Manifest> {
        if !(self.is_due)(&manifest) {
            return None;
        }
        (self.change)(&mut manifest);
        manifest.forget_dropped();
        Some(manifest)
    }
}

impl KeySpace {
    /// Publish a change that leaves the log as it is. Answers false and publishes nothing where it
    /// is no longer due.
    pub(super) fn publish_beside(&self, settings: SpaceSettings, change: &Change) -> Result<bool> {
        // In a bucket the state is a chain of commits.
        let tries = if self.mirror.is_some() { 0 } else { TRIES };
        for _ in 0..tries {
            // Names that the manifest will name are durable before it is there.
            self.env.system.sync_names(&self.directory).inspect_err(|error| self.note(error))?;
            let Some(manifest) = self.read(|view| Ok(view.map(View::same_log_successor)))? else { return Ok(false) };
            let Some(manifest) = change.apply(manifest) else { return Ok(false) };
            let path = FileKind::Manifest.path(&self.directory, manifest.number);
            let temporary = write_temporary(&*self.env.system, &path, &manifest.encode())?;
            let done = self.write(settings, |writer| writer.publish_prepared(&manifest, &temporary, change));
            if let Some(garbage) = done? {
                return self.finish_publishing(&garbage).inspect_err(|error| self.note(error)).map(|()| true);
            }
            self.env.system.remove_if_there(&temporary)?;
        }
        let adopted = change.adopted();
        self.store_early(&adopted)?;
        let is_published = self.write_again(settings, |writer| {
            let Some(manifest) = change.apply(writer.successor()?) else { return Ok(false) };
            writer.adopt(&adopted)?;
            writer.inherit(change)?;
            writer.publish(&manifest).map(|()| true)
        })?;
        self.forget_adopted(&adopted)?;
        Ok(is_published)
    }

    /// After the lock was released: the name is durable before anything goes that only older
    /// manifests name.
    fn finish_publishing(&self, garbage: &[PathBuf]) -> Result<()> {
        self.env.system.sync_names(&self.directory)?;
        garbage.iter().filter(|path| !self.keep_log(path)).try_for_each(|path| self.env.system.remove_if_there(path))
    }
}

impl Writer<'_> {
    fn inherit(&mut self, change: &Change) -> Result<()> {
        self.space.change(|slot| {
            if let Some(view) = slot {
                view.warm.clone_from(&change.warm);
            }
            Ok(())
        })
    }

    /// Publish a manifest that was written before. Answers the files that go once its name is
    /// durable; none where somebody else published meanwhile, so that nothing was done.
    fn publish_prepared(
        &mut self,
        manifest: &Manifest,
        temporary: &Path,
        change: &Change,
    ) -> Result<Option<Vec<PathBuf>>> {
        // Ending a log takes longer than all of this.
        self.leaves_log = true;
        let system = &*self.space.env.system;
        let is_next = |view: &View| view.manifest.number + 1 == manifest.number;
        // The last publisher may have taken the temporary file for one of a dead writer.
        if !self.space.present().as_ref().is_some_and(is_next) || !system.has(temporary)? {
            return Ok(None);
        }
        if !change.files.is_empty() {
            self.adopt(&change.adopted())?;
            system.sync_names(&self.space.directory)?;
        }
        self.inherit(change)?;
        let path = FileKind::Manifest.path(&self.space.directory, manifest.number);
        self.check_alone()?;
        match rename_if_free(system, temporary, &path) {
            Ok(true) => {}
            Ok(false) => {
                self.held.lost();
                return Err(Error::not_alone(&path, "another writer published this while this one held the lock"));
            }
            // The last publisher removed it only now.
            Err(error) if error.is_missing() => {
                self.publish_in_place(manifest)?;
                return self.garbage(manifest).map(Some);
            }
            Err(error) => return Err(error),
        }
        self.check_alone()?;
        self.space.change(|slot| slot.as_mut().map_or(Ok(()), |view| view.advance(&self.space.env)))?;
        self.space.sync.learn(manifest.log.id, manifest.log.proven);
        self.garbage(manifest).map(Some)
    }
}
