//! Checking every byte of a key space, and reporting what is wrong.

use std::path::Path;

use super::damage::{MANY, Unsure, damage};
use super::diagnosing::Diagnosing;
use super::lost_manifest::{self, Basis};
use super::{Case, Count, Diagnosis, Looked, Remedy};
use crate::format::manifest::Manifest;
use crate::format::names::FileKind;
use crate::store::environment::Environment;
use crate::store::files::{newest, read_manifest};
use crate::store::registry;
use crate::{Error, Result};

/// Check a key space; none if nothing was ever written to it.
pub(crate) fn diagnose(case: Case, looked: Looked) -> Result<Option<Diagnosis>> {
    let Case { env, directory, .. } = case;
    let names = env.system.names_if_any(directory)?;
    let number = newest(env, directory)?;
    let damage = match number {
        None => match env.check_new(directory) {
            Ok(()) => return Ok(None),
            Err(error) if !names.iter().any(|name| holds_entries(name)) => return Ok(Some(gone(case, &names, error))),
            Err(error) => error,
        },
        Some(number) => match whole_manifest(case, number) {
            Ok(manifest) => return Diagnosing::new(case, manifest).look(&names, looked).map(Some),
            Err(error) => {
                let path = FileKind::Manifest.path(directory, number);
                let damage = damage(&*env.system, error, &path, None)?;
                if is_foreign(env, &path)? {
                    return Ok(Some(foreign(case, damage)));
                }
                damage
            }
        },
    };
    let basis = lost_manifest::basis(case, &names);
    lost(case, &names, damage, basis, looked).map(Some)
}

/// Whether a file of this name may hold entries.
fn holds_entries(name: &str) -> bool {
    [FileKind::Segment, FileKind::Values, FileKind::Log, FileKind::Pin].iter().any(|kind| kind.has(name))
}

/// A key space in the registry, of which no file is left that may hold entries.
fn gone(case: Case, names: &[String], damage: Error) -> Diagnosis {
    let manifest = Manifest { name: case.name().unwrap_or_default(), ..Manifest::default() };
    let mut diagnosing = Diagnosing::new(case, manifest);
    diagnosing.is_manifest_lost = true;
    diagnosing.find(damage, Remedy::Dropped, |finding| {
        finding.dropped = Count::Unknown;
        finding.meaning = "it becomes one that was never used: all of its ids are new when they come again";
    });
    let is_left = |name: &&String| FileKind::of(name).is_some_and(|kind| kind != FileKind::Temporary);
    diagnosing.retired.extend(names.iter().filter(is_left).cloned());
    Diagnosis { is_gone: true, ..diagnosing.finish(&[]) }
}

/// Whether a manifest is intact, but of another history: then the identity file is probably the
/// wrong one.
fn is_foreign(env: &Environment, path: &Path) -> Result<bool> {
    let bytes = env.system.content(path, 1 << 30)?;
    Ok(Manifest::decode(&bytes, path).is_ok_and(|manifest| manifest.history != env.history))
}

fn foreign(case: Case, damage: Error) -> Diagnosis {
    let mut diagnosing = Diagnosing::new(case, Manifest::default());
    diagnosing.is_manifest_lost = true;
    diagnosing.find(damage, Remedy::Impossible, |finding| {
        finding.dropped = Count::Unknown;
        finding.meaning = "the identity file is of another history than this trigger: put the right one in its place";
    });
    diagnosing.finish(&[])
}

/// The newest manifest, if it is intact and belongs to this space.
fn whole_manifest(case: Case, number: u64) -> Result<Manifest> {
    let path = FileKind::Manifest.path(case.directory, number);
    let manifest = read_manifest(case.env, &path)?;
    if manifest.number != number {
        return Err(Error::corrupt(&path, 16, format!("this is manifest {} under another name", manifest.number)));
    }
    if !case.is_own(&manifest.name) {
        return Err(Error::corrupt(&path, 40, format!("this is a manifest of {:?}", manifest.name)));
    }
    Ok(manifest)
}

/// A key space whose newest manifest is gone.
fn lost(case: Case, names: &[String], damage: Error, basis: Basis, looked: Looked) -> Result<Diagnosis> {
    let mut diagnosing = Diagnosing::new(case, basis.manifest);
    diagnosing.is_manifest_lost = true;
    diagnosing.skipped = MANY;
    let open: u64 = diagnosing.manifest.segments.iter().map(|entry| entry.open).sum();
    let meaning = match (basis.is_named, case.room) {
        (true, None) => {
            "what the log no longer tells is forgotten of it: how claims ended whose entries are in segments (those entries \
             are in doubt), what was purged since, and the last batches of its applications"
        }
        (true, Some(_)) if basis.is_unsure => {
            "nothing tells which of the files still counted: what was changed, removed or purged since may be back as it was \
             before, and streams that are received wait until somebody says how far they are applied"
        }
        (true, Some(_)) => "what was purged since is back, and the last batches of its applications may be older ones",
        (false, None) => "the trigger's name is lost with it: say it (--trigger NAME) to repair",
        (false, Some(_)) => {
            "the map's name is lost with it: write it, with `mapper:` or `delivery:` before it, into a file in `known/` \
             that is named as the map's directory, with `mappers-` or `delivery-` before it"
        }
    };
    diagnosing.find(damage, if basis.is_named { Remedy::Rebuilt } else { Remedy::Impossible }, |finding| {
        finding.reopened = Count::AtMost(open);
        finding.meaning = meaning;
        finding.returned = if basis.is_unsure { Count::Unknown } else { Count::Exactly(0) };
    });
    diagnosing.unsure = basis.is_unsure.then_some(Unsure { finding: 0 });
    for entry in basis.uncommitted {
        diagnosing.is_not_committed(&entry);
    }
    diagnosing.lacks_filters = names.iter().any(|name| FileKind::GlobalFilter.has(name));
    diagnosing.retired.extend(names.iter().filter(|name| FileKind::GlobalFilter.has(name)).cloned());
    diagnosing.look(names, looked)
}

/// Where the name of a registered space is.
pub(super) fn noted(case: Case) -> std::path::PathBuf {
    registry::path_of(case.env, case.directory)
}
