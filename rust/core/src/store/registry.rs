//! The registry: names of all key spaces that were ever used, apart from their own files. If all of
//! a trigger's files are removed, the trigger is damaged; it does not pass for one that was never
//! used.
//!
//! A name is created once the first manifest is durable, and before anything of the space is
//! acknowledged. So a space in the registry had a manifest. A space without a name here was made by
//! an older build, and gets its name with the next change.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use crate::format::names::{FileKind, REGISTRY};
use crate::io::publish;
use crate::store::Writer;
use crate::wal::START;
use crate::{Error, Result};

/// Maximum length of a name in bytes.
const MOST_NAME: u64 = 1 << 20;

/// The file that names a key space: its file name has the room's name and the name of the space's
/// directory, and it holds the space's full name.
pub(crate) fn path_of(env: &Environment, directory: &Path) -> PathBuf {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name).map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    let (room, own) = (name(directory.parent()), name(Some(directory)));
    env.identity.with_file_name(REGISTRY).join(format!("{room}-{own}"))
}

/// Whether a key space was ever used, according to the registry.
pub(crate) fn is_known(env: &Environment, directory: &Path) -> Result<bool> {
    let path = path_of(env, directory);
    env.system.has(&path)
}

/// The directories of a room that are in the registry.
pub(crate) fn directories_in(env: &Environment, room: &Path) -> Result<Vec<String>> {
    let known = env.identity.with_file_name(REGISTRY);
    let names = env.system.names_if_any(&known)?;
    let prefix = room.file_name().map_or_else(String::new, |name| format!("{}-", name.to_string_lossy()));
    Ok(names.iter().filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned)).collect())
}

/// The full name of a key space, if it is in the registry and can be read. The hash in the
/// directory's name tells whether it is the right one.
pub(crate) fn name_of(env: &Environment, directory: &Path) -> Option<String> {
    let file = env.system.open(&path_of(env, directory), false).ok()?;
    let mut bytes = vec![0; file.len().ok()?.min(MOST_NAME) as usize];
    file.read_at(&mut bytes, 0).ok()?;
    String::from_utf8(bytes).ok()
}

impl Environment {
    /// Check a key space without a manifest: it is new, or all its manifests are lost. Other files
    /// decide: nothing but empty logs is created before the first manifest is durable.
    pub(crate) fn check_new(&self, directory: &Path) -> Result<()> {
        self.check_present()?;
        // Check the registry before the directory: a space that is registered by then had a
        // manifest before.
        let is_known = is_known(self, directory)?;
        let names = self.system.names_if_any(directory)?;
        if names.iter().any(|name| FileKind::Manifest.number_in(name).is_some()) {
            return Ok(());
        }
        let is_log = |name: &&String| FileKind::Log.has(name);
        let is_ours = |name: &String| FileKind::of(name).is_some_and(|kind| kind != FileKind::Temporary);
        let tells = |name: &String| is_ours(name) && !is_log(&name);
        let mut has_frames = false;
        for name in names.iter().filter(is_log) {
            match self.system.open_at(&directory.join(name), false) {
                // Another writer creates the key space.
                Err(error) if error.is_missing() => {}
                log => has_frames |= log?.length()? > START,
            }
        }
        if names.iter().any(tells) || has_frames {
            return Err(Error::corrupt(directory, 0, "all manifests are gone"));
        }
        if is_known {
            let witness = path_of(self, directory);
            let reason = format!("all of its files are gone, although {} says that it was used", witness.display());
            return Err(Error::corrupt(directory, 0, reason));
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// Register this space, which has a manifest.
    pub(super) fn make_known(&mut self) -> Result<()> {
        if self.space.known.get().is_some() {
            return Ok(());
        }
        if let Some(mirror) = &self.space.mirror {
            mirror.make_known(&self.space.name)?;
        }
        if !is_known(&self.space.env, &self.space.directory)? {
            let path = path_of(&self.space.env, &self.space.directory);
            let (names, root) = (path.parent().unwrap_or(&path), self.space.env.identity.parent().unwrap_or(&path));
            self.space.env.system.make_directory(names)?;
            self.space.env.system.sync_names(root)?;
            // A process that was faster wrote the same.
            publish(&*self.space.env.system, &path, self.space.name.as_bytes())?;
        }
        self.space.known.get_or_init(|| ());
        Ok(())
    }
}
