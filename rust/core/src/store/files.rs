//! A key space's manifests.

use std::path::Path;

use super::environment::Environment;
use crate::format::manifest::Manifest;
use crate::format::names::FileKind;
use crate::{Error, Result};

pub(crate) fn read_manifest(env: &Environment, path: &Path) -> Result<Manifest> {
    let file = env.system.open_at(path, false)?;
    let length = file.length()?;
    if length > 1 << 30 {
        return Err(Error::corrupt(path, length, "longer than a manifest can be"));
    }
    let mut bytes = vec![0; length as usize];
    file.read(&mut bytes, 0)?;
    let manifest = Manifest::decode(&bytes, path)?;
    if manifest.history != env.history {
        return Err(Error::corrupt(path, 24, "this manifest belongs to another history"));
    }
    Ok(manifest)
}

/// The number of the newest manifest.
pub(crate) fn newest(env: &Environment, directory: &Path) -> Result<Option<u64>> {
    let names = env.system.names_if_any(directory)?;
    Ok(names.iter().filter_map(|name| FileKind::Manifest.number_in(name)).max())
}
