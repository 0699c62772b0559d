//! A key space's manifests.

use std::path::Path;

use super::environment::Environment;
use crate::format::manifest::Manifest;
use crate::format::names::FileKind;
use crate::{Error, Result};

pub(crate) fn read_manifest(env: &Environment, path: &Path) -> Result<Manifest> {
    let file = env.system.open(path, false).map_err(Error::io("open", path))?;
    let length = file.len().map_err(Error::io("look at", path))?;
    if length > 1 << 30 {
        return Err(Error::corrupt(path, length, "longer than a manifest can be"));
    }
    let mut bytes = vec![0; length as usize];
    file.read_at(&mut bytes, 0).map_err(Error::io("read", path))?;
    let manifest = Manifest::decode(&bytes, path)?;
    if manifest.history != env.history {
        return Err(Error::corrupt(path, 24, "this manifest belongs to another history"));
    }
    Ok(manifest)
}

/// The number of the newest manifest.
pub(crate) fn newest(env: &Environment, directory: &Path) -> Result<Option<u64>> {
    match env.system.list(directory) {
        Ok(names) => Ok(names.iter().filter_map(|name| FileKind::Manifest.number_in(name)).max()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("list", directory)(error)),
    }
}
