//! The result of `begin`: the verdicts, the documents to process, and the right to end them.

use std::sync::Arc;

use crate::arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use crate::arrow::buffer::BooleanBuffer;
use crate::arrow::compute::filter_record_batch;
use dochistory_core::protocols::trigger::rules::{Action, Outcome as Decision, Status};
use dochistory_core::protocols::trigger::{Begun, Claim as Claimed, Replay};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::call::Documents;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::input::Input;
use crate::output;
use crate::pyarrow::array_to_pyarrow;
use crate::rows::row_numbers;

/// Documents that were begun together, and their verdicts. `History.begin` makes it.
///
/// What is to be processed is `new`; when the service has ended, in success or failure, say
/// `complete()`; when its work was undone for certain, say `release()`. Both are durable on return,
/// and change nothing when said again. A document that has ended refuses the other end: what was
/// released may be another claim's by now. A document that is neither completed nor released stays
/// `processing`, and is in doubt when it comes again. A claim may be ended after its history was
/// closed.
///
/// In a `with` block `RolledBack` releases what has not ended, and is raised further. Any other
/// exception ends nothing, and neither does leaving the block: only `complete()` says that the
/// services have ended.
#[pyclass(module = "dochistory", name = "Claim", frozen)]
pub(crate) struct Claim {
    pub(crate) handle: Arc<Handle>,
    /// None if the history keeps track of none of the documents.
    pub(crate) claimed: Option<Claimed>,
    pub(crate) replay: Option<Replay>,
    pub(crate) started_at_us: i64,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) input: Input,
    pub(crate) verdict_columns: RecordBatch,
    pub(crate) verdicts: PyOnceLock<Py<PyAny>>,
    pub(crate) new: PyOnceLock<Py<PyAny>>,
}

#[derive(Clone, Copy)]
enum End {
    Completed,
    Released,
}

#[pymethods]
impl Claim {
    /// Number of the claim, unique within its trigger; None if the history keeps track of none of
    /// its documents.
    #[getter]
    fn id(&self) -> Option<u64> {
        self.claimed.as_ref().map(Claimed::number)
    }

    /// When the service began, as a datetime in UTC: the `now` of `begin`.
    #[getter]
    fn started_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        clock::datetime(py, self.started_at_us)
    }

    /// Of a transaction: `first`, `unfinished` (it was begun before and did not end) or `finished`;
    /// else None.
    #[getter]
    fn replay(&self) -> Option<&'static str> {
        self.replay.map(replay_word)
    }

    /// The rows that were released by themselves, in order.
    #[getter]
    fn released_rows(&self) -> Vec<u32> {
        let mut rows = self.claimed.as_ref().map_or_else(Vec::new, Claimed::released_rows);
        rows.sort_unstable();
        rows
    }

    /// The verdict of every row: `status`, `action`, `acknowledge`, `rule`, `key`, `message`; see
    /// `History.classify`.
    #[getter]
    fn verdicts(&self, py: Python<'_>) -> Outcome<Py<PyAny>> {
        let make = || Ok(output::like(py, self.input.is_batch, self.verdict_columns.clone())?.unbind());
        self.verdicts.get_or_try_init(py, make).map(|verdicts| verdicts.clone_ref(py))
    }

    /// The documents to process: the rows whose action is PROCESS, in the columns they came in. A
    /// pyarrow RecordBatch where one came in, else a Table.
    #[getter]
    #[pyo3(name = "new")]
    fn documents(&self, py: Python<'_>) -> Outcome<Py<PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        let make = || {
            let mut batches = crate::calls::outside(py, || self.to_process())?;
            let new = match batches.pop() {
                Some(batch) if self.input.is_batch => output::record_batch(py, batch)?,
                last => {
                    batches.extend(last);
                    output::table(py, self.input.schema.clone(), batches)?
                }
            };
            Ok::<_, Failure>(new.unbind())
        };
        self.new.get_or_try_init(py, make).map(|new| new.clone_ref(py))
    }

    /// How many documents have which verdict: (status or None, action, rule, number of documents)
    /// for each that occurs, as `count_verdicts` counts them.
    #[getter]
    fn counts(&self) -> Vec<Counted> {
        counted(&self.decisions)
    }

    /// The row numbers of `new` in the batch that was begun, in order: a pyarrow uint32 array. What
    /// `complete(rows=…)` and `release(rows=…)` take.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let numbers = (0u32..).zip(&self.decisions).filter(|(_, decision)| decision.is_process()).map(|(row, _)| row);
        let rows: ArrayRef = Arc::new(numbers.collect::<UInt32Array>());
        Ok(array_to_pyarrow(&rows, &py.import("pyarrow")?.call_method0("uint32")?)?)
    }

    /// The services ended, in success or failure: the documents are DUPLICATE from now on. Durable
    /// on return.
    ///
    /// Args:
    ///     rows: row numbers of the batch that was begun, any iterable of integers; all rows but
    ///         those that were released by themselves, if absent.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] a row is not one of those to process, or was released, by itself
    ///         or with the claim.
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    #[pyo3(signature = (rows = None))]
    fn complete(&self, py: Python<'_>, rows: Option<&Bound<'_, PyAny>>) -> Outcome<()> {
        self.end(py, End::Completed, rows)
    }

    /// The services' work was undone for certain: the documents are NEW when they come again.
    ///
    /// Args:
    ///     rows: row numbers of the batch that was begun, any iterable of integers; all rows but
    ///         those that were completed by themselves, if absent.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] a row is not one of those to process, or was completed, by itself
    ///         or with the claim.
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    #[pyo3(signature = (rows = None))]
    fn release(&self, py: Python<'_>, rows: Option<&Bound<'_, PyAny>>) -> Outcome<()> {
        self.end(py, End::Released, rows)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (kind, error, trace, /))]
    #[expect(unused_variables, reason = "only what was raised matters here")]
    fn __exit__(&self, kind: &Bound<'_, PyAny>, error: &Bound<'_, PyAny>, trace: &Bound<'_, PyAny>) -> Outcome<()> {
        on_leaving(error, || self.end(error.py(), End::Released, None))
    }

    /// What a notebook shows.
    fn _repr_html_(this: &Bound<'_, Self>) -> PyResult<String> {
        this.py().import("dochistory.notebook")?.getattr("claim_html")?.call1((this,))?.extract()
    }

    fn __repr__(&self) -> String {
        let id = self.id().map_or_else(|| "None".to_owned(), |id| id.to_string());
        let new = self.decisions.iter().filter(|decision| decision.is_process()).count();
        format!("<Claim {id}: {new} of {} documents to process>", self.decisions.len())
    }
}

/// Status (none when suspended or rejected), action, rule and number of documents.
type Counted = (Option<&'static str>, &'static str, &'static str, u64);

fn counted(decisions: &[Decision]) -> Vec<Counted> {
    let mut rows = [0_u64; 256];
    for decision in decisions {
        rows[usize::from(decision.as_u8())] += 1;
    }
    let of = |decision: Decision| {
        let (status, action) = (decision.status().map(Status::as_str), decision.action());
        (status, Action::as_str(action), decision.rule(), rows[usize::from(decision.as_u8())])
    };
    let mut counts: Vec<_> = Decision::all().map(of).filter(|(.., count)| *count > 0).collect();
    counts.sort_unstable();
    counts
}

impl Claim {
    pub(crate) fn of(
        handle: Arc<Handle>,
        begun: Begun,
        documents: Documents<'_>,
        verdict_columns: RecordBatch,
    ) -> Self {
        Self {
            handle,
            started_at_us: begun.claim.as_ref().map_or(documents.now_us, Claimed::started_at),
            claimed: begun.claim,
            replay: begun.replay,
            decisions: begun.verdicts.outcomes,
            input: documents.input,
            verdict_columns,
            verdicts: PyOnceLock::new(),
            new: PyOnceLock::new(),
        }
    }

    fn to_process(&self) -> Outcome<Vec<RecordBatch>> {
        if self.decisions.iter().all(|decision| decision.is_process()) {
            return Ok(self.input.batches.clone());
        }
        let mut start = 0;
        let mut of_batch = |batch: &RecordBatch| {
            let decisions = &self.decisions[start..start + batch.num_rows()];
            start += batch.num_rows();
            let is_new = BooleanBuffer::collect_bool(decisions.len(), |row| decisions[row].is_process());
            Ok(filter_record_batch(batch, &BooleanArray::new(is_new, None))?)
        };
        self.input.batches.iter().map(&mut of_batch).collect()
    }

    fn end(&self, py: Python<'_>, end: End, rows: Option<&Bound<'_, PyAny>>) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.check_process()?;
        let rows = rows.map(|rows| self.recorded(rows)).transpose()?;
        let Some(claimed) = &self.claimed else { return Ok(()) };
        Ok(crate::calls::outside(py, || match end {
            End::Completed => claimed.complete(rows.as_deref()),
            End::Released => claimed.release(rows.as_deref()),
        })?)
    }

    /// The rows that the history keeps track of, among the named ones, each of which must be a row
    /// to process.
    fn recorded(&self, rows: &Bound<'_, PyAny>) -> Outcome<Vec<u32>> {
        let mut recorded = Vec::new();
        for row in row_numbers(rows)? {
            let at = usize::try_from(row).ok().filter(|at| *at < self.decisions.len());
            let decision = at.map(|at| self.decisions[at]);
            match decision.filter(|decision| decision.is_process()) {
                Some(decision) if decision.writes_processing() => recorded.push(row as u32),
                Some(_) => {}
                None => {
                    let why = decision.map_or_else(
                        || format!("not in this batch of {} rows", self.decisions.len()),
                        |decision| format!("not to be processed: its action is {}", decision.action().as_str()),
                    );
                    return Err(Failure::state(format!("row {row} is {why}")));
                }
            }
        }
        Ok(recorded)
    }
}

/// The end of a `with` block: documents that were definitely rolled back are released.
pub(crate) fn on_leaving(error: &Bound<'_, PyAny>, release: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
    static ROLLED_BACK: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if error.is_none() {
        return Ok(());
    }
    let rolled_back = ROLLED_BACK.import(error.py(), "dochistory.errors", "RolledBack")?;
    if error.is_instance(rolled_back)? { release() } else { Ok(()) }
}

/// The word for it in Python.
pub(crate) fn replay_word(replay: Replay) -> &'static str {
    match replay {
        Replay::First => "first",
        Replay::Unfinished => "unfinished",
        Replay::Finished => "finished",
    }
}
