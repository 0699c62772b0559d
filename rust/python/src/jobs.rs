//! Maintaining a history: purging, compaction, verifying, figures.

use std::time::{Duration, Instant};

use dochistory_core::SpaceStatistics;
use dochistory_core::history::History;
use dochistory_core::history::values::{Room, ValueMap};
use dochistory_core::protocols::trigger::rules::Kind;
use dochistory_core::{Error, Maintained, Purge, Purged};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arguments::shown;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::progress::Hearer;
use crate::trigger::Trigger;

/// Time between two checks of a long job for an interrupt.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Most names in an error.
const LISTED: usize = 10;

/// A trigger, or its name.
pub(crate) enum TriggerOrName<'py> {
    Trigger(Bound<'py, Trigger>),
    Name(String),
}

impl<'py> FromPyObject<'_, 'py> for TriggerOrName<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(trigger) = given.cast::<Trigger>() {
            return Ok(Self::Trigger(trigger.to_owned()));
        }
        let wrong = || Failure::config(format!("trigger is {}; needed is a trigger, or its name", shown(&given)));
        given.extract().map(Self::Name).map_err(|_| wrong().into())
    }
}

impl TriggerOrName<'_> {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Trigger(trigger) => &trigger.get().rules.name,
            Self::Name(name) => name,
        }
    }
}

/// Refuse a name that the history does not have: a typing error must not pass for a trigger without
/// entries. One that is given as a `Trigger` may be about to begin.
pub(crate) fn check_known(py: Python<'_>, history: &History, trigger: &TriggerOrName<'_>) -> Outcome<()> {
    let TriggerOrName::Name(name) = trigger else { return Ok(()) };
    // A snapshot of a trigger that nobody had begun has nothing in it, and is no mistake.
    if history.reads_snapshot() {
        return Ok(());
    }
    let there = crate::calls::outside(py, || {
        // In a bucket the list of triggers takes a request of its own.
        if history.statistics(name)?.manifest > 0 { Ok(None) } else { history.triggers().map(Some) }
    })?;
    let Some(there) = there.filter(|there| !there.contains(name)) else { return Ok(()) };
    let has = if there.is_empty() { "none yet".to_owned() } else { listed(&there) };
    Err(Failure::config(format!(
        "the history has no trigger {name:?}; it has {has}. One that is about to begin is given as a dochistory.Trigger"
    )))
}

/// Some names, for an error.
fn listed(names: &[String]) -> String {
    let first: Vec<String> = names.iter().take(LISTED).map(|name| format!("{name:?}")).collect();
    let more = names.len().saturating_sub(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", first.join(", "))
}

/// The name of one trigger, or of all triggers.
pub(crate) fn names(py: Python<'_>, history: &History, trigger: Option<&TriggerOrName<'_>>) -> Outcome<Vec<String>> {
    match trigger {
        Some(trigger) => {
            check_known(py, history, trigger)?;
            Ok(vec![trigger.name().to_owned()])
        }
        None => Ok(crate::calls::outside(py, || history.triggers())?),
    }
}

/// Purge one trigger, or all; answers what was purged from each.
pub(crate) fn purge<'py>(
    py: Python<'py>,
    history: &History,
    trigger: Option<&TriggerOrName<'_>>,
    purge: Purge,
) -> Outcome<Bound<'py, PyDict>> {
    if history.is_read_only() && !purge.dry_run {
        return Err(Error::ReadOnly(history.place()).into());
    }
    let done = PyDict::new(py);
    if let Some(TriggerOrName::Trigger(trigger)) = trigger {
        let rules = &trigger.get().rules;
        done.set_item(&rules.name, was_purged(py, crate::calls::outside(py, || history.purge(rules, purge))?)?)?;
        return Ok(done);
    }
    for name in names(py, history, trigger)? {
        // A trigger without entries has no time to live yet, and nothing to purge.
        if crate::calls::outside(py, || history.statistics(&name))?.time_to_live_us > 0 {
            let purged = crate::calls::outside(py, || history.purge_as_stored(&name, purge))?;
            done.set_item(name, was_purged(py, purged)?)?;
        }
    }
    Ok(done)
}

fn was_purged(py: Python<'_>, purged: Purged) -> PyResult<Bound<'_, PyDict>> {
    let Purged { entries, log_entries, bytes, segments } = purged;
    let of_trigger = PyDict::new(py);
    of_trigger.set_item("entries", entries)?;
    of_trigger.set_item("log_entries", log_entries)?;
    of_trigger.set_item("bytes", bytes)?;
    of_trigger.set_item("segments", segments)?;
    Ok(of_trigger)
}

/// Compact small segments and build global filters; answers what was done for each trigger.
pub(crate) fn maintain<'py>(
    py: Python<'py>,
    history: &History,
    names: Vec<String>,
    all: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> Outcome<Bound<'py, PyDict>> {
    let maintained = PyDict::new(py);
    for name in names {
        let done = heard(py, progress, &format!("maintaining {name}"), |hear| history.maintain(&name, all, hear))?;
        maintained.set_item(name, was_maintained(py, done)?)?;
    }
    Ok(maintained)
}

/// [`maintain`] for the mappers and guaranteed delivery; each name has its kind as a prefix.
pub(crate) fn maintain_values(
    py: Python<'_>,
    history: &History,
    all: bool,
    progress: Option<&Bound<'_, PyAny>>,
    maintained: &Bound<'_, PyDict>,
) -> Outcome<()> {
    for (values, name) in values_of(py, history)? {
        let done = heard(py, progress, &format!("maintaining {name}"), |hear| values.maintain(all, hear))?;
        maintained.set_item(name, was_maintained(py, done)?)?;
    }
    Ok(())
}

/// How long objects stay that no state needs.
pub(crate) fn grace(given: &Bound<'_, PyAny>) -> Outcome<Duration> {
    let grace_us = clock::duration_us("grace", given)?;
    Ok(Duration::from_micros(u64::try_from(grace_us).map_err(|_| Failure::config("grace is less than nothing"))?))
}

/// Delete the objects of mappers and of guaranteed delivery that no state needs and that are older
/// than `grace`.
pub(crate) fn collect_values(py: Python<'_>, history: &History, grace: Duration) -> Outcome<()> {
    let spaces = values_of(py, history)?;
    Ok(crate::calls::outside(py, || spaces.iter().try_for_each(|(values, _)| values.collect_objects(grace).map(drop)))?)
}

fn was_maintained(py: Python<'_>, done: Maintained) -> PyResult<Bound<'_, PyDict>> {
    let Maintained { merged, rewritten, rolled_up } = done;
    let of_space = PyDict::new(py);
    of_space.set_item("merged", merged)?;
    of_space.set_item("rewritten", rewritten)?;
    of_space.set_item("rolled_up", rolled_up)?;
    Ok(of_space)
}

/// All spaces of values, with their names in answers beside triggers.
fn values_of(py: Python<'_>, history: &History) -> Outcome<Vec<(ValueMap, String)>> {
    let found = crate::calls::outside(py, || {
        let mut found = Vec::new();
        for (room, what) in [(Room::Mapper, "mapper"), (Room::Delivery, "delivery")] {
            for name in history.value_spaces(room)? {
                found.push((history.values(room, &name)?, format!("{what}:{name}")));
            }
        }
        Ok::<_, Error>(found)
    })?;
    Ok(found)
}

/// [`watched`], with progress reported to a callable, or shown as a bar.
fn heard<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    what: &str,
    job: impl FnOnce(dochistory_core::Progress<'_>) -> dochistory_core::Result<T> + Send,
) -> Outcome<T> {
    let hearer = Hearer::new(py, progress, what, None)?;
    let done = watched(py, hearer.callable(), job);
    hearer.close()?;
    done
}

/// Check every byte; answers the number of bytes checked.
pub(crate) fn verify(
    py: Python<'_>,
    history: &History,
    names: &[String],
    progress: Option<&Bound<'_, PyAny>>,
) -> Outcome<u64> {
    let mut bytes = 0;
    for name in names {
        bytes += heard(py, progress, &format!("checking {name}"), |hear| history.verify(name, hear))?;
    }
    Ok(bytes)
}

/// Check every byte of the spaces of values; answers the number of bytes checked.
pub(crate) fn verify_values(py: Python<'_>, history: &History, progress: Option<&Bound<'_, PyAny>>) -> Outcome<u64> {
    let mut bytes = 0;
    for (values, name) in values_of(py, history)? {
        bytes += heard(py, progress, &format!("checking {name}"), |hear| values.verify(hear))?;
    }
    Ok(bytes)
}

/// Run a long job without holding Python. Every step is reported to `progress`, if there is one; an
/// error that it raises, or an interrupt from the keyboard, stops the job.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(dochistory_core::Progress<'_>) -> dochistory_core::Result<T> + Send,
) -> Outcome<T> {
    let progress = progress.map(|progress| progress.clone().unbind());
    let mut raised = None;
    let done = crate::calls::outside(py, || {
        let mut looked_at = Instant::now();
        job(&mut |done, total| {
            if progress.is_none() && looked_at.elapsed() < BETWEEN_LOOKS {
                return Ok(());
            }
            looked_at = Instant::now();
            let heard = crate::calls::inside(|py| {
                py.check_signals()?;
                progress.as_ref().map(|progress| progress.bind(py).call1((done, total))).transpose().map(drop)
            });
            heard.map_err(|error| {
                raised = Some(error);
                Error::State("it was stopped".into())
            })
        })
    });
    done.map_err(|error| raised.map_or(Failure::Engine(error), Failure::Python))
}

/// The figures of one trigger.
pub(crate) fn statistics(py: Python<'_>, found: SpaceStatistics) -> PyResult<Bound<'_, PyDict>> {
    let time = |time_us: Option<i64>| time_us.map(|time_us| clock::datetime(py, time_us)).transpose();
    let transactions = PyDict::new(py);
    for (application, batch, is_finished) in found.transactions {
        transactions.set_item(application, (batch, is_finished))?;
    }
    let figures = PyDict::new(py);
    figures.set_item("segment_entries", found.segment_entries)?;
    figures.set_item("log_entries", found.log_entries)?;
    figures.set_item("open_entries", found.open_entries)?;
    figures.set_item("segment_bytes", found.segment_bytes)?;
    figures.set_item("log_bytes", found.log_bytes)?;
    figures.set_item("filter_bytes", found.filter_bytes)?;
    figures.set_item("segments", found.segments)?;
    figures.set_item("segments_uncovered", found.segments_uncovered)?;
    figures.set_item("filters", found.filters)?;
    figures.set_item("looked_up", found.looked_up)?;
    figures.set_item("filter_positives", found.filter_positives)?;
    figures.set_item("manifest", found.manifest)?;
    figures.set_item("pins", found.pins)?;
    figures.set_item("oldest_started_at", time(found.oldest_started_at)?)?;
    figures.set_item("purged_upto", time(found.purged_upto)?)?;
    figures.set_item("partition", clock::timedelta(py, found.partition_us)?)?;
    figures.set_item("history_time_to_live", clock::timedelta(py, found.time_to_live_us)?)?;
    figures.set_item("kind", found.kind.map(Kind::as_str))?;
    figures.set_item("transactions", transactions)?;
    figures.set_item("longest_run", found.longest_run_us.map(|us| clock::timedelta(py, us)).transpose()?)?;
    let partitions = PyList::empty(py);
    for partition in found.partitions {
        let one = PyDict::new(py);
        one.set_item("start", clock::datetime(py, partition.start_us)?)?;
        one.set_item("entries", partition.entries)?;
        one.set_item("bytes", partition.bytes)?;
        one.set_item("segments", partition.segments)?;
        partitions.append(one)?;
    }
    figures.set_item("partitions", partitions)?;
    Ok(figures)
}
