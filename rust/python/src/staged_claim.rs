//! The result of a job's commit: the right to end its documents.

use std::sync::Arc;

use dochistory_core::protocols::trigger::StagedClaim as Claimed;
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use crate::call::Documents;
use crate::claim::{on_leaving, replay_word};
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::given_keys;
use crate::handle::Handle;
use crate::history::{names, start_due, warn_of_maintenance};
use crate::input::Input;
use crate::output;
use crate::trigger::Trigger;
use crate::verdicts::verdict_columns;

/// Documents that the tasks of a job began together. `Job.commit` makes it.
///
/// `complete()` when the services have ended, in success or failure; `release()` when their work
/// was undone for certain. Both are durable on return, and change nothing when said again. A
/// document that has ended refuses the other end: what was released may be another claim's by now.
/// What is neither stays `processing`, and is in doubt when it comes again. A `with` block ends it
/// as that of a `Claim` does.
#[pyclass(module = "dochistory._native", name = "StagedClaim", frozen)]
pub(crate) struct StagedClaim {
    pub(crate) handle: Arc<Handle>,
    pub(crate) trigger: Py<Trigger>,
    pub(crate) claimed: Claimed,
}

#[pymethods]
impl StagedClaim {
    /// Number of the claim, unique within its trigger; None if there was nothing to begin.
    #[getter]
    fn id(&self) -> Option<u64> {
        self.claimed.number()
    }

    /// When the services began, as a datetime in UTC.
    #[getter]
    fn started_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        clock::datetime(py, self.claimed.started_at())
    }

    /// Of a transaction: `first`, `unfinished` (it was begun before and did not end) or `finished`;
    /// else None.
    #[getter]
    fn replay(&self) -> Option<&'static str> {
        self.claimed.replay().map(replay_word)
    }

    /// The ids of the documents that others were first with, and that this claim therefore leaves
    /// out (`most_lost`).
    #[getter]
    fn lost(&self) -> Vec<&str> {
        self.claimed.lost().iter().map(String::as_str).collect()
    }

    /// Decide documents that the claim leaves out again, by what the history holds now, and begin
    /// under this claim what is NEW after all: others released it meanwhile, or the resolver says
    /// so. Durable on return.
    ///
    /// Args:
    ///     documents: the rows of lost documents, in order of arrival; all rows of an id belong
    ///         together.
    ///     columns: the trigger's name of a column -> its name in `documents`, where they differ.
    ///     threads: threads to use for many documents.
    ///
    /// Returns:
    ///     The verdict of every row, as `History.classify` gives it.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] the claim has ended as a whole, or its time was purged, and a
    ///         document would have to be begun.
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    #[pyo3(signature = (documents, *, columns = None, threads = 1))]
    fn decide_lost(
        &self,
        documents: &Bound<'_, PyAny>,
        columns: Option<&Bound<'_, PyMapping>>,
        threads: usize,
    ) -> Outcome<Py<PyAny>> {
        let _call = crate::calls::InCall::enter(documents.py());
        let py = documents.py();
        self.handle.check_process()?;
        let (input, started_at) = (Input::import(documents)?, self.claimed.started_at());
        let documents = Documents::new(self.trigger.get(), input, names(columns)?.as_ref(), started_at, threads)?;
        let verdicts = crate::calls::outside(py, || {
            let verdicts = documents.decide_lost(&self.claimed)?;
            verdict_columns(&verdicts, &documents.columns, 1)
        })?;
        Ok(output::like(py, documents.input.is_batch, verdicts)?.unbind())
    }

    /// Number of documents begun.
    fn __len__(&self) -> usize {
        self.claimed.len() as usize
    }

    /// The services ended, in success or failure: the documents are DUPLICATE from now on. Durable
    /// on return.
    ///
    /// Args:
    ///     keys: an Arrow array, documents in the trigger's columns, or any iterable of text; all
    ///         but those that were released by themselves, if absent.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] some keys are not of this claim, or were released, by themselves
    ///         or with the claim.
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    #[pyo3(signature = (keys = None))]
    fn complete(&self, py: Python<'_>, keys: Option<&Bound<'_, PyAny>>) -> Outcome<()> {
        self.end(py, keys, Claimed::complete)
    }

    /// The services' work was undone for certain: the documents are NEW when they come again.
    ///
    /// Args:
    ///     keys: an Arrow array, documents in the trigger's columns, or any iterable of text; all
    ///         but those that were completed by themselves, if absent.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] some keys are not of this claim, or were completed, by themselves
    ///         or with the claim.
    #[pyo3(signature = (keys = None))]
    fn release(&self, py: Python<'_>, keys: Option<&Bound<'_, PyAny>>) -> Outcome<()> {
        self.end(py, keys, Claimed::release)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (kind, error, trace, /))]
    #[expect(unused_variables, reason = "only what was raised matters here")]
    fn __exit__(&self, kind: &Bound<'_, PyAny>, error: &Bound<'_, PyAny>, trace: &Bound<'_, PyAny>) -> Outcome<()> {
        on_leaving(error, || self.release(error.py(), None))
    }

    fn __repr__(&self) -> String {
        let id = self.id().map_or_else(|| "None".to_owned(), |id| id.to_string());
        format!("<StagedClaim {id}: {} documents to process>", self.claimed.len())
    }
}

/// The engine's function that ends documents.
type End = fn(&Claimed, Option<&dochistory_core::columns::Documents<'_>>) -> dochistory_core::Result<()>;

impl StagedClaim {
    fn end(&self, py: Python<'_>, keys: Option<&Bound<'_, PyAny>>, end: End) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.check_process()?;
        let trigger = self.trigger.get();
        let columns = keys.map(|keys| given_keys::keys(keys, trigger)).transpose()?;
        let failed = crate::calls::outside(py, || {
            match &columns {
                Some(columns) => end(&self.claimed, Some(&columns.documents())),
                None => end(&self.claimed, None),
            }?;
            // A job leaves many small files. They are compacted here rather than at the commit,
            // because the services wait for the commit.
            let history = if columns.is_none() { self.handle.get().ok() } else { None };
            Ok::<_, Failure>(history.and_then(|history| start_due(&self.handle, &history, &trigger.rules)))
        })?;
        warn_of_maintenance(py, failed);
        Ok(())
    }
}
