//! The names of a key space's files, and its manifests.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use crate::manifest::Manifest;
use crate::{Error, Result};

pub(crate) fn segment_path(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("segment-{id:016x}"))
}

pub(crate) fn rollup_path(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("filter-{id:016x}"))
}

pub(crate) fn log_path(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("log-{id:016x}"))
}

pub(crate) fn manifest_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(Manifest::file_name(number))
}

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
        Ok(names) => Ok(names.iter().filter_map(|name| Manifest::number_of(name)).max()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("list", directory)(error)),
    }
}
