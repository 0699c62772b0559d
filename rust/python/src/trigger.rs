//! The settings of a trigger.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use dochistory_core::protocols::trigger::rules;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::arguments;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::resolver::Retries;

/// The settings of one trigger: whose documents are judged, and how.
///
/// Without further settings a trigger detects duplicates by the history, and remembers each id for
/// 30 days. `Trigger.webmethods` and `Trigger.jms` start from the defaults of the documented
/// systems. Settings are checked here; a trigger never changes, compares by value, and can be
/// pickled if its resolver can.
///
/// Args:
///     name: id of the trigger; a history keeps each trigger's keys apart. 1 to 255 bytes of UTF-8.
///     kind: `messaging` (redeliveries are counted, from 0) or `jms` (deliveries are counted, from
///         1).
///     detect_duplicates: whether documents are judged at all; if not, all are NEW (rule R0).
///     use_history: whether the document history is asked; if not, the counts decide (R12 to R16).
///     history_time_to_live: how long an entry counts after its service began: text ("30 days",
///         "PT2H"), a timedelta, or seconds.
///     resolver: called with one pyarrow RecordBatch of the documents that are left undecided, at
///         most once a batch (again only for what others changed while `begin` asked); answers NEW,
///         DUPLICATE or IN_DOUBT for each. See `History.classify`.
///     processing_mode: `serial` (an earlier row of a batch has ended when a later one begins) or
///         `concurrent`.
///     suspend_and_retry_on_error: the server's switch: suspend rather than leave documents in
///         doubt when the history or the resolver is down.
///     suspend_on_failure: the trigger's own switch for the same; either is enough.
///     max_delivery_count: a JMS message that was delivered this number of times is rejected (R2);
///         a messaging trigger does not have it.
///     max_redelivery_count: a document of a messaging trigger that was delivered again this number
///         of times is rejected (R2, too); None for no limit, as in the systems that the rules come
///         from. A JMS trigger does not have it.
///     in_batch: what later copies of a new key in one batch are: `duplicate`, `in_doubt` or `new`;
///         None leaves it to the processing mode and the resolver.
///     expiry: `until_purged` (an entry counts until a purge removes it) or `exact` (until its time
///         to live is over).
///     complete_resolved: whether `begin` completes documents in progress that the resolver calls
///         DUPLICATE, so that nobody has to ask again; False leaves them in progress, as the
///         systems do that the rules come from.
///     without_ids: what `begin` does with a batch of several documents none of which has an id,
///         where the history is used and there is no resolver: `refuse` (an error; nearly always
///         the ids are in another column) or `in_doubt` (R3).
///     resolver_attempts: how often the resolver is asked in all if it fails for the moment
///         (`TransientError`), before that counts; only about the documents that it failed for. 1
///         for once.
///     resolver_backoff: how long to wait before the second time, a duration; each time twice as
///         long, 30 seconds at most, and a random share of that between a half and all.
///
/// Raises:
///     ConfigError: [DH-CONFIG] a setting makes no sense.
#[pyclass(module = "dochistory", name = "Trigger", frozen)]
pub(crate) struct Trigger {
    pub(crate) rules: rules::Trigger,
    pub(crate) resolver: Option<Py<PyAny>>,
    pub(crate) retries: Retries,
    pub(crate) without_ids: WithoutIds,
}

/// What `begin` does with a batch in which no document has an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WithoutIds {
    #[default]
    Refuse,
    InDoubt,
}

impl WithoutIds {
    fn of(word: &str) -> Outcome<Self> {
        let all = [Self::Refuse, Self::InDoubt];
        all.into_iter()
            .find(|one| one.as_str() == word)
            .ok_or_else(|| Failure::config(format!("without_ids is {word:?}; allowed is \"refuse\" or \"in_doubt\"")))
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::InDoubt => "in_doubt",
        }
    }
}

#[pymethods]
impl Trigger {
    #[new]
    #[pyo3(
        signature = (
            name, *, kind = "messaging".to_owned(), detect_duplicates = true, use_history = true, history_time_to_live = None,
            resolver = None, processing_mode = "concurrent".to_owned(), suspend_and_retry_on_error = true,
            suspend_on_failure = false, max_delivery_count = 100, in_batch = None, expiry = "until_purged",
            resolver_attempts = 3, resolver_backoff = None, max_redelivery_count = None, complete_resolved = true,
            without_ids = "refuse".to_owned()
        ),
        text_signature = "(name, *, kind='messaging', detect_duplicates=True, use_history=True, \
            history_time_to_live='30 days', resolver=None, processing_mode='concurrent', \
            suspend_and_retry_on_error=True, suspend_on_failure=False, max_delivery_count=100, in_batch=None, \
            expiry='until_purged', resolver_attempts=3, resolver_backoff='100 ms', max_redelivery_count=None, \
            complete_resolved=True, without_ids='refuse')"
    )]
    #[expect(clippy::too_many_arguments, clippy::fn_params_excessive_bools, reason = "users give them by name")]
    fn new(
        #[pyo3(from_py_with = arguments::name)] name: String,
        #[pyo3(from_py_with = arguments::kind)] kind: String,
        #[pyo3(from_py_with = arguments::detect_duplicates)] detect_duplicates: bool,
        #[pyo3(from_py_with = arguments::use_history)] use_history: bool,
        history_time_to_live: Option<Bound<'_, PyAny>>,
        resolver: Option<Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::processing_mode)] processing_mode: String,
        #[pyo3(from_py_with = arguments::suspend_and_retry_on_error)] suspend_and_retry_on_error: bool,
        #[pyo3(from_py_with = arguments::suspend_on_failure)] suspend_on_failure: bool,
        #[pyo3(from_py_with = arguments::max_delivery_count)] max_delivery_count: i64,
        #[pyo3(from_py_with = arguments::in_batch)] in_batch: Option<String>,
        #[pyo3(from_py_with = arguments::expiry)] expiry: &str,
        #[pyo3(from_py_with = arguments::resolver_attempts)] resolver_attempts: u32,
        resolver_backoff: Option<Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::max_redelivery_count)] max_redelivery_count: Option<i64>,
        #[pyo3(from_py_with = arguments::complete_resolved)] complete_resolved: bool,
        #[pyo3(from_py_with = arguments::without_ids)] without_ids: String,
    ) -> Outcome<Self> {
        let mut rules = rules::Trigger {
            detect_duplicates,
            use_history,
            processing_mode: processing_mode.parse()?,
            in_batch: in_batch.as_deref().map(str::parse).transpose()?,
            suspend_and_retry_on_error,
            suspend_on_failure,
            max_delivery_count,
            max_redelivery_count,
            complete_resolved,
            expiry: expiry.parse()?,
            ..rules::Trigger::detecting(name, kind.parse()?)
        };
        if let Some(time_to_live) = history_time_to_live {
            rules.history_time_to_live_us = clock::duration_us("history_time_to_live", &time_to_live)?;
        }
        rules.validate()?;
        if let Some(resolver) = resolver.as_ref().filter(|resolver| !resolver.is_callable()) {
            return Err(Failure::config(format!("resolver is {}; allowed is a callable or None", resolver.repr()?)));
        }
        let retries = retries_of(resolver_attempts, resolver_backoff.as_ref())?;
        let without_ids = WithoutIds::of(&without_ids)?;
        Ok(Self { rules, resolver: resolver.map(Bound::unbind), retries, without_ids })
    }

    /// Id of the trigger.
    #[getter]
    fn name(&self) -> &str {
        &self.rules.name
    }

    /// Where its documents come from: `messaging` or `jms`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.rules.kind.as_str()
    }

    /// Whether documents are judged at all.
    #[getter]
    fn detect_duplicates(&self) -> bool {
        self.rules.detect_duplicates
    }

    /// Whether the document history is asked.
    #[getter]
    fn use_history(&self) -> bool {
        self.rules.use_history
    }

    /// How long an entry counts after its service began, as a timedelta.
    #[getter]
    fn history_time_to_live<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        clock::timedelta(py, self.rules.history_time_to_live_us)
    }

    /// Who is asked about undecided documents.
    #[getter]
    fn resolver(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.resolver.as_ref().map(|resolver| resolver.clone_ref(py))
    }

    /// `serial` or `concurrent`.
    #[getter]
    fn processing_mode(&self) -> &'static str {
        self.rules.processing_mode.as_str()
    }

    /// The server's switch for suspending.
    #[getter]
    fn suspend_and_retry_on_error(&self) -> bool {
        self.rules.suspend_and_retry_on_error
    }

    /// The trigger's own switch for suspending.
    #[getter]
    fn suspend_on_failure(&self) -> bool {
        self.rules.suspend_on_failure
    }

    /// A JMS message that was delivered this number of times is rejected.
    #[getter]
    fn max_delivery_count(&self) -> i64 {
        self.rules.max_delivery_count
    }

    /// A document of a messaging trigger that was delivered again this number of times is rejected;
    /// None for no limit.
    #[getter]
    fn max_redelivery_count(&self) -> Option<i64> {
        self.rules.max_redelivery_count
    }

    /// Whether `begin` completes documents in progress that the resolver calls DUPLICATE.
    #[getter]
    fn complete_resolved(&self) -> bool {
        self.rules.complete_resolved
    }

    /// `refuse` or `in_doubt`.
    #[getter]
    fn without_ids(&self) -> &'static str {
        self.without_ids.as_str()
    }

    /// What later copies of a new key in one batch are; None leaves it to the processing mode.
    #[getter]
    fn in_batch(&self) -> Option<&'static str> {
        self.rules.in_batch.map(rules::InBatch::as_str)
    }

    /// `until_purged` or `exact`.
    #[getter]
    fn expiry(&self) -> &'static str {
        self.rules.expiry.as_str()
    }

    /// How often the resolver is asked in all, if it fails for the moment.
    #[getter]
    fn resolver_attempts(&self) -> u32 {
        self.retries.attempts
    }

    /// How long to wait before it is asked the second time, as a timedelta.
    #[getter]
    fn resolver_backoff<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        clock::timedelta(py, i64::try_from(self.retries.backoff.as_micros()).unwrap_or(i64::MAX))
    }

    /// The names of all settings, in the order of the constructor.
    #[classattr]
    #[pyo3(name = "FIELDS")]
    fn fields(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        PyTuple::new(py, FIELDS)
    }

    /// A trigger of messages with the defaults of webMethods.
    ///
    /// It detects nothing until `detect_duplicates` and `use_history` are set, and an entry lives
    /// for 2 hours.
    ///
    /// Args:
    ///     name: id of the trigger.
    ///     settings: those that differ from the defaults, by the names that the constructor gives
    ///         them.
    ///
    /// Returns:
    ///     Trigger: of kind `messaging`.
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] a setting makes no sense.
    ///     TypeError: there is no such setting, or it is `kind`.
    #[classmethod]
    #[pyo3(signature = (name, **settings))]
    fn webmethods<'py>(
        class: &Bound<'py, PyType>,
        name: &Bound<'py, PyAny>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        documented(class, name, rules::Kind::Messaging, settings)
    }

    /// A trigger of JMS messages with the defaults of webMethods.
    ///
    /// It detects nothing until `detect_duplicates` and `use_history` are set, and an entry lives
    /// for 2 hours.
    ///
    /// Args:
    ///     name: id of the trigger.
    ///     settings: those that differ from the defaults, by the names that the constructor gives
    ///         them.
    ///
    /// Returns:
    ///     Trigger: of kind `jms`.
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] a setting makes no sense.
    ///     TypeError: there is no such setting, or it is `kind`.
    #[classmethod]
    #[pyo3(signature = (name, **settings))]
    fn jms<'py>(
        class: &Bound<'py, PyType>,
        name: &Bound<'py, PyAny>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        documented(class, name, rules::Kind::Jms, settings)
    }

    /// The same trigger with some settings changed.
    ///
    /// Args:
    ///     changes: settings, by the names that the constructor gives them.
    ///
    /// Returns:
    ///     Trigger: a new one.
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] a setting makes no sense.
    ///     TypeError: there is no such setting.
    #[pyo3(signature = (**changes))]
    fn replace<'py>(this: &Bound<'py, Self>, changes: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        let settings = Self::settings(this)?;
        settings.set_item("name", &this.get().rules.name)?;
        if let Some(changes) = changes {
            settings.update(changes.as_mapping())?;
        }
        this.get_type().call((), Some(&settings))
    }

    fn __repr__(this: &Bound<'_, Self>) -> PyResult<String> {
        let rules = &this.get().rules;
        let default = rules::Trigger::detecting(rules.name.clone(), rules.kind);
        let default = Bound::new(
            this.py(),
            Self { rules: default, resolver: None, retries: Retries::default(), without_ids: WithoutIds::default() },
        )?;
        let (settings, defaults) = (Self::settings(this)?, Self::settings(&default)?);
        let mut shown = vec![format!("{:?}", rules.name)];
        for (setting, value) in settings {
            let is_default = defaults.get_item(&setting)?.is_some_and(|default| default.eq(&value).unwrap_or(false));
            if !is_default || setting.eq("kind")? {
                shown.push(format!("{setting}={}", value.repr()?));
            }
        }
        Ok(format!("Trigger({})", shown.join(", ")))
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        let same_resolver = match (&self.resolver, &other.resolver) {
            (None, None) => true,
            (Some(one), Some(other)) => one.bind(py).eq(other)?,
            _ => false,
        };
        Ok(same_resolver
            && self.rules == other.rules
            && self.retries == other.retries
            && self.without_ids == other.without_ids)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.rules.name, self.rules.kind, self.rules.history_time_to_live_us).hash(&mut hasher);
        hasher.finish()
    }

    /// How to pickle it: by its settings.
    fn __getnewargs_ex__<'py>(this: &Bound<'py, Self>) -> PyResult<((String,), Bound<'py, PyDict>)> {
        Ok(((this.get().rules.name.clone(),), Self::settings(this)?))
    }
}

/// The settings `resolver_attempts` and `resolver_backoff`.
fn retries_of(attempts: u32, backoff: Option<&Bound<'_, PyAny>>) -> Outcome<Retries> {
    let mut retries = Retries { attempts, ..Retries::default() };
    if let Some(backoff) = backoff {
        let backoff_us = clock::duration_us("resolver_backoff", backoff)?;
        let backoff_us = u64::try_from(backoff_us)
            .map_err(|_| Failure::config("resolver_backoff is less than nothing; allowed is 0 or more"))?;
        retries.backoff = Duration::from_micros(backoff_us);
    }
    Ok(retries)
}

/// A trigger of this kind with the defaults of the documented systems, and some settings
/// changed.
fn documented<'py>(
    class: &Bound<'py, PyType>,
    name: &Bound<'py, PyAny>,
    kind: rules::Kind,
    settings: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    if settings.is_some_and(|settings| settings.contains("kind").unwrap_or(false)) {
        return Err(PyTypeError::new_err(format!("this is a trigger of kind {kind}: it takes no other kind")));
    }
    let rules = rules::Trigger::new("any", kind);
    let (retries, without_ids) = (Retries::default(), WithoutIds::InDoubt);
    let default = Bound::new(class.py(), Trigger { rules, resolver: None, retries, without_ids })?;
    let merged = Trigger::settings(&default)?;
    if let Some(settings) = settings {
        merged.update(settings.as_mapping())?;
    }
    class.call((name,), Some(&merged))
}

/// The names of all settings, in the order of the constructor.
const FIELDS: [&str; 17] = [
    "name",
    "kind",
    "detect_duplicates",
    "use_history",
    "history_time_to_live",
    "resolver",
    "processing_mode",
    "suspend_and_retry_on_error",
    "suspend_on_failure",
    "max_delivery_count",
    "in_batch",
    "expiry",
    "resolver_attempts",
    "resolver_backoff",
    "max_redelivery_count",
    "complete_resolved",
    "without_ids",
];

impl Trigger {
    /// All settings but the name, as keyword arguments.
    fn settings<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let settings = PyDict::new(this.py());
        for name in &FIELDS[1..] {
            settings.set_item(name, this.getattr(*name)?)?;
        }
        Ok(settings)
    }
}

/// The argument `trigger`.
pub(crate) fn argument<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Trigger>> {
    let wrong = || Failure::config(format!("trigger is {}; needed is a dochistory.Trigger", arguments::shown(given)));
    given.cast::<Trigger>().cloned().map_err(|_| wrong().into())
}
