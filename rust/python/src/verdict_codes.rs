//! Verdicts as one small number a row, for callers that pay for every byte between processes.

use std::sync::{Arc, LazyLock};

use crate::arrow::array::{ArrayRef, Int8Array, Int16Array, RecordBatch, StringArray};
use crate::arrow::datatypes::{DataType, Field, Schema};
use dochistory_core::key::NO_SOURCE;
use dochistory_core::protocols::trigger::Verdicts;
use dochistory_core::protocols::trigger::rules::{Acknowledge, Action, Outcome as Decision, Status};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyMapping;

use crate::arguments;
use crate::call::Documents;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::history::{History, names};
use crate::input::Input;
use crate::output;
use crate::pyarrow::array_to_pyarrow;
use crate::trigger::Trigger;

/// Codes of outcomes are below this; the bits above it are the id column that the key comes from.
const SOURCE: i16 = 128;
const _: () = assert!(Decision::COUNT <= SOURCE as usize, "outcomes fit into seven bits");

#[pymethods]
impl History {
    /// As `classify`, but each verdict is one number: a row of `verdict_words`.
    ///
    /// A resolver is asked as in `classify`; what it says by way of messages is not in the answer.
    ///
    /// Args:
    ///     documents: the documents, in order of arrival.
    ///     trigger: whose documents they are.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///     columns: the trigger's name of a column -> its name in `documents`, where they differ.
    ///
    /// Returns:
    ///     A pyarrow array with a row for each document, in order: int8 where there is one id
    ///     column, else int16. A row without a key is -1 - code, any other `code + 128 * source`;
    ///     the source is the place of the id column that holds the key, among those that are there.
    ///
    /// Raises:
    ///     As `classify`.
    #[pyo3(signature = (documents, trigger, *, now = None, columns = None))]
    fn classify_codes<'py>(
        &self,
        documents: &Bound<'py, PyAny>,
        trigger: &Bound<'py, Trigger>,
        now: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arguments::columns)] columns: Option<Bound<'py, PyMapping>>,
    ) -> Outcome<Bound<'py, PyAny>> {
        static NARROW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static WIDE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = documents.py();
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let input = Input::import(documents)?;
        let documents =
            Documents::new(trigger.get(), input, names(columns.as_ref())?.as_ref(), clock::now_us(now)?, 1)?;
        let is_narrow = documents.columns.ids().len() == 1;
        let codes =
            crate::calls::outside(py, || Ok::<_, Failure>(code_column(&documents.judge(&history)?, is_narrow)))?;
        let (known, name) = if is_narrow { (&NARROW, "int8") } else { (&WIDE, "int16") };
        let kind = known.get_or_try_init(py, || Ok::<_, PyErr>(py.import("pyarrow")?.call_method0(name)?.unbind()))?;
        Ok(array_to_pyarrow(&codes, kind.bind(py))?)
    }
}

fn code_column(verdicts: &Verdicts, is_narrow: bool) -> ArrayRef {
    let rows = verdicts.outcomes.iter().zip(&verdicts.sources);
    if is_narrow {
        let code = |(outcome, source): (&Decision, &u8)| {
            // Below 128, so the sign bit is free for rows without a key.
            let code = outcome.as_u8().cast_signed();
            if *source == NO_SOURCE { !code } else { code }
        };
        return Arc::new(Int8Array::from(rows.map(code).collect::<Vec<_>>()));
    }
    let code = |(outcome, source): (&Decision, &u8)| {
        let code = i16::from(outcome.as_u8());
        if *source == NO_SOURCE { !code } else { code + SOURCE * i16::from(*source) }
    };
    Arc::new(Int16Array::from(rows.map(code).collect::<Vec<_>>()))
}

/// A column of words: its name, and the word of each code.
type Words = (&'static str, Vec<Option<&'static str>>);

static WORDS: LazyLock<Vec<Words>> = LazyLock::new(|| {
    let column = |word: fn(Decision) -> Option<&'static str>| Decision::all().map(word).collect();
    vec![
        ("status", column(|outcome| outcome.status().map(Status::as_str))),
        ("action", column(|outcome| Some(Action::as_str(outcome.action())))),
        ("acknowledge", column(|outcome| Some(Acknowledge::as_str(outcome.acknowledge())))),
        ("rule", column(|outcome| Some(outcome.rule()))),
        ("message", column(Decision::message)),
    ]
});

/// What the codes of `History.classify_codes` mean: row n is code n. Codes may mean something else
/// in another version: do not store them.
///
/// Returns:
///     A pyarrow RecordBatch, all utf8: `status` (null when suspended or rejected), `action`,
///     `acknowledge`, `rule` and `message` (null for what is NEW).
///
/// Raises:
///     Nothing.
#[pyfunction]
pub(crate) fn verdict_words(py: Python<'_>) -> Outcome<Bound<'_, PyAny>> {
    let fields: Vec<Field> = WORDS.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, true)).collect();
    let arrays = WORDS.iter().map(|(_, words)| Arc::new(StringArray::from(words.clone())) as ArrayRef).collect();
    Ok(output::record_batch(py, RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)?)
}
