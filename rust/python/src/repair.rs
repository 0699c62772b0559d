//! Repairing a damaged history.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dochistory_core::history::values::{FOREVER, Room};
use dochistory_core::objects::ObjectStore;
use dochistory_core::repair::{Count, Finding, Options, Remedy, repair as repair_files, repair_objects};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arguments;
use crate::calls::InCall;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::jobs::{TriggerOrName, watched};
use crate::objects::{Client, Replica};
use crate::paths;

/// Say what is damaged in a history and what a repair would drop; with `apply`, repair it.
///
/// What can be read stays: entries on undamaged pages of a segment, whole frames of the log.
/// Filters are rebuilt without loss. Every file that goes out of use is kept in a directory
/// `repaired-<time>` within the history, so that a repair can be undone by hand. Ids that are
/// dropped are new when they come again.
///
/// Args:
///     path: the directory, or the URL of a bucket.
///     trigger: this trigger, or its name, only; needed where a damaged file has taken the name
///         with it.
///     apply: repair. Otherwise nothing is written, and the right to write is not needed.
///     lock_timeout: how long to wait for another writer's operation: text ("30 s"), a timedelta,
///         or seconds.
///     progress: called with (files looked at, files in all) of a trigger from time to time; what
///         it raises stops the work.
///     storage_options: as for `open`.
///
/// Returns:
///     `repaired`: whether it was repaired; `kept_in`: the directory of the files that went out of
///     use, or None; `findings`: a list with, for each damaged place, `trigger`, `mapper` or
///     `delivery` (whose it is, the others None; all None: it concerns all; of guaranteed delivery
///     "received" or "sent"), `file`, `byte`, `reason`, `remedy` ("rebuilt": nothing is lost but
///     what `reopened_entries` says; "salvaged": what can be read is kept; "dropped";
///     "impossible"), `dropped_entries` and `reopened_entries` (entries whose end is forgotten;
///     numbers at most, None: nothing tells), `dropped_at_least` (how many of the dropped ones are
///     certain), `exact` (whether `dropped_entries` is exact), `first_started_at` and
///     `last_started_at` (datetimes between which the dropped entries' services began, or None),
///     `first_kept_until` and `last_kept_until` (of a map's entries; None: forever, or unknown),
///     `returned_entries` (of a map: entries that count as they were before, as a later one is
///     lost; numbers at most), `ids` (of a map: which ids were dropped or went back, as far as they
///     can be read, up to 1,000; streams that are received are then in doubt), `bytes` (that cannot
///     be read), `meaning`.
///
/// Raises:
///     OpenError: [DH-OPEN] there is no history, or one of a newer format.
///     LockedError: [DH-LOCKED] another writer held a trigger for longer than `lock_timeout`.
///     StorageError: [DH-IO] the operating system refused a file operation.
#[pyfunction]
#[pyo3(
    signature = (path, trigger = None, *, apply = false, lock_timeout = None, progress = None, storage_options = None),
    text_signature = "(path, trigger=None, *, apply=False, lock_timeout='30 s', progress=None, storage_options=None)"
)]
pub(crate) fn repair<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
    trigger: Option<TriggerOrName<'py>>,
    #[pyo3(from_py_with = arguments::apply)] apply: bool,
    lock_timeout: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    storage_options: Option<&Bound<'py, PyAny>>,
) -> Outcome<Bound<'py, PyDict>> {
    let _call = InCall::enter(py);
    let trigger = trigger.map(|trigger| trigger.name().to_owned());
    let mut options = Options { trigger, apply, ..Options::default() };
    if let Some(limit) = lock_timeout {
        let limit_us = clock::duration_us("lock_timeout", limit)?;
        let limit_us = u64::try_from(limit_us).map_err(|_| Failure::config("lock_timeout is less than nothing"))?;
        options.lock_timeout = Duration::from_micros(limit_us);
    }
    let report = match paths::bucket(path) {
        Some(url) => {
            let client = Client::connect(py, &url, storage_options)?;
            let replica = Replica::make(client.url(), None)?;
            let store: Arc<dyn ObjectStore> = Arc::new(client);
            watched(py, progress, |hear| repair_objects(&store, replica.directory(), &options, hear))?
        }
        None => {
            let path = paths::path(path)?;
            watched(py, progress, |hear| repair_files(&path, &options, hear))?
        }
    };
    let findings = report.findings.iter().map(|found| finding(py, found)).collect::<PyResult<Vec<_>>>()?;
    let told = PyDict::new(py);
    told.set_item("repaired", report.is_repaired)?;
    told.set_item("kept_in", report.aside.map(|aside| place(py, &aside)).transpose()?)?;
    told.set_item("findings", PyList::new(py, findings)?)?;
    Ok(told)
}

/// A path, or the URL of an object as text: a path would lose one of its slashes.
fn place<'py>(py: Python<'py>, path: &Path) -> PyResult<Bound<'py, PyAny>> {
    let text = path.to_string_lossy();
    if text.contains("://") { text.into_bound_py_any(py) } else { path.into_bound_py_any(py) }
}

fn finding<'py>(py: Python<'py>, found: &Finding) -> PyResult<Bound<'py, PyDict>> {
    let at_most = |count: Count| match count {
        Count::Exactly(entries) | Count::AtMost(entries) => Some(entries),
        Count::AtLeast(_) | Count::Unknown => None,
    };
    let at_least = match found.dropped {
        Count::Exactly(entries) | Count::AtLeast(entries) => entries,
        Count::AtMost(_) | Count::Unknown => 0,
    };
    let remedy = match found.remedy {
        Remedy::Rebuilt => "rebuilt",
        Remedy::Salvaged => "salvaged",
        Remedy::Dropped => "dropped",
        Remedy::Impossible => "impossible",
    };
    let time = |time_us: Option<i64>| time_us.map(|time_us| clock::datetime(py, time_us)).transpose();
    let told = PyDict::new(py);
    told.set_item("trigger", found.trigger.as_ref())?;
    for (key, room) in [("mapper", Room::Mapper), ("delivery", Room::Delivery)] {
        let name = found.map.as_ref().filter(|(own, _)| *own == room).map(|(_, name)| name);
        told.set_item(key, name)?;
    }
    told.set_item("file", place(py, &found.path)?)?;
    told.set_item("byte", found.offset)?;
    told.set_item("reason", &found.reason)?;
    told.set_item("remedy", remedy)?;
    told.set_item("dropped_entries", at_most(found.dropped))?;
    told.set_item("dropped_at_least", at_least)?;
    told.set_item("exact", matches!(found.dropped, Count::Exactly(_)))?;
    told.set_item("reopened_entries", at_most(found.reopened))?;
    told.set_item("first_started_at", time(found.started_at.map(|(first, _)| first))?)?;
    told.set_item("last_started_at", time(found.started_at.map(|(_, last)| last))?)?;
    let until = |time_us: Option<i64>| time(time_us.filter(|time_us| (i64::MIN + 1..FOREVER).contains(time_us)));
    told.set_item("first_kept_until", until(found.kept_until.map(|(first, _)| first))?)?;
    told.set_item("last_kept_until", until(found.kept_until.map(|(_, last)| last))?)?;
    told.set_item("returned_entries", at_most(found.returned))?;
    told.set_item("ids", &found.ids)?;
    told.set_item("bytes", found.bytes)?;
    told.set_item("meaning", found.meaning)?;
    Ok(told)
}
