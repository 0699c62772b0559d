//! Repairing a history in a bucket: what it holds is fetched as it is, repaired as a directory, and
//! committed behind what was fetched. Files that go out of use are stored below `repaired-<time>/`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Count, Finding, Options, Remedy, Report, repair_on};
use crate::format::names::Room;
use crate::history::{History, OpenOptions};
use crate::io::Disk;
use crate::objects::ObjectStore;
use crate::store::KeySpace;
use crate::{Error, Result};

const LOST: &str = "the chain of its commits cannot be followed: restore the missing objects from a copy, or older versions \
                    of them; or restore the history from a backup under another URL";

/// Look for damage in a history in a bucket and, with `options.apply`, repair it. `directory` is
/// one of this call alone, on a local disk.
///
/// # Errors
/// Those of [`super::repair`]; `Objects` where the store does not answer, `Refused` where others
/// committed meanwhile: then nothing was changed.
pub fn repair_objects(
    store: &Arc<dyn ObjectStore>,
    directory: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<Report> {
    let how = OpenOptions { lock_timeout: options.lock_timeout, ..OpenOptions::default() };
    let remote = History::open_objects(store.clone(), directory, &how)?;
    let (mut fetched, mut lost) = (Vec::new(), Vec::new());
    for space in remote.spaces_named(options.trigger.as_deref())? {
        match space.fetch_damaged() {
            Ok(true) => fetched.push(space),
            Ok(false) => {}
            Err(error) if error.code() == "DH-MISSING" || matches!(error, Error::Corrupt { .. }) => {
                lost.push(unreadable(&space, &error)?);
                discard(space.directory())?;
            }
            Err(error) => return Err(error),
        }
    }
    let mut report = Report::default();
    if !fetched.is_empty() {
        report = repair_on(Arc::new(Disk), directory, options, progress)?;
    }
    if options.apply {
        let aside = report.aside.take();
        if let Some(aside) = &aside {
            report.aside = Some(keep(store, directory, aside)?);
        }
        let local = History::open(directory, &how)?;
        for space in fetched.iter().filter(|space| is_repaired(space, &report)) {
            local.same_space(space)?.commit_repaired(space)?;
        }
    }
    for finding in &mut report.findings {
        let file = finding.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if let Some(space) = fetched.iter().find(|space| finding.path.starts_with(space.directory())) {
            finding.path = space.place_of(&file)?;
        }
    }
    report.findings.extend(lost);
    let is_possible = report.findings.iter().all(|finding| finding.remedy != Remedy::Impossible);
    report.is_repaired = options.apply && is_possible && !report.findings.is_empty();
    Ok(report)
}

/// Whether the files of a space were repaired.
fn is_repaired(space: &KeySpace, report: &Report) -> bool {
    let mut own = report.findings.iter().filter(|finding| finding.path.starts_with(space.directory())).peekable();
    own.peek().is_some() && own.all(|finding| finding.remedy != Remedy::Impossible)
}

/// Store the files that went out of use; answers where.
fn keep(store: &Arc<dyn ObjectStore>, directory: &Path, aside: &Path) -> Result<PathBuf> {
    let mut waiting = vec![aside.to_path_buf()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path).map_err(Error::io("list", &path))? {
                waiting.push(entry.map_err(Error::io("list", &path))?.path());
            }
        } else if let Ok(name) = path.strip_prefix(directory) {
            store.put_file(&name.to_string_lossy(), &path)?;
        }
    }
    let name = aside.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(format!("{}/{name}", store.place()).into())
}

/// A space whose state cannot be found.
fn unreadable(space: &KeySpace, error: &Error) -> Result<Finding> {
    let own = |room: Room| Some((room, space.name().strip_prefix(room.prefix())?.to_owned()));
    let is_in = |room: &Room| space.directory().parent().is_some_and(|parent| parent.ends_with(room.directory()));
    let map = Room::ALL.into_iter().find(is_in).and_then(own);
    Ok(Finding {
        trigger: map.is_none().then(|| space.name().to_owned()),
        map,
        path: space.place_of("")?,
        offset: 0,
        reason: error.to_string(),
        remedy: Remedy::Impossible,
        dropped: Count::Unknown,
        reopened: Count::Unknown,
        started_at: None,
        returned: Count::Exactly(0),
        kept_until: None,
        ids: Vec::new(),
        bytes: 0,
        meaning: LOST,
    })
}

fn discard(directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", directory)(error)),
        _ => Ok(()),
    }
}
