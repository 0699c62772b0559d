//! Progress of a long job: for a callable, or as a bar on the terminal.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::errors::Outcome;

/// Minimum time between two drawings of a bar.
const BETWEEN_DRAWINGS: Duration = Duration::from_millis(100);

pub(crate) struct Hearer<'py> {
    callable: Option<Bound<'py, PyAny>>,
    is_bar: bool,
    drawn_at: Cell<Option<Instant>>,
}

impl<'py> Hearer<'py> {
    /// `progress` is a callable, True for a bar, or False or None for nothing.
    pub(crate) fn new(
        py: Python<'py>,
        progress: Option<&Bound<'py, PyAny>>,
        label: &str,
        total: Option<u64>,
    ) -> Outcome<Self> {
        let wanted = progress.map(PyAnyMethods::extract::<bool>);
        let is_bar = matches!(wanted, Some(Ok(true)));
        let callable = match wanted {
            None | Some(Ok(false)) => None,
            Some(Ok(true)) => Some(py.import("dochistory.progress")?.call_method1("Bar", (label, total))?),
            Some(Err(_)) => progress.cloned(),
        };
        Ok(Self { callable, is_bar, drawn_at: Cell::new(None) })
    }

    /// The callable, which gets `(done, total)`.
    pub(crate) fn callable(&self) -> Option<&Bound<'py, PyAny>> {
        self.callable.as_ref()
    }

    /// Report progress; an error from the callable stops the job.
    pub(crate) fn tell(&self, done: u64, total: Option<u64>) -> Outcome<()> {
        let Some(callable) = &self.callable else { return Ok(()) };
        if self.is_bar && self.drawn_at.get().is_some_and(|at| at.elapsed() < BETWEEN_DRAWINGS) {
            return Ok(());
        }
        self.drawn_at.set(Some(Instant::now()));
        match total {
            Some(total) => callable.call1((done, total))?,
            None => callable.call1((done,))?,
        };
        Ok(())
    }

    /// End the line, if it is a bar.
    pub(crate) fn close(&self) -> Outcome<()> {
        if let Some(bar) = self.callable.as_ref().filter(|_| self.is_bar) {
            bar.call_method0("close")?;
        }
        Ok(())
    }
}
