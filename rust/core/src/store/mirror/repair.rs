//! What a bucket holds of a damaged space, written into a directory, where it can be repaired.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::commit::named;
use super::{Committed, Mirror};
use crate::format::manifest::Manifest;
use crate::format::names::FileKind;
use crate::io::publish;
use crate::objects::chain::Attempt;
use crate::objects::change::Stored;
use crate::objects::side_by_side::side_by_side;
use crate::store::{KeySpace, registry};
use crate::{Error, Result};

/// How often an object is fetched whose bytes are not those that were stored.
const TRIES: u32 = 5;

impl KeySpace {
    /// Write the state of the chain into this space's directory, as it is: a missing object is a
    /// missing file, and a damaged one a damaged file. Answers whether there is anything.
    pub(crate) fn fetch_damaged(&self) -> Result<bool> {
        let mirror = self.own_mirror()?;
        let mut known = mirror.lock();
        let commits = mirror.find(&mut known)?;
        let system = &*self.env.system;
        system.make_directory(self.directory.parent().unwrap_or(&self.directory))?;
        system.make_directory(&self.directory)?;
        known.committed = Committed::default();
        let mut objects = BTreeMap::new();
        let Some(last) = self.replay(&mut known, &commits, &mut objects)? else { return Ok(false) };
        let path = FileKind::Manifest.path(&self.directory, last.number);
        let manifest = Manifest::decode(&last.bytes, &path)?;
        let is_named = |name: &String, _: &mut Stored| named(&manifest).any(|one| one == *name);
        objects.retain(is_named);
        let lanes = mirror.chain.store().lanes();
        side_by_side(lanes, objects.iter().collect(), |(name, stored): (&String, &Stored)| {
            let path = self.directory.join(name);
            for _ in 0..TRIES {
                system.remove_if_there(&path)?;
                let is_there = mirror.chain.get_file(stored, &path)?;
                // Bytes may be damaged on the way: that is no damage of the bucket.
                if !is_there || self.sum_of(&path)? == (stored.bytes, stored.sum) {
                    break;
                }
            }
            Ok(())
        })?;
        publish(system, &path, &last.bytes)?;
        let noted = registry::path_of(&self.env, &self.directory);
        system.make_directory(noted.parent().unwrap_or(&noted))?;
        publish(system, &noted, self.name.as_bytes())?;
        known.files = objects;
        Ok(true)
    }

    /// The object that holds a file of this space, and where the space's objects are.
    pub(crate) fn place_of(&self, file: &str) -> Result<PathBuf> {
        let mirror = self.own_mirror()?;
        let known = mirror.lock();
        let object = known.files.get(file).map(|stored| mirror.chain.full_name(&stored.object));
        Ok(object.unwrap_or_else(|| mirror.chain.full_name(&format!("{}{file}", mirror.chain.names().all()))).into())
    }

    /// The space's own directory.
    pub(crate) fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// Commit the present state of this space, which was fetched for `remote` and repaired, behind
    /// the commit that was fetched.
    pub(crate) fn commit_repaired(&self, remote: &Self) -> Result<()> {
        self.seal_for_copy()?;
        match self.commit_whole(remote.own_mirror()?)? {
            Attempt::Won => Ok(()),
            Attempt::Refused | Attempt::Lost => Err(Error::Refused),
        }
    }

    fn own_mirror(&self) -> Result<&Mirror> {
        self.mirror.as_deref().ok_or_else(|| Error::State("this history is not in a bucket".into()))
    }
}
