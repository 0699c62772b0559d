//! The mapper of a channel, for Python.

use std::sync::{Arc, Mutex};

use dochistory_core::Transaction;
use dochistory_core::protocols::mapper::{Mapper, SendTransaction, Unit};
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use super::arrays::{batch, column, ids, known_columns};
use super::change::{Change, Given, Join};
use super::messages::{self, Messages};
use super::policy::policy_word;
use super::send::MapperSend;
use super::settings::{self, Kept};
use super::unit::{UnitOfWork, Units};
use crate::arguments;
use crate::call::plain_replays;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::history::{History, names};
use crate::output;

/// A durable map from ids to other ids, for the messages of one channel. `History.mapper` makes it.
///
/// Ids are text of up to 65,535 bytes, a dictionary of text, or UUIDs as 16 bytes: an Arrow array,
/// a table with a column `id`, or any iterable of text. All methods may be called by many threads
/// at once; none holds Python while it works.
#[pyclass(module = "dochistory", name = "MessageIdMapper", frozen)]
pub(crate) struct MessageIdMapper {
    pub(super) handle: Arc<Handle>,
    pub(super) mapper: Mapper,
    persist_us: Option<i64>,
    units: Units,
}

#[pymethods]
impl History {
    /// The message id mapper of a channel. Nothing is made of it before it first writes.
    ///
    /// Args:
    ///     channel: its name; each channel has ids of its own.
    ///     pending: what is done with a message whose sending was begun and never ended: `error`
    ///         (raise, and keep it), `process` (send it) or `duplicate` (take it as sent). An
    ///         administrator's decision, and so not stored.
    ///     mirror: write the second direction of each mapping as well, so that the other id is
    ///         found too.
    ///     expiry: `until_purged` (a mapping counts until a purge takes it) or `exact` (until its
    ///         time).
    ///     persist: how long entries are kept where a call does not say: text, a timedelta,
    ///         seconds, or "forever".
    ///
    /// Returns:
    ///     MessageIdMapper: the mapper of the channel.
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] an argument makes no sense.
    #[pyo3(signature = (channel, *, pending = "error", mirror = false, expiry = "until_purged", persist = None))]
    fn mapper(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::channel)] channel: &str,
        #[pyo3(from_py_with = arguments::pending)] pending: &str,
        #[pyo3(from_py_with = arguments::mirror)] mirror: bool,
        #[pyo3(from_py_with = arguments::expiry)] expiry: &str,
        persist: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<MessageIdMapper> {
        const DEFAULT_US: i64 = 30 * 86_400_000_000;
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let settings = settings::settings(pending, mirror, expiry)?;
        let persist_us = persist.map_or(Ok(Some(DEFAULT_US)), settings::persist)?;
        let mapper = crate::calls::outside(py, || Mapper::new(&history, channel, settings))?;
        Ok(MessageIdMapper { handle: self.handle.clone(), mapper, persist_us, units: Units::default() })
    }

    /// The channels whose mappers hold entries, or held some.
    ///
    /// Returns:
    ///     list of str: the channels, sorted.
    ///
    /// Raises:
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn mappers(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        Ok(crate::calls::outside(py, || history.value_spaces(dochistory_core::history::values::Room::Mapper))?)
    }
}

#[pymethods]
impl MessageIdMapper {
    /// The channel's name.
    #[getter]
    fn name(&self) -> &str {
        self.mapper.name()
    }

    /// What is done with a message that is pending: `error`, `process` or `duplicate`.
    #[getter]
    fn policy(&self) -> &'static str {
        policy_word(self.mapper.settings().policy)
    }

    /// What the mapper knows of some ids. Writes nothing.
    ///
    /// Args:
    ///     ids: the ids.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     A pyarrow RecordBatch with a row for each id, in order: `found` (boolean: it is mapped),
    ///     `mapped_id` (utf8: to what; a mapping may be to nothing), `pending` (boolean),
    ///     `pending_since` (timestamp[us, UTC]), `resolved` (dictionary<int8, utf8>: process,
    ///     duplicate or null), `persist_until` (timestamp[us, UTC], of the mapping, else of what is
    ///     pending; null: forever).
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] the ids are no text and no UUIDs.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    #[pyo3(signature = (ids, *, now = None))]
    fn lookup<'py>(&self, ids: &Bound<'py, PyAny>, now: Option<&Bound<'py, PyAny>>) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(ids.py());
        let (py, array) = (ids.py(), self::ids("ids", ids)?);
        self.handle.get()?;
        let now_us = clock::now_us(now)?;
        let known = crate::calls::outside(py, || {
            let column = column(&array)?;
            let known = self.mapper.lookup(&self.mapper.values().ids(&column), now_us)?;
            batch(known_columns(&known)?)
        })?;
        Ok(output::record_batch(py, known)?)
    }

    /// Map ids to other ids. Durable on return.
    ///
    /// Args:
    ///     ids: the ids.
    ///     external_ids: what they are mapped to, a column of text of the same length; None maps to
    ///         nothing.
    ///     persist_until: a datetime, a duration from now on, "forever", or a column of times; the
    ///         mapper's, if absent.
    ///     transactional: join this thread's open unit of work, and be durable when that commits;
    ///         else durable on return, whatever becomes of the unit.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     `id` and `error` for each row: null where it is done, else EXISTS (it is mapped, or
    ///     stood in an earlier row), NO_ID, TOO_LONG (more than 65,535 bytes) or MIRROR_EXISTS (the
    ///     other id is mapped or pending). The other rows are done.
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] the columns are no text, or have different lengths.
    ///     StateError: [DH-STATE] `transactional`, and there is no unit of work.
    ///     LockedError: [DH-LOCKED] another writer held the mapper for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    #[pyo3(signature = (ids, external_ids = None, persist_until = None, transactional = false, *, now = None))]
    fn create<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        external_ids: Option<&Bound<'py, PyAny>>,
        persist_until: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arguments::transactional)] transactional: bool,
        now: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let join = transactional.then_some(Unit::create as Join);
        self.change(Given { ids, external_ids, persist_until, now }, Mapper::create, join)
    }

    /// Map ids that are mapped to other ids than before. Durable on return.
    ///
    /// Args:
    ///     ids: the ids: an Arrow array, a table with a column `id`, or any iterable of text.
    ///     external_ids: what they are mapped to, a column of text of the same length; None maps to
    ///         nothing.
    ///     persist_until: a datetime, a duration from now on, "forever", or a column of times; the
    ///         mapper's, if absent.
    ///     transactional: join this thread's open unit of work; see `create`.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     A pyarrow RecordBatch with a row for each id: `id` (as it came), `error`
    ///     (dictionary<int8, utf8>: null where it is done, else NOT_FOUND (it is not mapped),
    ///     EXISTS (it stood in an earlier row: the first one counts), NO_ID, TOO_LONG or
    ///     MIRROR_EXISTS). The other rows are done.
    ///
    /// Raises:
    ///     As `MessageIdMapper.create`.
    #[pyo3(signature = (ids, external_ids = None, persist_until = None, transactional = false, *, now = None))]
    fn update<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        external_ids: Option<&Bound<'py, PyAny>>,
        persist_until: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arguments::transactional)] transactional: bool,
        now: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let join = transactional.then_some(Unit::update as Join);
        self.change(Given { ids, external_ids, persist_until, now }, Mapper::update, join)
    }

    /// Remove mappings. Durable on return.
    ///
    /// Args:
    ///     ids: the ids: an Arrow array, a table with a column `id`, or any iterable of text.
    ///     transactional: join this thread's open unit of work; see `create`.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     A pyarrow RecordBatch with a row for each id: `id` (as it came), `error`
    ///     (dictionary<int8, utf8>: null where it is done, else NOT_FOUND (it is not mapped), NO_ID
    ///     or TOO_LONG). The other rows are done.
    ///
    /// Raises:
    ///     As `MessageIdMapper.create`.
    #[pyo3(signature = (ids, transactional = false, *, now = None))]
    fn remove<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arguments::transactional)] transactional: bool,
        now: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let join = transactional.then_some((|unit, ids, _, _, now_us| unit.remove(ids, now_us)) as Join);
        self.change(Given::only_ids(ids, now), |mapper, ids, _, _, now_us| mapper.remove(ids, now_us), join)
    }

    /// Judge messages that go out, and make those to send pending, in one step. Durable on return,
    /// before anything is sent.
    ///
    /// Args:
    ///     messages: anything with Arrow's C interface. Columns `id` (ours), `qos` (BE, EO, EOIO),
    ///         `queue` (of EOIO).
    ///     columns: the mapper's name of a column -> its name in `messages`, where they differ.
    ///     qos: the quality of service where no column says it.
    ///     persist_until: until when pending entries are kept at least, and the mappings of M5; see
    ///         `create`. A purge takes pending entries only when asked to.
    ///     raise_pending: raise `PendingMessageError`, and write nothing, if the action of any row
    ///         is RAISE.
    ///     transaction: (application, number of the batch): a batch that comes again is known by
    ///         it.
    ///     on_replay: what ids are that this very transaction began to send and never ended:
    ///         `in_doubt` (pending, by the rules) or `rerun` (NEW again: for receivers that are
    ///         idempotent for each batch).
    ///     on_other_rows: what is done with a known number that comes with other rows: `error`
    ///         (nothing is written), or `look_up` (each row is what the mapper holds of it).
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///
    /// Returns:
    ///     MapperSend: the verdicts, the messages to send, and the right to end them.
    ///
    /// Raises:
    ///     PendingMessageError: [DH-PENDING] with `raise_pending`.
    ///     SchemaError: [DH-SCHEMA] a column is missing or has the wrong type.
    ///     ConfigError: [DH-CONFIG] an argument makes no sense.
    ///     TransactionError: [DH-TRANSACTION] the application's numbers went backwards, or a known
    ///         number came with other rows.
    ///     LockedError: [DH-LOCKED] another writer held the mapper for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    #[pyo3(signature = (
        messages, *, columns = None, qos = "EO", persist_until = None, raise_pending = false, transaction = None,
        on_replay = "in_doubt", on_other_rows = "error", now = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "users give them by name")]
    fn begin_send<'py>(
        &self,
        messages: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arguments::columns)] columns: Option<Bound<'py, PyMapping>>,
        #[pyo3(from_py_with = arguments::qos)] qos: &str,
        persist_until: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arguments::raise_pending)] raise_pending: bool,
        #[pyo3(from_py_with = arguments::transaction)] transaction: Option<(String, i64)>,
        #[pyo3(from_py_with = arguments::on_replay)] on_replay: &str,
        #[pyo3(from_py_with = arguments::on_other_rows)] on_other_rows: &str,
        now: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<MapperSend> {
        let py = messages.py();
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        let now_us = clock::now_us(now)?;
        let kept = Kept::read(persist_until, self.persist_us, now_us)?;
        let replays = plain_replays(on_replay, on_other_rows)?;
        let transaction = transaction.map(|(application, batch)| Transaction { application, batch });
        let under = transaction.map(|transaction| SendTransaction { transaction, replays });
        let qos = messages::qos(qos)?;
        let messages = Messages::import(messages, names(columns.as_ref())?.as_ref(), qos, self.mapper.values())?;
        let send = crate::calls::outside(py, || {
            let column = column(&messages.ids)?;
            let ids = self.mapper.values().ids(&column);
            let begun =
                self.mapper.begin_send(&ids, messages.engine(), kept.untils(), now_us, under.as_ref(), raise_pending);
            Ok::<_, Failure>(begun?)
        })?;
        let (handle, mapper) = (self.handle.clone(), self.mapper.clone());
        let begun = MapperSend { handle, mapper, persist_us: self.persist_us, messages, send };
        if raise_pending {
            begun.check_pending(py)?;
        }
        self.start_maintenance(py);
        Ok(begun)
    }

    /// Begin a unit of work, in which messages are taken in.
    ///
    /// Returns:
    ///     UnitOfWork: to be used in a `with` block.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn unit_of_work(&self) -> Outcome<UnitOfWork> {
        self.handle.get()?;
        let unit = Arc::new(Mutex::new(Some(self.mapper.unit_of_work())));
        let (handle, mapper, units) = (self.handle.clone(), self.mapper.clone(), self.units.clone());
        Ok(UnitOfWork { handle, mapper, persist_us: self.persist_us, unit, units })
    }

    /// What a notebook shows.
    fn _repr_html_(this: &Bound<'_, Self>) -> PyResult<String> {
        this.py().import("dochistory.notebook")?.getattr("mapper_html")?.call1((this,))?.extract()
    }

    fn __repr__(&self) -> String {
        format!("<MessageIdMapper {:?}, pending={:?}>", self.mapper.name(), self.policy())
    }
}

impl MessageIdMapper {
    /// Change mappings, as part of the unit that this thread is inside if there is `join`.
    fn change<'py>(&self, given: Given<'_, 'py>, change: Change, join: Option<Join>) -> Outcome<Bound<'py, PyAny>> {
        let py = given.ids.py();
        let _call = crate::calls::InCall::enter(py);
        self.handle.get()?;
        if let Some(join) = join {
            return self.units.current()?.join(given, join);
        }
        let errors = given.apply(&self.mapper, self.persist_us, |ids, texts, untils, now_us| {
            Ok(change(&self.mapper, ids, texts, untils, now_us)?)
        })?;
        self.start_maintenance(py);
        Ok(errors)
    }

    /// Start maintenance if it is due. A failure has no effect on the caller: it is logged, and
    /// maintenance is due again the next time.
    pub(super) fn start_maintenance(&self, py: Python<'_>) {
        if !self.handle.auto_maintain {
            return;
        }
        let seen = crate::calls::outside(py, || {
            let what = format!("mapper '{}'", self.mapper.name());
            self.handle.maintenance.start_for_values(self.mapper.values(), &what)
        });
        if let Some((what, error)) = seen {
            let logged = py.import("logging").and_then(|logging| {
                let log = logging.call_method1("getLogger", ("dochistory",))?;
                log.call_method1("warning", ("maintenance of %s: %s", what, error))
            });
            drop(logged);
        }
    }
}
