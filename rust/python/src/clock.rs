//! Times and durations as Python objects, and as the engine's microseconds.

use std::ops::Range;

use dochistory_core::protocols::trigger::rules::parse_duration_us;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyString};

use crate::errors::{Failure, Outcome};

const SECOND_US: i64 = 1_000_000;
const DAY_SECONDS: i64 = 86_400;
/// The times that may be stored, from the year 1000 to 8999: results computed from them
/// (partitions, ages, times to live) must fit Python's `datetime`, in every time zone.
pub(crate) const KEPT_US: Range<i64> = -30_610_224_000 * SECOND_US..221_845_392_000 * SECOND_US;
pub(crate) const KEPT: &str = "allowed is a time from the year 1000 to the year 8999";

/// The time taken as now: the caller's, or the clock's.
pub(crate) fn now_us(now: Option<&Bound<'_, PyAny>>) -> Outcome<i64> {
    let Some(now) = now else { return Ok(dochistory_core::time::now_us()) };
    let now_us = time_us("now", now)?;
    if KEPT_US.contains(&now_us) { Ok(now_us) } else { Err(Failure::config(format!("now is {now}; {KEPT}"))) }
}

/// A `datetime` with a time zone.
pub(crate) fn time_us(setting: &str, time: &Bound<'_, PyAny>) -> Outcome<i64> {
    let since = epoch(time.py())?.bind(time.py());
    let age = time.sub(since).map_err(|error| {
        if error.is_instance_of::<PyTypeError>(time.py()) {
            let shown = time.repr().map_or_else(|_| "?".to_owned(), |shown| shown.to_string());
            Failure::config(format!("{setting} is {shown}; allowed is a datetime with a time zone"))
        } else {
            error.into()
        }
    })?;
    timedelta_us(setting, &age)?.ok_or_else(|| Failure::config(format!("{setting} is no datetime with a time zone")))
}

/// A `datetime` with the time zone UTC.
pub(crate) fn datetime(py: Python<'_>, time_us: i64) -> PyResult<Bound<'_, PyAny>> {
    epoch(py)?.bind(py).add(timedelta(py, time_us)?)
}

/// A `timedelta`.
pub(crate) fn timedelta(py: Python<'_>, duration_us: i64) -> PyResult<Bound<'_, PyAny>> {
    let named = PyDict::new(py);
    named.set_item(intern!(py, "microseconds"), duration_us)?;
    timedelta_type(py)?.call((), Some(&named))
}

/// A duration: text ("30 days"), a `timedelta`, or seconds.
pub(crate) fn duration_us(setting: &str, value: &Bound<'_, PyAny>) -> Outcome<i64> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(parse_duration_us(setting, text.to_str()?)?);
    }
    if let Some(duration_us) = timedelta_us(setting, value)? {
        return Ok(duration_us);
    }
    if !value.is_instance_of::<PyBool>() {
        if let Ok(seconds) = value.extract::<i64>() {
            return seconds.checked_mul(SECOND_US).ok_or_else(|| unfit(setting, value));
        }
        if let Ok(seconds) = value.extract::<f64>() {
            return seconds_us(seconds).ok_or_else(|| unfit(setting, value));
        }
    }
    Err(unfit(setting, value))
}

/// A duration in seconds.
///
/// Args:
///     setting: what an error calls it.
///     value: text ("30 days", "PT2H"), a timedelta, or a number of seconds.
///
/// Returns:
///     float: the seconds.
///
/// Raises:
///     ConfigError: [DH-CONFIG] it is no duration.
#[pyfunction]
pub(crate) fn _seconds(setting: &str, value: &Bound<'_, PyAny>) -> Outcome<f64> {
    Ok(duration_us(setting, value)? as f64 / SECOND_US as f64)
}

/// The microseconds in `seconds`, if they fit.
fn seconds_us(seconds: f64) -> Option<i64> {
    let micros = (seconds * SECOND_US as f64).round();
    // The nearest double below the largest count.
    (micros.abs() < 9.2e18).then_some(micros as i64)
}

fn unfit(setting: &str, value: &Bound<'_, PyAny>) -> Failure {
    let shown = value.repr().map_or_else(|_| "?".to_owned(), |shown| shown.to_string());
    Failure::config(format!(
        "{setting} is {shown}; allowed is text such as \"30 days\" or \"PT2H\", a timedelta, or a number of seconds"
    ))
}

/// The microseconds of a `timedelta`; none if it is something else.
fn timedelta_us(setting: &str, value: &Bound<'_, PyAny>) -> Outcome<Option<i64>> {
    let py = value.py();
    if !value.is_instance(timedelta_type(py)?)? {
        return Ok(None);
    }
    let part = |name| value.getattr(name)?.extract::<i64>();
    let (days, seconds) = (part(intern!(py, "days"))?, part(intern!(py, "seconds"))?);
    let micros = part(intern!(py, "microseconds"))?;
    let in_us = days.checked_mul(DAY_SECONDS * SECOND_US).and_then(|us| us.checked_add(seconds * SECOND_US + micros));
    in_us
        .map(Some)
        .ok_or_else(|| Failure::config(format!("{setting} is {value}, longer than can be counted in microseconds")))
}

fn timedelta_type(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static TYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    TYPE.import(py, "datetime", "timedelta")
}

fn epoch(py: Python<'_>) -> PyResult<&Py<PyAny>> {
    static EPOCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    EPOCH.get_or_try_init(py, || {
        let module = py.import("datetime")?;
        let utc = module.getattr("timezone")?.getattr("utc")?;
        Ok(module.getattr("datetime")?.call1((1970, 1, 1, 0, 0, 0, 0, utc))?.unbind())
    })
}
