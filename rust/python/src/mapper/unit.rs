//! A unit of work, for Python.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use crate::arrow::array::ArrayRef;
use dochistory_core::protocols::mapper::{Mapper, Taken, Unit};
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use super::arrays::{column, texts};
use super::change::{Given, Join};
use super::messages::{self, Messages};
use super::settings::Kept;
use super::verdicts::{audit_columns, verdict_columns};
use crate::arguments;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::history::names;
use crate::output;
use crate::rows::row_numbers;

/// The state of a unit that the messages it took in use too.
type Shared = Arc<Mutex<Option<Unit>>>;

/// The open units of a mapper, by the thread that is inside them.
#[derive(Clone, Default)]
pub(super) struct Units {
    by_thread: Arc<Mutex<HashMap<ThreadId, Vec<Current>>>>,
}

/// The part of a unit that changes made within it need.
#[derive(Clone)]
pub(super) struct Current {
    handle: Arc<Handle>,
    mapper: Mapper,
    persist_us: Option<i64>,
    unit: Shared,
}

impl Units {
    /// The innermost unit that this thread is inside.
    pub(super) fn current(&self) -> Outcome<Current> {
        let units = lock(&self.by_thread);
        let open = units.get(&std::thread::current().id()).and_then(|units| units.last().cloned());
        open.ok_or_else(|| {
            Failure::state("transactional, but this thread is in no unit of work: use `with mapper.unit_of_work():`")
        })
    }

    fn enter(&self, current: Current) {
        lock(&self.by_thread).entry(std::thread::current().id()).or_default().push(current);
    }

    fn leave(&self, unit: &Shared) {
        lock(&self.by_thread).retain(|_, units| {
            units.retain(|open| !Arc::ptr_eq(&open.unit, unit));
            !units.is_empty()
        });
    }
}

/// A unit of work: messages that are taken in, and their mappings, become durable together.
/// `MessageIdMapper.unit_of_work` makes it.
///
/// Leaving `with` commits; an exception rolls back, and so does the end of the process. Concurrent
/// takers of an id of an open unit block until it ends, up to `lock_timeout`: exactly one of them
/// gets the id as NEW.
#[pyclass(module = "dochistory", name = "UnitOfWork", frozen)]
pub(crate) struct UnitOfWork {
    pub(super) handle: Arc<Handle>,
    pub(super) mapper: Mapper,
    pub(super) persist_us: Option<i64>,
    pub(super) unit: Shared,
    pub(super) units: Units,
}

/// Messages that a unit of work took in. `UnitOfWork.take` makes it.
#[pyclass(module = "dochistory", name = "MapperTaken", frozen)]
pub(crate) struct MapperTaken {
    mapper: Mapper,
    messages: Messages,
    taken_at: i64,
    unit: Shared,
    taken: Mutex<Taken>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn over() -> Failure {
    Failure::state("this unit of work is over")
}

#[pymethods]
impl UnitOfWork {
    /// Judge messages that come in. Those to process are mapped, from their `id` to their
    /// `message_id`, when the unit commits.
    ///
    /// Args:
    ///     messages: anything with Arrow's C interface. Columns `id` (the external id),
    ///         `message_id` (ours; what it is mapped to), `qos` (BE, EO, EOIO), `queue` (of EOIO).
    ///     columns: the mapper's name of a column -> its name in `messages`, where they differ.
    ///     qos: the quality of service where no column says it.
    ///     persist_until: until when mappings are kept: a datetime, a duration from now on,
    ///         "forever", or a column of times; the mapper's, if absent.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     MapperTaken: the verdicts, and the messages to process.
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] a column is missing or has the wrong type.
    ///     LockedError: [DH-LOCKED] another unit of work held one of the ids, or of their
    ///         sixteenths, for longer than `lock_timeout`.
    ///     StateError: [DH-STATE] the unit is over.
    #[pyo3(signature = (messages, *, columns = None, qos = "EO", persist_until = None, now = None))]
    fn take<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arguments::columns)] columns: Option<Bound<'py, PyMapping>>,
        #[pyo3(from_py_with = arguments::qos)] qos: &str,
        persist_until: Option<&Bound<'py, PyAny>>,
        now: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<MapperTaken> {
        let py = messages.py();
        let _call = crate::calls::InCall::enter(py);
        self.handle.check_process()?;
        let taken_at = clock::now_us(now)?;
        let kept = Kept::read(persist_until, self.persist_us, taken_at)?;
        let qos = messages::qos(qos)?;
        let messages = Messages::import(messages, names(columns.as_ref())?.as_ref(), qos, self.mapper.values())?;
        let taken = crate::calls::outside(py, || {
            let message_ids = texts(messages.message_ids.as_ref(), messages.input.rows)?;
            let column = column(&messages.ids)?;
            let ids = self.mapper.values().ids(&column);
            let mut unit = lock(&self.unit);
            let unit = unit.as_mut().ok_or_else(over)?;
            Ok::<_, Failure>(unit.take(&ids, &message_ids, messages.engine(), kept.untils(), taken_at)?)
        })?;
        let (mapper, unit) = (self.mapper.clone(), self.unit.clone());
        Ok(MapperTaken { mapper, messages, taken_at, unit, taken: Mutex::new(taken) })
    }

    /// Map ids when the unit commits.
    ///
    /// Args:
    ///     ids: the ids: an Arrow array, a table with a column `id`, or any iterable of text.
    ///     external_ids: what they are mapped to, a column of text of the same length; None maps to
    ///         nothing.
    ///     persist_until: a datetime, a duration from now on, "forever", or a column of times; the
    ///         mapper's, if absent.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     As `MessageIdMapper.create`.
    ///
    /// Raises:
    ///     As `UnitOfWork.take`.
    #[pyo3(signature = (ids, external_ids = None, persist_until = None, *, now = None))]
    fn create<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        external_ids: Option<&Bound<'py, PyAny>>,
        persist_until: Option<&Bound<'py, PyAny>>,
        now: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyAny>> {
        self.current().join(Given { ids, external_ids, persist_until, now }, Unit::create)
    }

    /// Map ids to others when the unit commits.
    ///
    /// Args:
    ///     ids: the ids: an Arrow array, a table with a column `id`, or any iterable of text.
    ///     external_ids: what they are mapped to, a column of text of the same length; None maps to
    ///         nothing.
    ///     persist_until: a datetime, a duration from now on, "forever", or a column of times; the
    ///         mapper's, if absent.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     As `MessageIdMapper.update`.
    ///
    /// Raises:
    ///     As `UnitOfWork.take`.
    #[pyo3(signature = (ids, external_ids = None, persist_until = None, *, now = None))]
    fn update<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        external_ids: Option<&Bound<'py, PyAny>>,
        persist_until: Option<&Bound<'py, PyAny>>,
        now: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyAny>> {
        self.current().join(Given { ids, external_ids, persist_until, now }, Unit::update)
    }

    /// Remove mappings when the unit commits.
    ///
    /// Args:
    ///     ids: the ids: an Arrow array, a table with a column `id`, or any iterable of text.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     As `MessageIdMapper.remove`.
    ///
    /// Raises:
    ///     As `UnitOfWork.take`.
    #[pyo3(signature = (ids, *, now = None))]
    fn remove<'py>(&self, ids: &Bound<'py, PyAny>, now: Option<&Bound<'py, PyAny>>) -> Outcome<Bound<'py, PyAny>> {
        self.current().join(Given::only_ids(ids, now), |unit, ids, _, _, now_us| unit.remove(ids, now_us))
    }

    /// Make all of it durable, in one step, and let its ids go. Again is an error.
    ///
    /// Args:
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     int: how many ids changed.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] the unit is over; or somebody mapped one of its ids without a
    ///         unit meanwhile: then nothing of it is done.
    ///     LockedError: [DH-LOCKED] another writer held the mapper for longer than `lock_timeout`.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    #[pyo3(signature = (*, now = None))]
    fn commit(&self, py: Python<'_>, now: Option<&Bound<'_, PyAny>>) -> Outcome<u64> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.check_process()?;
        let now_us = clock::now_us(now)?;
        self.units.leave(&self.unit);
        crate::calls::outside(py, || {
            let unit = lock(&self.unit).take().ok_or_else(over)?;
            Ok(unit.commit(now_us)?)
        })
    }

    /// Forget all of it, and let its ids go: the messages are NEW when they come again. Again
    /// changes nothing.
    ///
    /// Raises:
    ///     Nothing; again changes nothing.
    fn roll_back(&self) {
        self.units.leave(&self.unit);
        lock(&self.unit).take();
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this.get().units.enter(this.get().current());
        this
    }

    #[pyo3(signature = (kind, error, trace, /))]
    #[expect(unused_variables, reason = "only whether there was an error matters here")]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> Outcome<()> {
        if kind.is_none() && lock(&self.unit).is_some() {
            return self.commit(py, None).map(drop);
        }
        self.roll_back();
        Ok(())
    }

    fn __repr__(&self) -> String {
        match lock(&self.unit).as_ref() {
            Some(unit) => format!("<UnitOfWork {:?}: {} ids>", self.mapper.name(), unit.len()),
            None => format!("<UnitOfWork {:?}, over>", self.mapper.name()),
        }
    }
}

impl UnitOfWork {
    fn current(&self) -> Current {
        let (handle, mapper) = (self.handle.clone(), self.mapper.clone());
        Current { handle, mapper, persist_us: self.persist_us, unit: self.unit.clone() }
    }
}

impl Current {
    /// Change mappings as part of the unit.
    pub(super) fn join<'py>(&self, given: Given<'_, 'py>, join: Join) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(given.ids.py());
        self.handle.check_process()?;
        given.apply(&self.mapper, self.persist_us, |ids, texts, untils, now_us| {
            let mut unit = lock(&self.unit);
            let unit = unit.as_mut().ok_or_else(over)?;
            Ok(join(unit, ids, texts, untils, now_us)?)
        })
    }
}

#[pymethods]
impl MapperTaken {
    /// The verdict of every message, in order: `status` (NEW, DUPLICATE, IN_DOUBT, FAILED; null
    /// while it waits), `action` (PROCESS, SKIP, RAISE, HOLD), `rule` ("N1" to "N4"), `reason` and
    /// `audit` (SUCCESS, ERROR or null), all dictionary<int8, utf8>; `found` and `retryable`
    /// (boolean), `mapped_id` (utf8: of a duplicate, the message that came first), `pending_since`
    /// (timestamp[us, UTC]). The rules are those of `docs/mapper.md`. SKIP is still acknowledged to
    /// the source. A pyarrow RecordBatch where one came in, else a Table.
    #[getter]
    fn verdicts<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        let batch = crate::calls::outside(py, || {
            let taken = lock(&self.taken);
            verdict_columns(&taken.rules, &taken.known)
        })?;
        output::like(py, self.messages.input.is_batch, batch)
    }

    /// The messages to process that did not fail, in the columns they came in.
    #[getter]
    #[pyo3(name = "new")]
    fn open<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        let batch = crate::calls::outside(py, || {
            let rows = lock(&self.taken).open_rows();
            self.messages.input.take(&rows)
        })?;
        output::like(py, self.messages.input.is_batch, batch)
    }

    /// The row numbers of `new`.
    #[getter]
    fn rows(&self) -> Vec<u32> {
        lock(&self.taken).open_rows()
    }

    /// The records for the audit log: `time` (timestamp[us, UTC]), `channel`, `id` (of a duplicate:
    /// the message that came first), `arrived_as`, `text` (utf8), `level`, `rule` (dictionary<int8,
    /// utf8>), `row` (uint32). A pyarrow RecordBatch.
    #[getter]
    fn audit<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        let batch = crate::calls::outside(py, || {
            let taken = lock(&self.taken);
            audit_columns(self.mapper.name(), &self.messages.ids, &taken.rules, &taken.known, self.taken_at)
        })?;
        Ok(output::record_batch(py, batch)?)
    }

    /// These messages failed: they are not mapped when the unit commits. Later messages of their
    /// queues, and copies of them, are held until they are taken again. What was mapped by hand
    /// since stays mapped.
    ///
    /// Args:
    ///     rows: row numbers of the batch.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] a row was not to be processed, the unit is over, or a later
    ///         `take` of it called a copy a duplicate, which may be acknowledged: roll it back.
    fn fail(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        let row = |row: i64| u32::try_from(row).map_err(|_| Failure::state(format!("row {row} is beyond the batch")));
        let rows: Vec<u32> = row_numbers(rows)?.into_iter().map(row).collect::<Outcome<_>>()?;
        crate::calls::outside(py, || {
            let ids: &ArrayRef = &self.messages.ids;
            let column = column(ids)?;
            let ids = self.mapper.values().ids(&column);
            let mut unit = lock(&self.unit);
            let unit = unit.as_mut().ok_or_else(over)?;
            Ok(unit.fail(&mut lock(&self.taken), &ids, &rows)?)
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        // Another thread may hold the lock and wait for Python.
        let new = crate::calls::outside(py, || lock(&self.taken).open_rows().len());
        let all = self.messages.input.rows;
        format!("<MapperTaken {:?}: {new} of {all} messages to process>", self.mapper.name())
    }
}
