//! Repairing a damaged history: readable entries stay, unreadable ones are dropped and named in the
//! report. Every file that goes out of use is kept in a directory `repaired-<time>` within the
//! history.

mod identity;
mod objects;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::format::names::{IDENTITY, Room, TRIGGERS, directory_name, is_directory_name};
use crate::io::{Disk, FileSystem};
use crate::protocols::delivery::mend;
use crate::store::environment::Environment;
use crate::store::registry;
use crate::store::repair as space;
use crate::{Error, Result};

pub use objects::repair_objects;
pub use space::{Count, Finding, MOST_NAMED, Remedy};

/// What to repair, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// This trigger only; all, if none. Its name may be needed where it is lost with the damaged
    /// file.
    pub trigger: Option<String>,
    /// Repair; otherwise only report what would be done, and write nothing.
    pub apply: bool,
    /// How long to wait for another writer's operation.
    pub lock_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { trigger: None, apply: false, lock_timeout: Duration::from_secs(30) }
    }
}

/// The findings, and what was done about them.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The damaged files.
    pub findings: Vec<Finding>,
    /// Whether it was repaired; never where something is impossible to repair.
    pub is_repaired: bool,
    /// Where the files that went out of use are kept.
    pub aside: Option<PathBuf>,
}

/// Look for damage in the history at `path` and, with `apply`, repair it. `progress` gets the files
/// checked and the number of files of a trigger; an error from it stops the work.
///
/// # Errors
/// `Open` if there is no history or a file is of a newer format, `Io` where the operating system
/// refuses, `Locked` if a writer does not let go of a trigger. Damage is no error here.
pub fn repair(path: &Path, options: &Options, progress: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<Report> {
    let path = std::path::absolute(path).map_err(Error::io("find", path))?;
    repair_on(Arc::new(Disk), &path, options, progress)
}

/// Repair a history on another file system.
pub fn repair_on(
    system: Arc<dyn FileSystem>,
    path: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<Report> {
    let aside = path.join(aside_name());
    let mut report = Report::default();
    let Some(identity) =
        identity::look(&*system, path, options.apply.then_some(aside.as_path()), &mut report.findings)?
    else {
        return Ok(report);
    };
    let env = Environment {
        system,
        history: identity.id,
        read_only: !options.apply,
        lock_timeout: options.lock_timeout,
        identity: path.join(IDENTITY),
        identity_file: None,
        objects: None,
    };
    let mut is_possible = true;
    let codec = identity.codec();
    for (room, directory, kept) in spaces(&env, path, options.trigger.as_deref())? {
        let named = options.trigger.as_deref();
        let case = space::Case { env: &env, codec: &codec, directory: &directory, room, stand_in, named };
        let mut found = space::diagnose(case, progress)?;
        if options.apply && found.as_ref().is_some_and(space::Diagnosis::is_repairable) {
            // What was found without the lock is checked again under it.
            found = space::apply(case, &aside.join(kept), progress)?;
        }
        for finding in found.into_iter().flat_map(|found| found.findings) {
            is_possible &= finding.remedy != Remedy::Impossible;
            report.findings.push(finding);
        }
    }
    if options.apply && is_possible {
        identity::copy(&*env.system, path, &aside)?;
    }
    report.is_repaired = options.apply && is_possible && !report.findings.is_empty();
    if options.apply && env.system.has(&aside)? {
        report.aside = Some(aside);
    }
    Ok(report)
}

/// The key spaces: the room, the directory, and the name under which its files are kept.
type Space = (Option<Room>, PathBuf, String);

/// The key spaces found in the directories and in the registry.
fn spaces(env: &Environment, path: &Path, trigger: Option<&str>) -> Result<Vec<Space>> {
    let mut found = Vec::new();
    let rooms = Room::ALL.into_iter().map(Some).filter(|_| trigger.is_none());
    for room in [None].into_iter().chain(rooms) {
        let directory = path.join(room.map_or(TRIGGERS, Room::directory));
        // A room is created with its first space, and a space without files may be in the registry.
        let mut names = env.system.names_if_any(&directory)?;
        names.retain(|name| is_directory_name(name));
        names.extend(registry::directories_in(env, &directory)?);
        names.sort();
        names.dedup();
        if let Some(own) = trigger.map(directory_name) {
            names.retain(|name| *name == own);
        }
        let kept = |name: &str| room.map_or_else(|| name.to_owned(), |room| format!("{}-{name}", room.directory()));
        found.extend(names.into_iter().map(|name| (room, directory.join(&name), kept(&name))));
    }
    if let Some(trigger) = trigger.filter(|_| found.is_empty()) {
        let reason = format!("there is no trigger {trigger:?} here");
        return Err(Error::Open { path: path.to_path_buf(), reason });
    }
    Ok(found)
}

/// A lost row of a stream leaves the stream in doubt; a mapper's lost row is dropped.
fn stand_in(room: Room, key: &[u8], old: Option<&[u8]>) -> Option<Vec<u8>> {
    match room {
        Room::Delivery => mend::in_doubt(key, old),
        Room::Mapper => None,
    }
}

fn aside_name() -> String {
    let time = crate::sys::time::format_us(crate::sys::time::now_us());
    format!("repaired-{}", time.replace([':', '-', '.'], ""))
}
