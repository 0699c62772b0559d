//! The primitives of work that many processes do on one history: the functions that Spark needs.
//!
//! The jobs are in `staging.rs` and `load.rs`, the polls in `delivery/shards.rs`.

use std::sync::Arc;

use dochistory_core::history::History as Engine;
use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyAttributeError, PyDeprecationWarning};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::Outcome;
use crate::handle::Handle;
use crate::history::History;
use crate::jobs;

/// What many processes do on one history together, as `dochistory.spark` and the command line use
/// it. Not public: it may change with any version.
///
/// A job (`reserve`) is work divided among tasks; they stage its parts (`stage`, `stage_entries`),
/// and one process publishes them (`Job.commit`, `commit_entries`). A poll of guaranteed delivery
/// is divided by `plan_delivery`, decided in shards by `decide_delivery`, and put together by
/// `merge_delivery`.
#[pyclass(module = "dochistory._native", name = "Shards", frozen)]
pub(crate) struct Shards {
    pub(crate) handle: Arc<Handle>,
}

impl Shards {
    pub(crate) fn history(&self) -> Outcome<Arc<Engine>> {
        self.handle.get()
    }
}

#[pymethods]
impl Shards {
    /// `History.maintain` of the mappers and of guaranteed delivery alone.
    ///
    /// Args:
    ///     all: go as far as it goes, rather than as far as it pays; wait for maintenance that runs
    ///         already. Without it, nothing is done where some is under way.
    ///     progress: called with (entries done, entries in all) from time to time; what it raises
    ///         stops the work, which does no harm.
    ///     grace: as of `History.maintain`.
    ///
    /// Returns:
    ///     As `History.maintain`.
    ///
    /// Raises:
    ///     As `History.maintain`.
    #[pyo3(signature = (*, all = false, progress = None, grace = None))]
    fn maintain_values<'py>(
        &self,
        py: Python<'py>,
        all: bool,
        progress: Option<&Bound<'py, PyAny>>,
        grace: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyDict>> {
        let _call = crate::calls::InCall::enter(py);
        let (maintained, history) = (PyDict::new(py), self.history()?);
        jobs::maintain_values(py, &history, all, progress, &maintained)?;
        if let Some(grace) = grace {
            jobs::collect_values(py, &history, jobs::grace(grace)?)?;
        }
        Ok(maintained)
    }

    /// `History.verify` of the files of mappers and of guaranteed delivery alone.
    ///
    /// Args:
    ///     progress: called with (bytes done, bytes in all) from time to time; what it raises stops
    ///         the work.
    ///
    /// Returns:
    ///     int: the number of bytes checked.
    ///
    /// Raises:
    ///     CorruptError: [DH-CORRUPT] a byte is not what was written.
    #[pyo3(signature = (*, progress = None))]
    fn verify_values(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> Outcome<u64> {
        let _call = crate::calls::InCall::enter(py);
        jobs::verify_values(py, &*self.history()?, progress)
    }
}

/// Methods that moved here from `History`: their old and new names.
const OF_HISTORY: [(&str, &str); 9] = [
    ("reserve", "reserve"),
    ("job", "job"),
    ("stage", "stage"),
    ("stage_entries", "stage_entries"),
    ("commit_entries", "commit_entries"),
    ("abort_entries", "abort_entries"),
    ("delivery_portion", "decide_delivery"),
    ("maintain_values", "maintain_values"),
    ("verify_values", "verify_values"),
];

/// Methods that moved here from `GuaranteedDelivery`.
const OF_DELIVERY: [(&str, &str); 2] = [("plan", "plan_delivery"), ("gather", "merge_delivery")];

/// A method under the name that it had in `History`.
pub(crate) fn formerly_of_history<'py>(history: &Bound<'py, History>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let shards = Bound::new(history.py(), Shards { handle: history.get().handle.clone() })?;
    shards.getattr(new_name::<History>(history.py(), name, &OF_HISTORY)?)
}

/// A method under the name that it had in `GuaranteedDelivery`, which is its first argument now.
pub(crate) fn formerly_of_delivery<'py>(
    delivery: &Bound<'py, PyAny>,
    handle: Arc<Handle>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = delivery.py();
    let now = new_name::<crate::delivery::GuaranteedDelivery>(py, name, &OF_DELIVERY)?;
    let method = Bound::new(py, Shards { handle })?.getattr(now)?;
    py.import("functools")?.call_method1("partial", (method, delivery))
}

/// The present name of a method in `Shards`. Warns callers of the old name.
fn new_name<T: PyTypeInfo>(py: Python<'_>, name: &str, moved: &[(&str, &'static str)]) -> PyResult<&'static str> {
    let of = T::type_object(py).name()?;
    let Some((_, now)) = moved.iter().find(|(before, _)| *before == name) else {
        return Err(PyAttributeError::new_err(format!("'{of}' object has no attribute '{name}'")));
    };
    let text = format!(
        "{of}.{name} is deprecated: it is a primitive of dochistory.spark, now History._shards.{now}, and may change \
         with any version"
    );
    let text = std::ffi::CString::new(text)?;
    PyErr::warn(py, &py.get_type::<PyDeprecationWarning>(), &text, 1)?;
    Ok(now)
}
