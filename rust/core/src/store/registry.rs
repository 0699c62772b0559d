//! The registry: names of all key spaces that were ever used, apart from their own files. If all of
//! a trigger's files are removed, the trigger is damaged; it does not pass for one that was never
//! used.
//!
//! A name is created once the first manifest is durable, and before anything of the space is
//! acknowledged. So a space in the registry had a manifest. A space without a name here was made by
//! an older build, and gets its name with the next change.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use crate::Result;
use crate::format::names::REGISTRY;
use crate::io::publish;
use crate::store::Writer;

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
