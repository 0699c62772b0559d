//! A key space's manifests.

use std::path::Path;

use super::environment::Environment;
use crate::format::manifest::Manifest;
use crate::format::names::FileKind;
use crate::{Error, Result};

/// Maximum number of restarts when files are removed meanwhile.
const TRIES: usize = 100;

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
        // Another history that was put in the place of ours is in order.
        env.check_own()?;
        return Err(Error::corrupt(path, 24, "this manifest belongs to another history"));
    }
    Ok(manifest)
}

/// What `open` answers of the newest manifest; none where there is none. Files that it needs may be
/// removed meanwhile, because a writer published: then it is asked about the next one.
pub(crate) fn of_newest<T>(
    env: &Environment,
    directory: &Path,
    mut open: impl FnMut(u64) -> Result<T>,
) -> Result<Option<T>> {
    let mut failure = None;
    for _ in 0..TRIES {
        let Some(number) = newest(env, directory)? else { return Ok(None) };
        match open(number) {
            Ok(found) => return Ok(Some(found)),
            // A missing file is fine if there is a newer manifest, and damage if not.
            Err(error) if error.is_missing() => {
                if newest(env, directory)? == Some(number) {
                    return Err(as_damage(error, directory, number));
                }
                failure = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(failure.unwrap_or_else(|| Error::State("the history changes faster than it can be read".into())))
}

/// The error for a missing file that the newest manifest names.
fn as_damage(error: Error, directory: &Path, number: u64) -> Error {
    match error {
        Error::Io { path, .. } => {
            Error::corrupt(&path, 0, format!("the file is missing, but manifest {number} names it"))
        }
        other => Error::corrupt(directory, 0, other.to_string()),
    }
}

/// The number of the newest manifest.
pub(crate) fn newest(env: &Environment, directory: &Path) -> Result<Option<u64>> {
    let names = env.system.names_if_any(directory)?;
    Ok(names.iter().filter_map(|name| FileKind::Manifest.number_in(name)).max())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::history::{History, OpenOptions};
    use crate::testing::simulated::Simulated;

    #[test]
    fn a_manifest_superseded_while_it_is_opened_is_no_damage() {
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let history = History::open_on(Arc::new(Simulated::new(0)), Path::new("/history"), &options).unwrap();
        let space = history.space("orders").unwrap();
        let (env, directory) = (&space.env, Path::new("/history/triggers"));
        let path = |number| FileKind::Manifest.path(directory, number);
        drop(env.system.create_at(&path(7)).unwrap());
        let mut asked = Vec::new();
        let found = of_newest(env, directory, |number| {
            asked.push(number);
            if number < 9 {
                env.system.remove_at(&path(number))?;
                drop(env.system.create_at(&path(number + 1))?);
            }
            env.system.open_at(&path(number), false).map(|_| number)
        });
        assert_eq!((found.unwrap(), asked), (Some(9), vec![7, 8, 9]));
        // What the newest one lacks is damage.
        let lost = of_newest(env, directory, |_| env.system.open_at(&directory.join("lost"), false).map(drop));
        assert!(matches!(lost, Err(Error::Corrupt { .. })), "{lost:?}");
    }
}
