//! Repairing a damaged history: what can be read stays, what cannot is dropped by name, and every file that goes out of use is
//! kept in a directory `repaired-<time>` within the history.

mod identity;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::history::{IDENTITY, TRIGGERS, directory_name};
use crate::io::{Disk, FileSystem};
use crate::keyspace::repair as space;
use crate::keyspace::view::Environment;
use crate::{Error, Result};

pub use space::{Count, Finding, Remedy};

/// What to repair, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// This trigger only; all, if none. Its name may be needed where it is lost with the damaged file.
    pub trigger: Option<String>,
    /// Do it; otherwise only say what would be done, and write nothing.
    pub apply: bool,
    /// How long to wait for another writer's operation.
    pub lock_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { trigger: None, apply: false, lock_timeout: Duration::from_secs(30) }
    }
}

/// What was found, and what was done about it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The damaged files.
    pub findings: Vec<Finding>,
    /// Whether it was repaired; never where something cannot be.
    pub is_repaired: bool,
    /// Where the files that went out of use are kept.
    pub aside: Option<PathBuf>,
}

/// Look for damage in the history at `path` and, with `apply`, repair it. `progress` hears files looked at, and all of a trigger;
/// an error from it stops the work.
///
/// # Errors
/// `Open` if there is no history or a file is of a newer format, `Io` where the operating system refuses, `Locked` if a
/// writer does not let go of a trigger. Damage is no error here.
pub fn repair(path: &Path, options: &Options, progress: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<Report> {
    repair_on(Arc::new(Disk), path, options, progress)
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
    let Some(history) = identity::look(&*system, path, options.apply.then_some(aside.as_path()), &mut report.findings)?
    else {
        return Ok(report);
    };
    let env = Environment {
        system,
        history,
        read_only: !options.apply,
        lock_timeout: options.lock_timeout,
        identity: path.join(IDENTITY),
    };
    let mut is_possible = true;
    for name in spaces(&env, path, options.trigger.as_deref())? {
        let (directory, kept) = (path.join(TRIGGERS).join(&name), aside.join(&name));
        let named = options.trigger.as_deref();
        let mut found = space::diagnose(&env, &directory, named, progress)?;
        if options.apply && found.as_ref().is_some_and(space::Diagnosis::is_repairable) {
            // What was seen without the lock is looked at again under it.
            found = space::apply(&env, &directory, named, &kept, progress)?;
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
    if options.apply && env.system.exists(&aside).map_err(Error::io("look for", &aside))? {
        report.aside = Some(aside);
    }
    Ok(report)
}

/// The key spaces by what the directory holds.
fn spaces(env: &Environment, path: &Path, trigger: Option<&str>) -> Result<Vec<String>> {
    let directory = path.join(TRIGGERS);
    let mut names = env.system.list(&directory).map_err(Error::io("list", &directory))?;
    names.sort();
    if let Some(trigger) = trigger {
        let own = directory_name(trigger);
        names.retain(|name| *name == own);
        if names.is_empty() {
            let reason = format!("there is no trigger {trigger:?} here");
            return Err(Error::Open { path: path.to_path_buf(), reason });
        }
    }
    Ok(names)
}

fn aside_name() -> String {
    let time = crate::time::format_us(crate::time::now_us());
    format!("repaired-{}", time.replace([':', '-', '.'], ""))
}
