//! Staging: tasks on many machines decide and write, and one process publishes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::arrow::array::RecordBatch;
use dochistory_core::Transaction;
use dochistory_core::history::History as Engine;
use dochistory_core::protocols::trigger::{Attempt, Job as Reserved, JobPlan, Receipt, Replay, Staged as Part};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyMapping};

use crate::arguments;
use crate::call::{Documents, on_other_rows, replays};
use crate::claim::replay_word;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::history::names;
use crate::input::Input;
use crate::output;
use crate::shards::Shards;
use crate::staged_claim::StagedClaim;
use crate::trigger::{self, Trigger};
use crate::verdicts::verdict_columns;

/// Work that is divided among tasks: what `Shards.reserve` reserved for it.
///
/// The tasks stage (`Shards.stage`, `Shards.stage_entries`), wherever they run; the process that
/// has their receipts commits. Until then nothing of it shows in the history. A job that nobody
/// commits or gives up is forgotten after a week.
#[pyclass(module = "dochistory._native", name = "Job", frozen)]
pub(crate) struct Job {
    handle: Arc<Handle>,
    trigger: Py<Trigger>,
    job: Reserved,
    replay: Option<Replay>,
    /// Whether it is still to be proved that the reservation counts.
    is_unproven: Mutex<bool>,
}

#[pymethods]
impl Job {
    /// The job as text, which tasks need to stage its parts.
    #[getter]
    fn token(&self) -> String {
        self.job.token()
    }

    /// The name of the job.
    #[getter]
    fn id(&self) -> &str {
        self.job.id()
    }

    /// What tasks open the history with (`snapshot=`) to classify; None if the job only loads.
    #[getter]
    fn snapshot(&self) -> Option<String> {
        Engine::snapshot_of_job(&self.job)
    }

    /// Number of the claim that it will begin.
    #[getter]
    fn claim(&self) -> u64 {
        self.job.claim()
    }

    /// When the services begin, as a datetime in UTC: the `now` of `reserve`.
    #[getter]
    fn started_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        clock::datetime(py, self.job.plan().started_at)
    }

    /// Parts that the work is divided into.
    #[getter]
    fn parts(&self) -> u32 {
        self.job.plan().parts
    }

    /// Of a transaction: `first`, `unfinished` (it was begun before and did not end) or `finished`;
    /// else None. Only where it was reserved.
    #[getter]
    fn replay(&self) -> Option<&'static str> {
        self.replay.map(replay_word)
    }

    /// Begin what the tasks staged: all of it, or nothing; or all but what others were first with.
    /// Durable on return.
    ///
    /// Args:
    ///     receipts: the receipt of one attempt of each part that has rows.
    ///     most_lost: how many documents may be left out because others were first with them since
    ///         the reservation; None for any number. Their tasks took them for NEW, and they are
    ///         not: `StagedClaim.lost` names them, and `decide_lost` decides them again. Do not
    ///         process them before.
    ///
    /// Raises:
    ///     ConflictError: [DH-CONFLICT] others were first with more of these documents, or with
    ///         this transaction, or the batch has other rows than it had under its number before,
    ///         which are to be looked up: decide again, from a new job that is given these
    ///         receipts.
    ///     TransactionError: [DH-TRANSACTION] the application's numbers went backwards meanwhile,
    ///         or a known number came with other rows.
    ///     StateError: [DH-STATE] the job was committed or given up before.
    ///     ClusterError: [DH-CLUSTER] what a task staged is not here: it works in another
    ///         directory.
    ///     ConfigError: [DH-CONFIG] the receipts are not this job's, or a part is there twice.
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    #[pyo3(signature = (receipts, *, most_lost = Some(0)))]
    fn commit(&self, py: Python<'_>, receipts: Vec<Vec<u8>>, most_lost: Option<u64>) -> Outcome<StagedClaim> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let rules = &self.trigger.get().rules;
        let claimed = crate::calls::outside(py, || {
            let receipts = decoded(&receipts)?;
            self.proven(&history)?;
            history.commit_rest(rules, &self.job, &receipts, most_lost.unwrap_or(u64::MAX))
        })?;
        let (handle, trigger) = (self.handle.clone(), self.trigger.clone_ref(py));
        Ok(StagedClaim { handle, trigger, claimed })
    }

    /// Ask the bucket whether what was reserved with `prove_later` counts. `commit` does it, too,
    /// if nobody did before.
    ///
    /// Raises:
    ///     ConflictError: [DH-CONFLICT] it does not, because this process slept while others wrote:
    ///         decide again, from a new job.
    ///     ObjectStoreError: [DH-OBJECTS], …: the bucket cannot be used.
    fn prove(&self, py: Python<'_>) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        Ok(crate::calls::outside(py, || self.proven(&history))?)
    }

    /// Give the job up: its files go, except those that were committed. Again changes nothing.
    fn abort(&self, py: Python<'_>) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        Ok(crate::calls::outside(py, || history.give_up(&self.job))?)
    }

    fn __repr__(&self) -> String {
        format!("<Job {}: {} parts>", self.job.id(), self.job.plan().parts)
    }
}

impl Job {
    fn proven(&self, history: &Engine) -> dochistory_core::Result<()> {
        let mut is_unproven = self.is_unproven.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_unproven {
            history.prove(&self.job)?;
            *is_unproven = false;
        }
        Ok(())
    }
}

/// One part of a job, decided and staged. `Shards.stage` makes it.
#[pyclass(module = "dochistory._native", name = "Staged", frozen)]
pub(crate) struct Staged {
    is_batch: bool,
    verdict_columns: RecordBatch,
    receipt: Receipt,
    verdicts: PyOnceLock<Py<PyAny>>,
}

#[pymethods]
impl Staged {
    /// The verdict of every row: `status`, `action`, `acknowledge`, `rule`, `key`, `message`; see
    /// `History.classify`.
    #[getter]
    fn verdicts(&self, py: Python<'_>) -> Outcome<Py<PyAny>> {
        let make = || Ok::<_, Failure>(output::like(py, self.is_batch, self.verdict_columns.clone())?.unbind());
        self.verdicts.get_or_try_init(py, make).map(|verdicts| verdicts.clone_ref(py))
    }

    /// What to hand to the driver that commits the job.
    #[getter]
    fn receipt<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.receipt.encode())
    }

    fn __repr__(&self) -> String {
        let (part, rows, entries) = (self.receipt.part(), self.receipt.rows(), self.receipt.entries());
        format!("<Staged part {part}: {entries} of {rows} documents to process>")
    }
}

#[pymethods]
impl Shards {
    /// Reserve numbers for work that is divided among tasks, and pin what they read. Nothing of it
    /// shows in the history.
    ///
    /// Args:
    ///     trigger: whose documents they are.
    ///     parts: parts that the work is divided into.
    ///     reads: whether the tasks classify (`stage`); False for jobs that only load entries
    ///         (`stage_entries`).
    ///     routed: whether part p holds exactly the documents whose key has `pmod(xxhash64(key),
    ///         parts) == p` in Spark; any other row is then an error, as copies of an id would not
    ///         meet.
    ///     transaction: (application, number of the batch): a batch that comes again is known by
    ///         it.
    ///     on_replay: as in `History.begin`.
    ///     on_other_rows: as in `History.begin`.
    ///     receipts: those of an attempt at the same batch that met a `ConflictError`: they say
    ///         which rows it has. Without them a number that is known counts as the same batch,
    ///         until the commit compares.
    ///     now: the time at which the services begin, a datetime with a time zone; the clock's, if
    ///         absent.
    ///     prove_later: return before a bucket has said that the reservation counts; `Job.prove`
    ///         asks.
    ///
    /// Raises:
    ///     TransactionError: [DH-TRANSACTION] the application's numbers went backwards, or a known
    ///         number came with other rows.
    ///     ConfigError: [DH-CONFIG] an argument makes no sense, or the trigger uses no history.
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    #[pyo3(signature = (
        trigger, parts = 1, *, reads = true, routed = false, transaction = None, on_replay = "in_doubt",
        on_other_rows = "error", receipts = None, now = None, prove_later = false
    ))]
    #[expect(clippy::too_many_arguments, reason = "users give them by name")]
    fn reserve(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'_, Trigger>,
        #[pyo3(from_py_with = arguments::parts)] parts: u32,
        reads: bool,
        routed: bool,
        #[pyo3(from_py_with = arguments::transaction)] transaction: Option<(String, i64)>,
        on_replay: &str,
        on_other_rows: &str,
        receipts: Option<Vec<Vec<u8>>>,
        now: Option<&Bound<'_, PyAny>>,
        prove_later: bool,
    ) -> Outcome<Job> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let rules = &trigger.get().rules;
        let replays = replays(on_replay, on_other_rows, trigger.get())?;
        let rows = receipts.map(|receipts| decoded(&receipts)).transpose()?.map(|receipts| Receipt::rows_of(&receipts));
        let transaction = transaction.map(|(application, batch)| Transaction { application, batch });
        let plan = JobPlan { parts, reads, routed, replays, transaction, rows, started_at: clock::now_us(now)? };
        let (job, replay) = crate::calls::outside(py, || {
            if prove_later { history.reserve_ahead(rules, plan) } else { history.reserve(rules, plan) }
        })?;
        let is_unproven = Mutex::new(prove_later);
        Ok(Job { handle: self.handle.clone(), trigger: trigger.unbind(), job, replay, is_unproven })
    }

    /// A job that was reserved elsewhere.
    ///
    /// Args:
    ///     token: its `token`.
    ///     trigger: whose documents it is about.
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] the text is no job's token, or the job is another trigger's.
    fn job(&self, token: &str, #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'_, Trigger>) -> Outcome<Job> {
        let job = Reserved::from_token(token)?;
        if job.trigger() != trigger.get().rules.name {
            return Err(Failure::config(format!("the job is one of trigger {:?}", job.trigger())));
        }
        let is_unproven = Mutex::default();
        Ok(Job { handle: self.handle.clone(), trigger: trigger.unbind(), job, replay: None, is_unproven })
    }

    /// Decide all documents of one part of a job by its snapshot, and stage `processing` for those
    /// to process: durable on return, and not part of the history until the job is committed. The
    /// same rows in the same order get the same verdicts, however often they are staged.
    ///
    /// The history has to be opened with the job's snapshot; that handle writes nothing else.
    ///
    /// Args:
    ///     documents: all documents of the part, in order of arrival.
    ///     trigger: whose documents they are.
    ///     job: the job's `token`.
    ///     part: number of the part, from 0.
    ///     attempt: a name that no other attempt at this job has: letters, digits and hyphens.
    ///     columns: the trigger's name of a column -> its name in `documents`, where they differ.
    ///     threads: threads to use for large parts.
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] a column is missing or has the wrong type, or a row belongs to
    ///         another part.
    ///     ConfigError: [DH-CONFIG] an argument makes no sense, or the history was not opened with
    ///         the job's snapshot.
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    #[pyo3(signature = (documents, trigger, *, job, part, attempt, columns = None, threads = 1))]
    #[expect(clippy::too_many_arguments, reason = "users give them by name")]
    fn stage(
        &self,
        documents: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'_, Trigger>,
        job: &str,
        part: u32,
        attempt: &str,
        columns: Option<&Bound<'_, PyMapping>>,
        threads: usize,
    ) -> Outcome<Staged> {
        let py = documents.py();
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let job = Reserved::from_token(job)?;
        let input = Input::import(documents)?;
        let started_at = job.plan().started_at;
        let documents = Documents::new(trigger.get(), input, names(columns)?.as_ref(), started_at, threads)?;
        let (receipt, verdict_columns) = crate::calls::outside(py, || {
            let Part { verdicts, receipt } = documents.stage(&history, &job, Attempt { part, name: attempt })?;
            let columns = verdict_columns(&verdicts, &documents.columns, 1)?;
            Ok::<_, Failure>((receipt, columns))
        })?;
        Ok(Staged { is_batch: documents.input.is_batch, verdict_columns, receipt, verdicts: PyOnceLock::new() })
    }

    /// Publish entries that tasks staged, of one job or of several, in one manifest. Durable on
    /// return.
    ///
    /// Args:
    ///     receipts: what `stage_entries` answered.
    ///     trigger: whose documents they are.
    ///     transaction: (application, number of the batch): one that was committed before publishes
    ///         nothing again.
    ///     on_other_rows: what is done with a known number that comes with other rows: `error`
    ///         (nothing is published), or `look_up` (they are published, too: an entry may be
    ///         recorded twice without harm).
    ///
    /// Returns:
    ///     The number of entries published.
    ///
    /// Raises:
    ///     TransactionError: [DH-TRANSACTION] the application's numbers went backwards, or a known
    ///         number came with other rows.
    ///     StateError: [DH-STATE] a job was committed or given up before.
    ///     ConfigError: [DH-CONFIG] a receipt is another trigger's, or a part is there twice.
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    #[pyo3(signature = (receipts, trigger, *, transaction = None, on_other_rows = "error"))]
    fn commit_entries(
        &self,
        py: Python<'_>,
        receipts: Vec<Vec<u8>>,
        #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'_, Trigger>,
        #[pyo3(from_py_with = arguments::transaction)] transaction: Option<(String, i64)>,
        on_other_rows: &str,
    ) -> Outcome<u64> {
        let _call = crate::calls::InCall::enter(py);
        let on_other_rows = self::on_other_rows(on_other_rows)?;
        let history = self.handle.get()?;
        let rules = &trigger.get().rules;
        let transaction = transaction.map(|(application, batch)| Transaction { application, batch });
        Ok(crate::calls::outside(py, || {
            history.commit_entries(rules, &decoded(&receipts)?, transaction.as_ref(), on_other_rows)
        })?)
    }

    /// Give the jobs of these receipts up: their files go, except those that were committed.
    ///
    /// Args:
    ///     receipts: what `stage_entries` answered.
    fn abort_entries(&self, py: Python<'_>, receipts: Vec<Vec<u8>>) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        Ok(crate::calls::outside(py, || decoded(&receipts).map(|receipts| history.abort_entries(&receipts)))?)
    }
}

fn decoded(receipts: &[Vec<u8>]) -> dochistory_core::Result<Vec<Receipt>> {
    receipts.iter().map(|receipt| Receipt::decode(receipt)).collect()
}

/// What a receipt says of its part.
///
/// Args:
///     receipt: the `receipt` of a staged part, or what `stage_entries` answered.
///
/// Returns:
///     `part`, `attempt`, `rows`, `entries`, `bytes`, and the rows by `rule`, `status` (without
///     those that have none) and `action`.
///
/// Raises:
///     ConfigError: [DH-CONFIG] these bytes are no receipt.
#[pyfunction]
pub(crate) fn read_receipt(py: Python<'_>, receipt: Vec<u8>) -> Outcome<Bound<'_, PyDict>> {
    let receipt = Receipt::decode(&receipt)?;
    let found = PyDict::new(py);
    found.set_item("part", receipt.part())?;
    found.set_item("attempt", receipt.attempt())?;
    found.set_item("rows", receipt.rows())?;
    found.set_item("entries", receipt.entries())?;
    found.set_item("bytes", receipt.bytes())?;
    let mut by: [HashMap<&str, u64>; 3] = Default::default();
    for count in receipt.counts() {
        for (words, word) in by.iter_mut().zip([&count.rule, &count.status, &count.action]) {
            *words.entry(word.as_str()).or_default() += count.rows;
        }
    }
    by[1].remove("");
    for (name, words) in ["rule", "status", "action"].into_iter().zip(by) {
        found.set_item(name, words)?;
    }
    Ok(found)
}
