//! The identity file. Without its secret no id can be compared with the stored keys, so it has a
//! copy.

use std::path::Path;

use super::{Count, Finding, Remedy};
use crate::format::names::{IDENTITY, SPARE, TRIGGERS};
use crate::history::{Identity, identity_bytes, read_identity};
use crate::io::{FileSystem, publish_private};
use crate::store::repair::damage;
use crate::{Error, Result};

/// The history's identity; none where it is lost. With `aside`, a damaged identity file is replaced
/// by its copy and kept there.
pub(super) fn look(
    system: &dyn FileSystem,
    path: &Path,
    aside: Option<&Path>,
    findings: &mut Vec<Finding>,
) -> Result<Option<Identity>> {
    let (file, spare) = (path.join(IDENTITY), path.join(SPARE));
    let is_there = |name: &Path| system.has(name);
    if !is_there(&file)? && !is_there(&spare)? && !is_there(&path.join(TRIGGERS))? {
        return Err(Error::Open { path: path.to_path_buf(), reason: "there is no history here".into() });
    }
    let own = read_identity(system, &file);
    let copy = read_identity(system, &spare);
    match (own, copy) {
        (Ok(own), Ok(copy)) if own.id == copy.id => Ok(Some(own)),
        (Ok(_), Ok(_)) => {
            let reason = format!("its id is another than that of {SPARE}: one of them is of another history");
            let damage = Error::corrupt(&file, 16, reason);
            tell(findings, damage, Remedy::Impossible, "put the right one of both in the place of the other");
            Ok(None)
        }
        (Ok(own), Err(error)) => {
            if is_there(&spare)? {
                tell(findings, damage(system, error, &spare, None)?, Remedy::Rebuilt, "nothing is lost");
            }
            Ok(Some(own))
        }
        (Err(error), Ok(copy)) => {
            tell(findings, damage(system, error, &file, None)?, Remedy::Rebuilt, "nothing is lost: its copy is whole");
            if let Some(aside) = aside {
                replace(system, &file, &spare, aside)?;
            }
            Ok(Some(copy))
        }
        (Err(error), Err(_)) => {
            let meaning =
                "without the secret in it no id can be compared with what is stored: restore this file from a backup";
            tell(findings, damage(system, error, &file, None)?, Remedy::Impossible, meaning);
            Ok(None)
        }
    }
}

/// Rewrite a missing or damaged copy, now that the files are known to be of this identity.
pub(super) fn copy(system: &dyn FileSystem, path: &Path, aside: &Path) -> Result<()> {
    let (file, spare) = (path.join(IDENTITY), path.join(SPARE));
    if read_identity(system, &spare).is_ok() { Ok(()) } else { replace(system, &spare, &file, aside) }
}

fn tell(findings: &mut Vec<Finding>, damage: Error, remedy: Remedy, meaning: &'static str) {
    let Error::Corrupt { path, offset, reason } = damage else { return };
    let (dropped, reopened) = (Count::Exactly(0), Count::Exactly(0));
    findings.push(Finding {
        trigger: None,
        map: None,
        path,
        offset,
        reason,
        remedy,
        dropped,
        reopened,
        started_at: None,
        returned: Count::Exactly(0),
        kept_until: None,
        ids: Vec::new(),
        bytes: 0,
        meaning,
    });
}

/// Replace `bad` by `good`'s content, and keep `bad`.
fn replace(system: &dyn FileSystem, bad: &Path, good: &Path, aside: &Path) -> Result<()> {
    let content = identity_bytes(system, good)?;
    let root = bad.parent().unwrap_or(Path::new("."));
    if system.has(bad)? {
        system.make_directory(aside)?;
        let to = aside.join(bad.file_name().unwrap_or_default());
        system.link_at(bad, &to)?;
        system.sync_names(aside)?;
        system.sync_names(root)?;
        system.remove_at(bad)?;
    }
    publish_private(system, bad, &content).map(drop)
}
