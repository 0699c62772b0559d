//! The history object.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use dochistory_core::history::History as Engine;
use dochistory_core::protocols::trigger::rules::{Outcome as Decision, Trigger as Rules};
use dochistory_core::{Replays, Transaction};
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use crate::arguments;
use crate::audit::Keeper;
use crate::background::Failed;
use crate::call::{Beginning, Documents, replays};
use crate::calls::InCall;
use crate::claim::Claim;
use crate::clock;
use crate::document_claim::{Document, DocumentClaim};
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::input::Input;
use crate::output;
use crate::shards::{self, Shards};
use crate::trigger::{self, Trigger, WithoutIds};
use crate::verdicts::verdict_columns;

/// Column names by role, where they differ.
pub(crate) type Names = HashMap<String, String>;

/// A durable history of the ids of documents. `open` makes it.
///
/// Documents come as anything with Arrow's C interface (pyarrow RecordBatch, Table or reader,
/// Polars, pandas, DuckDB). Columns of a `messaging` trigger: `uuid`, `track_id`, `event_id` (the
/// key is the first of them that holds a value), the count `redelivery_count` (0 first, above 0
/// again, -1 unknown) and the flag `guaranteed`; of a `jms` trigger: `uuid`, `jms_message_id`,
/// `delivery_count` (1 first) and `persistent`. Ids are text, a dictionary of text, or UUIDs as 16
/// bytes; counts are integers; flags are boolean. One id column must be there; others may be absent
/// (unknown; flags: true).
///
/// All methods may be called by many threads at once; none holds Python while it works. After a
/// fork the child must open the history again.
#[pyclass(module = "dochistory", name = "History", frozen)]
pub(crate) struct History {
    pub(crate) handle: Arc<Handle>,
}

#[pymethods]
impl History {
    /// The directory. A history in a bucket has none: it has a `url`.
    #[getter]
    fn path(&self) -> Outcome<PathBuf> {
        self.handle.check_directory()?;
        Ok(self.handle.path.clone())
    }

    /// The URL of a history in a bucket; None for one in a directory.
    #[getter]
    fn url(&self) -> Option<String> {
        let is_url = self.handle.check_directory().is_err();
        is_url.then(|| self.handle.path.display().to_string())
    }

    /// The history's own id, which copies of it share, in 32 hexadecimal digits.
    #[getter]
    fn id(&self) -> Outcome<String> {
        let id = self.handle.get()?.id();
        Ok(format!("{:032x}", u128::from_be_bytes(id)))
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        !self.handle.is_open()
    }

    /// Whether it is open, and its local copy of a bucket was not deleted. Not public.
    #[getter]
    fn _is_usable(&self) -> bool {
        self.handle.is_open() && self.handle.has_replica()
    }

    /// Number of key ranges that Spark may divide the history's work into.
    #[getter]
    fn shards(&self) -> Outcome<u32> {
        Ok(self.handle.get()?.shards())
    }

    /// What many processes do on it together. Not public: `dochistory.spark` uses it.
    #[getter]
    #[pyo3(name = "_shards")]
    fn own_shards(&self) -> Shards {
        Shards { handle: self.handle.clone() }
    }

    /// The client of the bucket; None for a directory. Not public: `dochistory.audit` uses it.
    #[getter]
    #[pyo3(name = "_objects")]
    fn own_objects(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.handle.client().map(|client| client.clone_ref(py))
    }

    /// Methods that were public once, with a warning.
    fn __getattr__<'py>(this: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        shards::formerly_of_history(this, name)
    }

    /// Judge documents by what the history holds now. Writes nothing, so it may be asked as often
    /// as one likes.
    ///
    /// The rules are those of exactly-once processing by publish-subscribe and JMS triggers;
    /// `docs/rules.md` lists them.
    ///
    /// Args:
    ///     documents: the documents, in order of arrival.
    ///     trigger: whose documents they are.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///     columns: the trigger's name of a column -> its name in `documents`, where they differ.
    ///     threads: threads to use for large batches.
    ///
    /// Returns:
    ///     A row for each document, in order: a pyarrow RecordBatch where one came in, else a
    ///     Table. Columns: `status` (NEW, DUPLICATE, IN_DOUBT; null when suspended or rejected),
    ///     `action` (PROCESS, DISCARD, LOG, SUSPEND, REJECT), `acknowledge` (AFTER_SERVICE, NOW,
    ///     NO) and `rule` ("R8", "R10>S1", "R8+batch"), all dictionary<int8, utf8>; `key` (text;
    ///     null if there is none); `message` (utf8: a sentence for the journal; null for what is
    ///     NEW).
    ///
    /// A resolver is asked once about all documents that are left undecided. It gets a pyarrow
    /// RecordBatch of their columns and `dh_trigger`, `dh_key`, `dh_count`, `dh_reason` (the rule
    /// that left it undecided), `dh_started_at` (timestamp[us, UTC]; null unless it is processing)
    /// and `dh_row`; it answers an Arrow array or any sequence of NEW, DUPLICATE, IN_DOUBT, a table
    /// with the columns `status` and `message`, a mapping of two such sequences, or a sequence of
    /// pairs. It may raise `TransientError`, or answer an exception for a single document; what
    /// failed for the moment is asked about again before it counts (`Trigger.resolver_attempts`).
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] a column is missing or has the wrong type.
    ///     ConfigError: [DH-CONFIG] an argument makes no sense.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    #[pyo3(signature = (documents, trigger, *, now = None, columns = None, threads = 1))]
    fn classify<'py>(
        &self,
        documents: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'py, Trigger>,
        now: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arguments::columns)] columns: Option<Bound<'py, PyMapping>>,
        #[pyo3(from_py_with = arguments::threads)] threads: usize,
    ) -> Outcome<Bound<'py, PyAny>> {
        let py = documents.py();
        let _call = InCall::enter(py);
        let history = self.handle.get()?;
        let input = Input::import(documents)?;
        let documents =
            Documents::new(trigger.get(), input, names(columns.as_ref())?.as_ref(), clock::now_us(now)?, threads)?;
        let verdicts = crate::calls::outside(py, || documents.classify(&history))?;
        output::like(py, documents.input.is_batch, verdicts)
    }

    /// Judge documents, and write `processing` for those to process, in one atomic step: of two
    /// that bring the same id at once exactly one gets it as NEW. Durable on return.
    ///
    /// Args:
    ///     documents: the documents, in order of arrival.
    ///     trigger: whose documents they are.
    ///     now: the time at which the services begin, a datetime with a time zone; the clock's, if
    ///         absent.
    ///     columns: the trigger's name of a column -> its name in `documents`, where they differ.
    ///     threads: threads to use for large batches.
    ///     transaction: (application, number of the batch): a batch that comes again is known by
    ///         it.
    ///     on_replay: what documents are that this very transaction began and never ended:
    ///         `in_doubt` (by the rules), `resolver` (the same, and the trigger must have a
    ///         resolver), `rerun` (NEW again: for services that are idempotent for each batch).
    ///     on_other_rows: what is done with a known number that comes with other rows: `error`
    ///         (nothing is recorded), or `look_up` (each row is what the history holds of it).
    ///     audit: True keeps the documents in doubt, whole, in the history's audit log before this
    ///         returns; or an audit log of your own (`dochistory.audit`). What fails there is
    ///         raised, and nothing is claimed. Without it, a warning is logged of the first
    ///         document that has no id; False logs none.
    ///
    /// Returns:
    ///     Claim: the verdicts (`Claim.verdicts`, in the columns of `classify`), the documents to
    ///     process (`Claim.new`), and the right to end them.
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] a column is missing or has the wrong type.
    ///     ConfigError: [DH-CONFIG] an argument makes no sense.
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     TransactionError: [DH-TRANSACTION] the application's numbers went backwards, or a known
    ///         number came with other rows.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    #[pyo3(signature = (
        documents, trigger, *, now = None, columns = None, threads = 1, transaction = None, on_replay = "in_doubt",
        on_other_rows = "error", audit = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "users give them by name")]
    fn begin<'py>(
        this: &Bound<'py, Self>,
        documents: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'py, Trigger>,
        now: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arguments::columns)] columns: Option<Bound<'py, PyMapping>>,
        #[pyo3(from_py_with = arguments::threads)] threads: usize,
        #[pyo3(from_py_with = arguments::transaction)] transaction: Option<(String, i64)>,
        #[pyo3(from_py_with = arguments::on_replay)] on_replay: &str,
        #[pyo3(from_py_with = arguments::on_other_rows)] on_other_rows: &str,
        audit: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, Claim>> {
        let py = documents.py();
        let _call = InCall::enter(py);
        let history = this.get().handle.get()?;
        let keeper = Keeper::of(this, audit)?;
        let application = transaction.clone();
        let how = Beginning {
            replays: replays(on_replay, on_other_rows, trigger.get())?,
            transaction: transaction.map(|(application, batch)| Transaction { application, batch }),
        };
        let input = Input::import(documents)?;
        let documents =
            Documents::new(trigger.get(), input, names(columns.as_ref())?.as_ref(), clock::now_us(now)?, threads)?;
        let (handle, rules) = (&this.get().handle, &trigger.get().rules);
        let (begun, verdict_columns, failed) = crate::calls::outside(py, || {
            let begun = documents.begin(&history, &how)?;
            let columns = verdict_columns(&begun.verdicts, &documents.columns, documents.threads)?;
            Ok::<_, Failure>((begun, columns, start_due(handle, &history, rules)))
        })?;
        warn_of_maintenance(py, failed);
        this.get().note_without_id(py, trigger.get(), &begun.verdicts.outcomes, audit.is_none());
        let claim = Bound::new(py, Claim::of(handle.clone(), begun, documents, verdict_columns))?;
        if let Some(keeper) = keeper.filter(|keeper| keeper.is_concerned(rules.kind, &claim.get().decisions)) {
            keeper.keep(&claim, trigger.as_any(), application, columns.as_ref())?;
        }
        Ok(claim)
    }

    /// Begin one document; the same as `begin` with a batch of one. One that this handle has read
    /// as completed is answered without the writer lock.
    ///
    /// Args:
    ///     trigger: whose document it is.
    ///     uuid: its id.
    ///     track_id: stands in where there is no uuid (messaging).
    ///     event_id: stands in where there is neither (messaging).
    ///     jms_message_id: stands in where there is no uuid (JMS).
    ///     redelivery_count: 0 first, above 0 again, -1 or None unknown (messaging).
    ///     delivery_count: 1 first, above 1 again, -1 or None unknown (JMS).
    ///     guaranteed: whether it is delivered with a guarantee; None counts as true (messaging).
    ///     persistent: whether it is persistent; None counts as true (JMS).
    ///     now: the time at which the service begins, a datetime with a time zone; the clock's, if
    ///         absent.
    ///
    /// Returns:
    ///     DocumentClaim: the verdict as plain values, and the right to end the document.
    ///
    /// Raises:
    ///     As `begin`.
    #[pyo3(signature = (
        *, trigger, uuid = None, track_id = None, event_id = None, jms_message_id = None, redelivery_count = None,
        delivery_count = None, guaranteed = None, persistent = None, now = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "users give them by name")]
    fn begin_one(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'_, Trigger>,
        #[pyo3(from_py_with = arguments::uuid)] uuid: Option<String>,
        #[pyo3(from_py_with = arguments::track_id)] track_id: Option<String>,
        #[pyo3(from_py_with = arguments::event_id)] event_id: Option<String>,
        #[pyo3(from_py_with = arguments::jms_message_id)] jms_message_id: Option<String>,
        #[pyo3(from_py_with = arguments::redelivery_count)] redelivery_count: Option<i64>,
        #[pyo3(from_py_with = arguments::delivery_count)] delivery_count: Option<i64>,
        #[pyo3(from_py_with = arguments::guaranteed)] guaranteed: Option<bool>,
        #[pyo3(from_py_with = arguments::persistent)] persistent: Option<bool>,
        now: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<DocumentClaim> {
        let _call = InCall::enter(py);
        let history = self.handle.get()?;
        let trigger = trigger.get();
        let document = Document {
            uuid,
            track_id,
            event_id,
            jms_message_id,
            redelivery_count,
            delivery_count,
            guaranteed,
            persistent,
        };
        let now_us = clock::now_us(now)?;
        // All of it outside Python: threads that begin documents one by one wait for nothing
        // longer.
        let (claim, is_completed, failed) = crate::calls::outside(py, || {
            let input = document.into_input(trigger.rules.kind)?;
            let documents = Documents::new(trigger, input, None, now_us, 1)?;
            let (begun, is_completed) = match documents.completed(&history)? {
                Some(begun) => (begun, true),
                None => {
                    let how = Beginning { transaction: None, replays: Replays::default() };
                    (documents.begin(&history, &how)?, false)
                }
            };
            let failed = if is_completed { None } else { start_due(&self.handle, &history, &trigger.rules) };
            let claim = DocumentClaim::new(self.handle.clone(), &documents.columns, begun)?;
            Ok::<_, Failure>((claim, is_completed, failed))
        })?;
        warn_of_maintenance(py, failed);
        if !is_completed {
            self.note_without_id(py, trigger, &[claim.decision()], true);
        }
        Ok(claim)
    }

    /// Close it; again changes nothing. What is under way in other threads comes to its end.
    ///
    /// Raises:
    ///     Nothing; closing again, or after a fork, changes nothing.
    fn close(&self, py: Python<'_>) {
        let _call = crate::calls::InCall::enter(py);
        crate::calls::outside(py, || self.handle.close());
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (kind, error, trace, /))]
    #[expect(unused_variables, reason = "an error within `with` changes nothing here")]
    fn __exit__(&self, py: Python<'_>, kind: &Bound<'_, PyAny>, error: &Bound<'_, PyAny>, trace: &Bound<'_, PyAny>) {
        self.close(py);
    }

    /// What a notebook shows.
    fn _repr_html_(this: &Bound<'_, Self>) -> PyResult<String> {
        this.py().import("dochistory.notebook")?.getattr("history_html")?.call1((this,))?.extract()
    }

    fn __repr__(&self) -> String {
        let state = if self.handle.is_open() { "" } else { ", closed" };
        format!("<History {:?}{state}>", self.handle.path.display().to_string())
    }
}

const WITHOUT_ID: &str = "a document has no id, so it is in doubt (R3), and nobody processes it; let its producer set \
                          one, or name its column in columns=, or keep such documents with audit=True. Others are \
                          counted (stats: begun_without_id) and not warned of again";

pub(crate) fn names(columns: Option<&Bound<'_, PyMapping>>) -> Outcome<Option<Names>> {
    let Some(columns) = columns else { return Ok(None) };
    let pairs = columns.items()?;
    let named = pairs.iter().map(|pair| pair.extract()).collect::<PyResult<_>>();
    Ok(Some(named.map_err(|_| arguments::no_columns(columns))?))
}

impl History {
    /// Count documents without an id. Where nothing keeps them and nobody has allowed them, the
    /// first one of a trigger is warned of: it is acknowledged, and processed by nobody.
    fn note_without_id(&self, py: Python<'_>, trigger: &Trigger, outcomes: &[Decision], is_plain: bool) {
        let count = outcomes.iter().filter(|outcome| **outcome == Decision::R3).count();
        let name = &trigger.rules.name;
        if count == 0 || !self.handle.count_without_id(name, count as u64) {
            return;
        }
        if is_plain && trigger.without_ids == WithoutIds::Refuse {
            warn(py, "%s: %s", (name.as_str(), WITHOUT_ID));
        }
    }
}

/// Start maintenance if it is due; answers how the last one failed, which changes nothing for the
/// caller: maintenance is due again the next time. Must be called without holding Python, and where
/// the caller is outside it anyway: threads wait for each other to come in again.
pub(crate) fn start_due(handle: &Handle, history: &Arc<Engine>, rules: &Rules) -> Option<Failed> {
    if handle.auto_maintain { handle.maintenance.start_for(history, &rules.name) } else { None }
}

/// Log how maintenance failed, if it did.
pub(crate) fn warn_of_maintenance(py: Python<'_>, failed: Option<Failed>) {
    if let Some((what, error)) = failed {
        warn(py, "maintenance of %s: %s", (what.as_str(), error.as_str()));
    }
}

/// Log a warning; what fails there changes nothing.
fn warn(py: Python<'_>, text: &str, (first, second): (&str, &str)) {
    let logged = py.import("logging").and_then(|logging| {
        let log = logging.call_method1("getLogger", ("dochistory",))?;
        log.call_method1("warning", (text, first, second))
    });
    drop(logged);
}
