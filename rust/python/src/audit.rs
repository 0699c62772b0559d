//! The history's audit log for `begin`, and the progress of transactions.

use dochistory_core::history::Progressed;
use dochistory_core::protocols::trigger::Claim as Claimed;
use dochistory_core::protocols::trigger::rules::{Kind, Outcome as Decision, Status};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyMapping};

use crate::errors::{Failure, Outcome};
use crate::history::History;
use crate::jobs::TriggerOrName;
use crate::output;

#[pymethods]
impl History {
    /// The history's audit log: documents in doubt, whole, to be looked at and resubmitted; see
    /// `dochistory.audit`.
    #[getter]
    fn audit<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("dochistory.audit")?.getattr("AuditLog")?.call1((this,))
    }

    /// How far the last transaction of an application came. What this tells is durable, unless the
    /// history was opened for reading.
    ///
    /// Args:
    ///     trigger: the trigger, or its name.
    ///     application: the first half of the transaction.
    ///
    /// Returns:
    ///     (number of the batch, `begun` | `completed` | `released`); None if the application never
    ///     began a batch.
    ///
    /// Raises:
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    fn transaction(
        &self,
        py: Python<'_>,
        trigger: TriggerOrName<'_>,
        application: &str,
    ) -> Outcome<Option<(i64, &'static str)>> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let name = trigger.name();
        let found = crate::calls::outside(py, || history.transaction(name, application))?;
        Ok(found.map(|(batch, progressed)| {
            let word = match progressed {
                Progressed::Begun => "begun",
                Progressed::Completed => "completed",
                Progressed::Released => "released",
            };
            (batch, word)
        }))
    }
}

/// The place where a claim's documents in doubt are kept.
pub(crate) enum Keeper<'py> {
    /// The history's own audit log, which is opened only if there is something to keep.
    Own(Bound<'py, History>),
    /// An object that keeps documents, and sees every batch.
    Given(Bound<'py, PyAny>),
}

impl<'py> Keeper<'py> {
    /// The meaning of `audit=`: nothing, True for the history's own audit log, or an object that
    /// keeps documents.
    pub(crate) fn of(history: &Bound<'py, History>, audit: Option<&Bound<'py, PyAny>>) -> Outcome<Option<Self>> {
        let Some(audit) = audit.filter(|audit| !audit.is_none()) else { return Ok(None) };
        if let Ok(is_wanted) = audit.cast::<PyBool>() {
            return Ok(is_wanted.is_true().then(|| Self::Own(history.clone())));
        }
        if audit.hasattr(intern!(history.py(), "keep"))? {
            return Ok(Some(Self::Given(audit.clone())));
        }
        Err(Failure::config(format!("audit is {}; allowed is True, an audit log, or None", audit.repr()?)))
    }

    /// Whether it has to be told of a batch. Our own log refuses JMS triggers, whatever the
    /// verdicts.
    pub(crate) fn is_concerned(&self, kind: Kind, outcomes: &[Decision]) -> bool {
        matches!(self, Self::Given(_))
            || kind == Kind::Jms
            || outcomes.iter().any(|outcome| outcome.status() == Some(Status::InDoubt))
    }

    /// Keep documents in doubt, before anybody acknowledges them. If that fails, nothing was handed
    /// out yet: the claim is released.
    pub(crate) fn keep(
        &self,
        claim: &Bound<'py, crate::claim::Claim>,
        trigger: &Bound<'py, PyAny>,
        transaction: Option<(String, i64)>,
        columns: Option<&Bound<'py, PyMapping>>,
    ) -> Outcome<()> {
        let py = claim.py();
        let own = claim.get();
        let kept = own.begun_documents(py).and_then(|documents| {
            let named = PyDict::new(py);
            named.set_item(intern!(py, "transaction"), transaction)?;
            named.set_item(intern!(py, "columns"), columns)?;
            let verdicts = own.verdict_table(py)?;
            let keeper = match self {
                Self::Own(history) => history.getattr(intern!(py, "audit"))?,
                Self::Given(keeper) => keeper.clone(),
            };
            keeper.call_method(intern!(py, "keep"), (documents, verdicts, trigger), Some(&named))?;
            Ok(())
        });
        kept.inspect_err(|_| {
            // If this fails as well, the documents are in doubt when they come again.
            own.claimed.as_ref().map(|claimed: &Claimed| crate::calls::outside(py, || claimed.release(None)));
        })
    }
}

impl crate::claim::Claim {
    /// The documents as they came in.
    fn begun_documents<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        output::table(py, self.input.schema.clone(), self.input.batches.clone())
    }

    fn verdict_table<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let batch = self.verdict_columns.clone();
        output::table(py, batch.schema(), vec![batch])
    }
}
