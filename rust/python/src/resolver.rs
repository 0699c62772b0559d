//! Asking a Python resolver about the undecided rows.

use std::sync::Arc;
use std::time::Duration;

use crate::arrow::array::{
    Array, ArrayRef, Int64Array, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray, StringBuilder,
};
use crate::arrow::datatypes::{Field, Schema, TimestampMicrosecondType};
use dochistory_core::Error;
use dochistory_core::columns::{CountColumn, Documents, IdCell};
use dochistory_core::key::format_uuid;
use dochistory_core::protocols::trigger::rules::Answer;
use dochistory_core::protocols::trigger::{Ask, Asked, Reply, Resolver};
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;

use crate::answers;
use crate::columns::Columns;
use crate::errors::{Failure, Outcome, TransientError};
use crate::input::Input;
use crate::output;

/// The retries of a resolver that fails temporarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retries {
    /// Number of attempts in total.
    pub(crate) attempts: u32,
    /// Wait before the second attempt.
    pub(crate) backoff: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 3, backoff: Duration::from_millis(100) }
    }
}

/// A trigger's resolver, for one call.
pub(crate) struct Asker<'a> {
    pub(crate) resolver: &'a Py<PyAny>,
    pub(crate) trigger: &'a str,
    pub(crate) input: &'a Input,
    pub(crate) columns: &'a Columns,
    pub(crate) retries: Retries,
    /// The reason that ended the call: an interrupt, for example.
    pub(crate) interrupt: Option<PyErr>,
}

impl Resolver for Asker<'_> {
    fn resolve(&mut self, ask: Ask<'_>) -> dochistory_core::Result<Reply> {
        let batch = question(self.input, self.columns, self.trigger, ask.rows).map_err(|failure| match failure {
            Failure::Engine(error) => error,
            Failure::Python(error) => Error::State(error.to_string()),
        })?;
        self.ask(&batch)
    }
}

impl Asker<'_> {
    /// Ask, and again after a temporary failure.
    fn ask(&mut self, batch: &RecordBatch) -> dochistory_core::Result<Reply> {
        let rows = batch.num_rows();
        crate::calls::inside(|py| {
            let asked = output::record_batch(py, batch.clone());
            let answered = asked.and_then(|batch| self.call(py, batch)).and_then(|answer| answers::read(&answer, rows));
            answered.or_else(|error| self.failed(py, error, rows))
        })
    }

    fn call<'py>(&self, py: Python<'py>, batch: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Retries { attempts, backoff } = self.retries;
        if attempts < 2 {
            return self.resolver.bind(py).call1((batch,));
        }
        let again = py.import(intern!(py, "dochistory._retrying"))?;
        again.call_method1(intern!(py, "ask"), (self.resolver, attempts, backoff.as_secs_f64(), batch))
    }

    /// An exception is the answer for all rows; one that is no error (an interrupt, an exit) ends
    /// the call.
    fn failed(&mut self, py: Python<'_>, error: PyErr, rows: usize) -> dochistory_core::Result<Reply> {
        if !error.is_instance_of::<PyException>(py) {
            self.interrupt = Some(error);
            return Err(Error::State("the resolver was interrupted".into()));
        }
        let answer = if error.is_instance_of::<TransientError>(py) { Answer::Transient } else { Answer::Failed };
        let text = answers::said(error.value(py).as_any());
        Ok(Reply { answers: vec![answer; rows], messages: (0..rows).map(|place| (place, text.clone())).collect() })
    }

    /// The error to raise: the interrupt, where there was one.
    pub(crate) fn or_interrupt(self, error: Error) -> Failure {
        self.interrupt.map_or(Failure::Engine(error), Failure::Python)
    }
}

/// The undecided rows: all columns of the input, and the facts of each row.
fn question(input: &Input, columns: &Columns, trigger: &str, asked: &[Asked]) -> Outcome<RecordBatch> {
    let rows: Vec<u32> = asked.iter().map(|one| one.row).collect();
    let taken = input.take(&rows)?;
    let known = known(columns, trigger, asked);
    let is_free = |name: &str| known.iter().all(|(added, _)| *added != name);
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (field, array) in input.schema.fields().iter().zip(taken.columns()).filter(|(field, _)| is_free(field.name())) {
        fields.push(field.clone());
        arrays.push(array.clone());
    }
    for (name, array) in &known {
        fields.push(Arc::new(Field::new(*name, array.data_type().clone(), true)));
        arrays.push(array.clone());
    }
    let schema = Schema::new(fields).with_metadata(input.schema.metadata().clone());
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)?)
}

fn known(columns: &Columns, trigger: &str, asked: &[Asked]) -> [(&'static str, ArrayRef); 6] {
    let documents = columns.documents();
    let counts: Int64Array = asked.iter().map(|one| count_of(&documents, one.row as usize)).collect();
    let started_at: PrimitiveArray<TimestampMicrosecondType> = asked.iter().map(|one| one.started_at).collect();
    [
        ("dh_trigger", Arc::new(StringArray::from_iter_values(asked.iter().map(|_| trigger)))),
        ("dh_key", keys(&documents, asked)),
        ("dh_count", Arc::new(counts)),
        ("dh_reason", Arc::new(StringArray::from_iter_values(asked.iter().map(|one| one.reason.rule())))),
        ("dh_started_at", Arc::new(started_at.with_timezone("UTC"))),
        ("dh_row", Arc::new(Int64Array::from_iter_values(asked.iter().map(|one| i64::from(one.row))))),
    ]
}

fn count_of(documents: &Documents<'_>, row: usize) -> Option<i64> {
    match documents.count {
        CountColumn::Absent => None,
        column => column.get(row),
    }
}

/// The keys of the rows asked about, usable or not.
fn keys(documents: &Documents<'_>, asked: &[Asked]) -> ArrayRef {
    let mut keys = StringBuilder::new();
    for one in asked {
        let mut chain = documents.ids.iter().map(|column| column.get(one.row as usize));
        match chain.find(|id| !matches!(id, IdCell::Null | IdCell::Text([]))) {
            Some(IdCell::Text(text)) => keys.append_value(String::from_utf8_lossy(text)),
            Some(IdCell::Uuid(uuid)) => keys.append_value(String::from_utf8_lossy(&format_uuid(*uuid))),
            Some(IdCell::Null) | None => keys.append_null(),
        }
    }
    Arc::new(keys.finish())
}
