//! The history object.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dochistory_core::history::{DEFAULT_SHARDS, History as Engine, OpenOptions};
use dochistory_core::key::format_uuid;
use dochistory_core::{Finished, Transaction};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use pyo3_arrow::PyRecordBatchReader;

use crate::call::{Beginning, Documents, on_replay};
use crate::claim::Claim;
use crate::clock;
use crate::entries::{self, EntryReader};
use crate::errors::{Failure, Outcome};
use crate::finish;
use crate::handle::Handle;
use crate::input::Input;
use crate::one::{Document, DocumentClaim};
use crate::output;
use crate::trigger::Trigger;
use crate::upkeep::{self, TriggerOrName};
use crate::verdicts::verdict_columns;

/// Column names by role, where they differ.
type Names = HashMap<String, String>;

/// Open the history in a directory.
///
/// Args:
///     path: the directory.
///     create: make the history if there is none.
///     read_only: never write, and need no right to write.
///     lock_timeout: how long to wait for another writer's operation: text ("30 s"), a timedelta, or seconds.
///     snapshot: what `History.pin` answered: see that state, and never another.
///     shards: number of key ranges that Spark may divide a new history's work into; a power of two up to 65,536. A history
///         that exists keeps its own.
///     auto_maintain: let `begin` put small files together when there are many.
///
/// Raises:
///     OpenError: there is no history and `create` is not set, or the directory holds other files.
///     CorruptError: the history's identity file is damaged.
///     StorageError: the operating system refused a file operation.
///     ConfigError: an argument makes no sense.
#[pyfunction]
#[pyo3(
    signature = (
        path, create = false, read_only = false, lock_timeout = None, snapshot = None, shards = DEFAULT_SHARDS, *,
        auto_maintain = true
    ),
    text_signature = "(path, create=False, read_only=False, lock_timeout='30 s', snapshot=None, shards=64, *, \
        auto_maintain=True)"
)]
#[expect(clippy::too_many_arguments, clippy::fn_params_excessive_bools, reason = "users give them by name")]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    create: bool,
    read_only: bool,
    lock_timeout: Option<&Bound<'_, PyAny>>,
    snapshot: Option<String>,
    shards: u32,
    auto_maintain: bool,
) -> Outcome<History> {
    let mut options = OpenOptions { create, read_only, snapshot, shards, ..OpenOptions::default() };
    if let Some(limit) = lock_timeout {
        let limit_us = clock::duration_us("lock_timeout", limit)?;
        let limit_us = u64::try_from(limit_us).map_err(|_| Failure::config("lock_timeout is less than nothing"))?;
        options.lock_timeout = Duration::from_micros(limit_us);
    }
    let history = py.detach(|| Engine::open(&path, &options))?;
    Ok(History { handle: Arc::new(Handle::new(history, auto_maintain)) })
}

/// A durable history of the ids of documents. `open` makes it.
///
/// Documents come as anything with Arrow's C interface (pyarrow RecordBatch, Table or reader, Polars, pandas, DuckDB).
/// Columns of a `messaging` trigger: `uuid`, `track_id`, `event_id` (the key is the first of them that holds a value), the
/// count `redelivery_count` (0 first, above 0 again, -1 unknown) and the flag `guaranteed`; of a `jms` trigger: `uuid`,
/// `jms_message_id`, `delivery_count` (1 first) and `persistent`. Ids are text, a dictionary of text, or UUIDs as 16 bytes;
/// counts are integers; flags are boolean. One id column must be there; others may be absent (unknown; flags: true).
///
/// All methods may be called by many threads at once; none holds Python while it works. After a fork the child must open the
/// history anew.
#[pyclass(module = "dochistory", name = "History", frozen)]
pub(crate) struct History {
    handle: Arc<Handle>,
}

#[pymethods]
impl History {
    /// The directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.handle.path.clone()
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        !self.handle.is_open()
    }

    /// Number of key ranges that Spark may divide the history's work into.
    #[getter]
    fn shards(&self) -> Outcome<u32> {
        Ok(self.handle.get()?.shards())
    }

    /// Judge documents by what the history holds now. Writes nothing, so it may be asked as often as one likes.
    ///
    /// The rules are those of exactly-once processing by publish-subscribe and JMS triggers; `docs/rules.md` lists them.
    ///
    /// Args:
    ///     documents: the documents, in order of arrival.
    ///     trigger: whose documents they are.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///     columns: the trigger's name of a column -> its name in `documents`, where they differ.
    ///     threads: threads to use for large batches.
    ///
    /// Returns:
    ///     A row for each document, in order: a pyarrow RecordBatch where one came in, else a Table. Columns: `status` (NEW,
    ///     DUPLICATE, IN_DOUBT; null when suspended or rejected), `action` (PROCESS, DISCARD, LOG, SUSPEND, REJECT),
    ///     `acknowledge` (AFTER_SERVICE, NOW, NO) and `rule` ("R8", "R10>S1", "R8+batch"), all dictionary<int8, utf8>; `key`
    ///     (text; null if there is none); `message` (utf8: a sentence for the journal; null for what is NEW).
    ///
    /// A resolver is asked once about all documents that are left undecided. It gets a pyarrow RecordBatch of their columns
    /// and `dh_trigger`, `dh_key`, `dh_count`, `dh_reason` (the rule that left it undecided), `dh_started_at` (timestamp[us,
    /// UTC]; null unless it is processing) and `dh_row`; it answers an Arrow array or any sequence of NEW, DUPLICATE,
    /// IN_DOUBT, or a table with the columns `status` and `message`. It may raise `TransientError`, or answer an exception for
    /// a single document.
    ///
    /// Raises:
    ///     SchemaError: a column is missing or has the wrong type.
    ///     ConfigError: an argument makes no sense.
    ///     CorruptError: a file of the history is damaged.
    ///     StateError: the history is closed.
    ///     ForkedError: it was opened before this process was forked off.
    #[pyo3(signature = (documents, trigger, *, now = None, columns = None, threads = 1))]
    fn classify<'py>(
        &self,
        documents: &Bound<'py, PyAny>,
        trigger: &Bound<'py, Trigger>,
        now: Option<&Bound<'py, PyAny>>,
        columns: Option<Names>,
        threads: usize,
    ) -> Outcome<Bound<'py, PyAny>> {
        let py = documents.py();
        let history = self.handle.get()?;
        let input = Input::import(documents)?;
        let documents = Documents::new(trigger.get(), input, columns.as_ref(), clock::now_us(now)?, threads)?;
        let verdicts = py.detach(|| documents.classify(&history))?;
        output::like(py, documents.input.is_batch, verdicts)
    }

    /// Judge documents, and write `processing` for those to process, in one atomic step: of two that bring the same id at
    /// once exactly one gets it as NEW. Durable on return.
    ///
    /// Args:
    ///     documents: the documents, in order of arrival.
    ///     trigger: whose documents they are.
    ///     now: the time at which the services begin, a datetime with a time zone; the clock's, if absent.
    ///     columns: the trigger's name of a column -> its name in `documents`, where they differ.
    ///     threads: threads to use for large batches.
    ///     transaction: (application, number of the batch): a batch that comes again is known by it.
    ///     on_replay: what documents are that this very transaction began and never ended: `in_doubt` (by the rules),
    ///         `resolver` (the same, and the trigger must have a resolver), `rerun` (NEW again: for services that are
    ///         idempotent for each batch).
    ///
    /// Raises:
    ///     SchemaError: a column is missing or has the wrong type.
    ///     ConfigError: an argument makes no sense.
    ///     LockedError: another writer held the trigger for longer than `lock_timeout`.
    ///     TransactionError: the application's numbers went backwards.
    ///     ReadOnlyError: the history was opened for reading.
    ///     FailedError: an earlier write failed.
    ///     CorruptError: a file of the history is damaged.
    ///     StateError: the history is closed.
    ///     ForkedError: it was opened before this process was forked off.
    #[pyo3(signature = (
        documents, trigger, *, now = None, columns = None, threads = 1, transaction = None, on_replay = "in_doubt"
    ))]
    #[expect(clippy::too_many_arguments, reason = "users give them by name")]
    fn begin<'py>(
        &self,
        documents: &Bound<'py, PyAny>,
        trigger: &Bound<'py, Trigger>,
        now: Option<&Bound<'py, PyAny>>,
        columns: Option<Names>,
        threads: usize,
        transaction: Option<(String, i64)>,
        on_replay: &str,
    ) -> Outcome<Claim> {
        let py = documents.py();
        let history = self.handle.get()?;
        let how = Beginning {
            on_replay: self::on_replay(on_replay, trigger.get())?,
            transaction: transaction.map(|(application, batch)| Transaction { application, batch }),
        };
        let input = Input::import(documents)?;
        let documents = Documents::new(trigger.get(), input, columns.as_ref(), clock::now_us(now)?, threads)?;
        let (begun, verdict_columns) = py.detach(|| {
            let begun = documents.begin(&history, &how)?;
            let columns = verdict_columns(&begun.verdicts, &documents.columns)?;
            Ok::<_, Failure>((begun, columns))
        })?;
        self.see_to_upkeep(py, &history, trigger.get());
        let started_at_us = begun.claim.as_ref().map_or(documents.now_us, |claim| claim.started_at());
        Ok(Claim {
            handle: self.handle.clone(),
            claimed: begun.claim,
            replay: begun.replay,
            started_at_us,
            decisions: begun.verdicts.outcomes,
            input: documents.input,
            verdict_columns,
            verdicts: PyOnceLock::new(),
            new: PyOnceLock::new(),
        })
    }

    /// Begin one document; the same as `begin` with a batch of one.
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
    ///     now: the time at which the service begins, a datetime with a time zone; the clock's, if absent.
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
        trigger: &Bound<'_, Trigger>,
        uuid: Option<String>,
        track_id: Option<String>,
        event_id: Option<String>,
        jms_message_id: Option<String>,
        redelivery_count: Option<i64>,
        delivery_count: Option<i64>,
        guaranteed: Option<bool>,
        persistent: Option<bool>,
        now: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<DocumentClaim> {
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
        let input = document.into_input(trigger.rules.kind)?;
        let documents = Documents::new(trigger, input, None, clock::now_us(now)?, 1)?;
        let how = Beginning { transaction: None, on_replay: self::on_replay("in_doubt", trigger)? };
        let begun = py.detach(|| documents.begin(&history, &how))?;
        self.see_to_upkeep(py, &history, trigger);
        DocumentClaim::new(self.handle.clone(), &documents.columns, begun)
    }

    /// The services of these documents ended, whoever began them, in this process or another. Durable on return.
    ///
    /// A key that nobody began is recorded as completed now.
    ///
    /// Args:
    ///     keys: an Arrow array, documents in the trigger's columns, or any iterable of text.
    ///     trigger: whose documents they are.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     How many keys `changed`, were `already` completed, and were `unknown`.
    ///
    /// Raises:
    ///     SchemaError: the keys are no text and no UUIDs.
    ///     LockedError: another writer held the trigger for longer than `lock_timeout`.
    ///     ReadOnlyError: the history was opened for reading.
    ///     FailedError: an earlier write failed.
    #[pyo3(signature = (keys, trigger, *, now = None))]
    fn complete<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        trigger: &Bound<'py, Trigger>,
        now: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyDict>> {
        self.finish(keys, trigger.get(), now, Engine::complete_keys)
    }

    /// The work of these documents' services was undone for certain: take `processing` away, so that they are NEW when they
    /// come again. What is completed stays so. Durable on return.
    ///
    /// Args:
    ///     keys: an Arrow array, documents in the trigger's columns, or any iterable of text.
    ///     trigger: whose documents they are.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     How many keys `changed`, were `already` released, and were `unknown`.
    ///
    /// Raises:
    ///     As `complete`.
    #[pyo3(signature = (keys, trigger, *, now = None))]
    fn release<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        trigger: &Bound<'py, Trigger>,
        now: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyDict>> {
        self.finish(keys, trigger.get(), now, Engine::release_keys)
    }

    /// The entries of a trigger, as a pyarrow RecordBatchReader, in no order; of a key with several open claims, one for each.
    ///
    /// Args:
    ///     trigger: the trigger, or its name.
    ///     status: `processing` or `completed`; None lists both.
    ///
    /// Returns:
    ///     Columns `trigger`, `status` (dictionary<int8, utf8>), `key` (utf8), `started_at` (timestamp[us, UTC]).
    #[pyo3(signature = (trigger, status = None))]
    fn entries<'py>(
        &self,
        py: Python<'py>,
        trigger: TriggerOrName<'py>,
        status: Option<&str>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let history = self.handle.get()?;
        let status = entries::status(status)?;
        let name = trigger.name();
        let found = py.detach(|| history.entries(name, status))?;
        let reader = EntryReader::new(self.handle.clone(), name, found);
        Ok(PyRecordBatchReader::new(Box::new(reader)).into_pyarrow(py)?)
    }

    /// The names of the triggers that have entries, or had some.
    fn triggers(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        let history = self.handle.get()?;
        Ok(py.detach(|| history.triggers())?)
    }

    /// Drop what expired: entries whose service began a time to live ago, or longer. Drops whole files.
    ///
    /// Args:
    ///     trigger: the trigger, or its name; every trigger, by the time to live it was last used with, if absent.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///     dry_run: only say what would go.
    ///
    /// Returns:
    ///     For each trigger: `entries`, `bytes`, `segments` (files) that went.
    ///
    /// Raises:
    ///     LockedError: another writer held the trigger for longer than `lock_timeout`.
    ///     ReadOnlyError: the history was opened for reading.
    #[pyo3(signature = (trigger = None, now = None, dry_run = false))]
    fn purge<'py>(
        &self,
        py: Python<'py>,
        trigger: Option<TriggerOrName<'py>>,
        now: Option<&Bound<'py, PyAny>>,
        dry_run: bool,
    ) -> Outcome<Bound<'py, PyDict>> {
        upkeep::purge(py, &*self.handle.get()?, trigger.as_ref(), clock::now_us(now)?, dry_run)
    }

    /// Put small files together and roll filters up. `begin` does it by itself when it pays, unless told otherwise.
    ///
    /// Args:
    ///     trigger: the trigger, or its name; every trigger, if absent.
    ///     all: go as far as it goes, rather than as far as it pays.
    ///     progress: called with (entries done, entries in all) from time to time; what it raises stops the work, which
    ///         does no harm.
    ///
    /// Returns:
    ///     For each trigger: `merged` (files before, files after), `rewritten` and `rolled_up` (entries).
    #[pyo3(signature = (trigger = None, *, all = false, progress = None))]
    fn maintain<'py>(
        &self,
        py: Python<'py>,
        trigger: Option<TriggerOrName<'py>>,
        all: bool,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyDict>> {
        let history = self.handle.get()?;
        upkeep::maintain(py, &history, upkeep::names(&history, trigger.as_ref())?, all, progress)
    }

    /// Check every byte of the history's files.
    ///
    /// Args:
    ///     trigger: the trigger, or its name; every trigger, if absent.
    ///     progress: called with (bytes done, bytes in all) of a trigger from time to time; what it raises stops the check.
    ///
    /// Returns:
    ///     The number of bytes checked.
    ///
    /// Raises:
    ///     CorruptError: a file is damaged; the text names it and the place.
    #[pyo3(signature = (trigger = None, *, progress = None))]
    fn verify(
        &self,
        py: Python<'_>,
        trigger: Option<TriggerOrName<'_>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<u64> {
        let history = self.handle.get()?;
        upkeep::verify(py, &history, &upkeep::names(&history, trigger.as_ref())?, progress)
    }

    /// Figures of the history.
    ///
    /// Args:
    ///     trigger: the trigger, or its name, whose figures alone are wanted.
    ///
    /// Returns:
    ///     Of the history: `path`, `id`, `created_at`, `shards`, and `triggers` (name -> figures). Of a trigger: entries
    ///     (`segment_entries`, `log_entries`, `open_entries`), bytes (`segment_bytes`, `log_bytes`, `filter_bytes`), files
    ///     (`segments`, `segments_uncovered`, `filters`), `manifest` (number of the newest), `oldest_started_at`,
    ///     `purged_upto`, `partition`, `history_time_to_live`, and `transactions` (application -> last batch, whether it ended).
    #[pyo3(signature = (trigger = None))]
    fn stats<'py>(&self, py: Python<'py>, trigger: Option<TriggerOrName<'py>>) -> Outcome<Bound<'py, PyDict>> {
        let history = self.handle.get()?;
        let of_trigger = |name: &str| {
            let found = py.detach(|| history.statistics(name))?;
            Ok::<_, Failure>(upkeep::statistics(py, found)?)
        };
        if let Some(trigger) = trigger {
            return of_trigger(trigger.name());
        }
        let triggers = PyDict::new(py);
        for name in history.triggers()? {
            triggers.set_item(&name, of_trigger(&name)?)?;
        }
        let figures = PyDict::new(py);
        figures.set_item("path", history.path())?;
        figures.set_item("id", String::from_utf8_lossy(&format_uuid(history.id())).as_ref())?;
        figures.set_item("created_at", clock::datetime(py, history.created_at())?)?;
        figures.set_item("shards", history.shards())?;
        figures.set_item("triggers", triggers)?;
        Ok(figures)
    }

    /// Pin the present state of a trigger: whoever opens the history with `snapshot=` and the text that this answers sees this
    /// state, in any process, until `unpin`. Forgotten pins are let go after a week.
    ///
    /// Args:
    ///     trigger: the trigger, or its name. The snapshot speaks of no other.
    ///
    /// Raises:
    ///     LockedError: another writer held the trigger for longer than `lock_timeout`.
    ///     ReadOnlyError: the history was opened for reading.
    fn pin(&self, py: Python<'_>, trigger: TriggerOrName<'_>) -> Outcome<String> {
        let history = self.handle.get()?;
        let name = trigger.name();
        Ok(py.detach(|| history.pin(name))?)
    }

    /// Let a pinned state go, so that a purge can remove its files. Again changes nothing.
    ///
    /// Args:
    ///     trigger: the trigger, or its name.
    ///     snapshot: what `pin` answered.
    fn unpin(&self, py: Python<'_>, trigger: TriggerOrName<'_>, snapshot: &str) -> Outcome<()> {
        let history = self.handle.get()?;
        let name = trigger.name();
        Ok(py.detach(|| history.unpin(name, snapshot))?)
    }

    /// Close it; again changes nothing. What is under way in other threads comes to its end.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.handle.close());
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        let state = if self.handle.is_open() { "" } else { ", closed" };
        format!("<History {:?}{state}>", self.handle.path.display().to_string())
    }
}

impl History {
    fn finish<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        trigger: &Trigger,
        now: Option<&Bound<'py, PyAny>>,
        end: fn(
            &Engine,
            &dochistory_core::rules::Trigger,
            &dochistory_core::columns::Documents<'_>,
            i64,
        ) -> dochistory_core::Result<Finished>,
    ) -> Outcome<Bound<'py, PyDict>> {
        let py = keys.py();
        let history = self.handle.get()?;
        let columns = finish::keys(keys, trigger)?;
        let now_us = clock::now_us(now)?;
        let Finished { changed, already, unknown } =
            py.detach(|| end(&history, &trigger.rules, &columns.documents(), now_us))?;
        let finished = PyDict::new(py);
        finished.set_item(intern!(py, "changed"), changed)?;
        finished.set_item(intern!(py, "already"), already)?;
        finished.set_item(intern!(py, "unknown"), unknown)?;
        Ok(finished)
    }

    /// Upkeep that fails must not cost the caller the claim: it is said in the log, and due again the next time.
    fn see_to_upkeep(&self, py: Python<'_>, history: &Engine, trigger: &Trigger) {
        let name = &trigger.rules.name;
        if !self.handle.auto_maintain || !history.is_upkeep_due(name) {
            return;
        }
        let done = py.detach(|| history.maintain(name, false, &mut |_, _| Ok(())));
        if let Err(error) = done {
            let logged = py.import("logging").and_then(|logging| {
                let log = logging.call_method1("getLogger", ("dochistory",))?;
                log.call_method1("warning", ("upkeep of trigger %r: %s", name, error.to_string()))
            });
            drop(logged);
        }
    }
}
