//! Settings and times of a mapper, from Python.

use crate::arrow::array::{Array, AsArray};
use crate::arrow::compute::{CastOptions, cast_with_options};
use crate::arrow::datatypes::{DataType, TimestampMicrosecondType};
use dochistory_core::history::values::FOREVER;
use dochistory_core::protocols::mapper::{MapperSettings, Untils};
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::arrays::time_type;
use super::policy::policy;
use crate::answers;
use crate::clock;
use crate::errors::{Failure, Outcome};

pub(super) fn settings(pending: &str, mirror: bool, expiry: &str) -> Outcome<MapperSettings> {
    let exact_expiry = match expiry {
        "until_purged" => false,
        "exact" => true,
        _ => {
            return Err(Failure::config(format!("expiry is {expiry:?}; allowed is \"until_purged\" or \"exact\"")));
        }
    };
    Ok(MapperSettings { policy: policy("pending", pending)?, mirror, exact_expiry })
}

/// How long entries are kept unless a call says otherwise; none means forever.
pub(super) fn persist(value: &Bound<'_, PyAny>) -> Outcome<Option<i64>> {
    if is_forever(value) { Ok(None) } else { Ok(Some(positive_us("persist", value)?)) }
}

/// A duration that is longer than nothing: an entry that is kept for none would be gone at once.
fn positive_us(setting: &str, value: &Bound<'_, PyAny>) -> Outcome<i64> {
    let duration_us = clock::duration_us(setting, value)?;
    if duration_us > 0 {
        return Ok(duration_us);
    }
    let given = value.repr()?;
    Err(Failure::config(format!("{setting} is {given}; a duration must be longer than 0, and a time has a date")))
}

fn is_forever(value: &Bound<'_, PyAny>) -> bool {
    value.cast::<PyString>().is_ok_and(|text| text.to_str().is_ok_and(|text| text == "forever"))
}

/// Until when the entries of one call are kept.
pub(crate) enum Kept {
    All(i64),
    Rows(Vec<i64>),
}

impl Kept {
    /// From a datetime, a duration from `now_us` on, "forever", or a column of times (null: the
    /// default).
    pub(super) fn read(value: Option<&Bound<'_, PyAny>>, persist_us: Option<i64>, now_us: i64) -> Outcome<Self> {
        let from_now = |duration: i64| now_us.saturating_add(duration);
        let default = persist_us.map_or(FOREVER, from_now);
        let Some(value) = value else { return Ok(Self::All(default)) };
        if is_forever(value) {
            return Ok(Self::All(FOREVER));
        }
        if value.hasattr("__arrow_c_array__")? || value.hasattr("__arrow_c_stream__")? {
            let (_, array) = answers::import(value)?;
            let refused = || Failure::schema(format!("persist_until is {}; allowed are times", array.data_type()));
            // Text and numbers would be cast to what nobody meant.
            if !matches!(array.data_type(), DataType::Timestamp(..) | DataType::Null) {
                return Err(refused());
            }
            // A time that microseconds cannot hold would become null, and so the default.
            let exact = CastOptions { safe: false, ..CastOptions::default() };
            let times = cast_with_options(&array, &time_type(), &exact).map_err(|_| {
                Failure::schema("persist_until holds a time beyond the year 294246: for no end, pass \"forever\"")
            })?;
            let times = times.as_primitive::<TimestampMicrosecondType>();
            return Ok(Self::Rows(times.iter().map(|time| time.unwrap_or(default)).collect()));
        }
        if value.hasattr("tzinfo")? {
            return Ok(Self::All(clock::time_us("persist_until", value)?));
        }
        Ok(Self::All(from_now(positive_us("persist_until", value)?)))
    }

    pub(super) fn untils(&self) -> Untils<'_> {
        match self {
            Self::All(until) => Untils::All(*until),
            Self::Rows(each) => Untils::Rows(each),
        }
    }
}
