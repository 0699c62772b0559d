//! A key space of a directory, copied into a bucket as one commit.

use std::sync::Arc;

use super::Mirror;
use super::commit::named;
use crate::objects::ObjectStore;
use crate::objects::chain::Attempt;
use crate::objects::change::{Change, NewManifest};
use crate::objects::side_by_side::side_by_side;
use crate::store::environment::Environment;
use crate::store::{KeySpace, SpaceSettings};
use crate::{Error, Result};

impl KeySpace {
    /// Copy the present state into a bucket that has nothing of this space. Nobody else may write
    /// here meanwhile: the log is put into segments first.
    pub(crate) fn copy_to_objects(&self, store: &Arc<dyn ObjectStore>) -> Result<()> {
        if !self.exists()? {
            return Ok(());
        }
        self.seal_for_copy()?;
        let env = Environment { objects: Some(store.clone()), ..self.env.clone() };
        let Some(mirror) = Mirror::of(&env, &self.directory) else { return Ok(()) };
        match self.commit_whole(&mirror)? {
            Attempt::Won => mirror.make_known(&self.name),
            Attempt::Refused | Attempt::Lost => {
                let (name, reason) = (mirror.chain.names().commit(1), "somebody writes there".to_owned());
                Err(Error::Objects { operation: "create", name, reason })
            }
        }
    }

    /// Put the log into segments, if it holds anything.
    pub(super) fn seal_for_copy(&self) -> Result<()> {
        self.write(SpaceSettings::STORED, |writer| {
            let is_touched = writer.space().present().as_ref().is_some_and(|view| !view.is_log_untouched());
            if is_touched { writer.seal() } else { Ok(()) }
        })
    }

    /// Commit the present state of this directory, whose log holds nothing, as a base behind the
    /// head of a chain. Files that stand in objects already stay there.
    pub(super) fn commit_whole(&self, mirror: &Mirror) -> Result<Attempt> {
        let manifest = self.read(|view| Ok(view.map(|view| view.manifest.clone())))?;
        let manifest = manifest.ok_or_else(|| Error::State("the key space is not there".into()))?;
        let known = mirror.lock().files.clone();
        let number = mirror.head() + 1;
        let one = |name: String| {
            let path = self.directory.join(&name);
            let stored = match known.get(&name) {
                Some(stored) if self.sum_of(&path)? == (stored.bytes, stored.sum) => stored.clone(),
                _ => self.store_file(mirror, number, &path, &name)?,
            };
            Ok((name, stored))
        };
        let files = side_by_side(mirror.chain.store().lanes(), named(&manifest).collect(), one)?;
        let new_log = Some(self.log_head(manifest.log.id)?);
        let manifest = NewManifest { number: manifest.number, bytes: manifest.encode(), new_log, files };
        let change = Change { frames: None, manifest: Some(manifest) };
        let mut known = mirror.lock();
        let (number, chain) = (known.chain.head().number + 1, &mirror.chain);
        // Nobody relies on it.
        known.chain.commit(change.encode(), true, Some(&|| drop(chain.give_hint(number))))
    }
}
