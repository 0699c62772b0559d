//! Claims of one document.

use std::sync::{Arc, LazyLock};

use crate::arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use crate::arrow::buffer::OffsetBuffer;
use crate::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use dochistory_core::columns::IdCell;
use dochistory_core::protocols::trigger::rules::{Acknowledge, Action, Kind, Outcome as Decision, Status};
use dochistory_core::protocols::trigger::{Begun, Claim as Claimed, Verdicts};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::claim::on_leaving;
use crate::clock;
use crate::columns::Columns;
use crate::errors::{Failure, Outcome};
use crate::handle::Handle;
use crate::input::Input;
use crate::messages::sentence;

type Text<'py> = Bound<'py, PyString>;
/// Status, action, rule, acknowledge, key and message.
type Verdict<'py> = (Option<Text<'py>>, Text<'py>, Text<'py>, Text<'py>, Option<Text<'py>>, Option<Text<'py>>);

/// One document that was begun, and its verdict. `History.begin_one` makes it.
///
/// In a `with` block `RolledBack` releases it, unless it was completed, and is raised further. Any
/// other exception ends nothing, and neither does leaving the block: only `complete()` says that
/// the service has ended.
#[pyclass(module = "dochistory", name = "DocumentClaim", frozen)]
pub(crate) struct DocumentClaim {
    handle: Arc<Handle>,
    claimed: Option<Claimed>,
    decision: Decision,
    key: Option<String>,
    message: Option<String>,
}

#[pymethods]
impl DocumentClaim {
    /// `NEW`, `DUPLICATE` or `IN_DOUBT`; None when the trigger is suspended or the document is
    /// rejected.
    #[getter]
    fn status(&self) -> Option<&'static str> {
        self.decision.status().map(Status::as_str)
    }

    /// `PROCESS`, `DISCARD`, `LOG`, `SUSPEND` or `REJECT`.
    #[getter]
    fn action(&self) -> &'static str {
        Action::as_str(self.decision.action())
    }

    /// `AFTER_SERVICE`, `NOW` or `NO`.
    #[getter]
    fn acknowledge(&self) -> &'static str {
        Acknowledge::as_str(self.decision.acknowledge())
    }

    /// The rules that led here, such as `R8` or `R10>S1`.
    #[getter]
    fn rule(&self) -> &'static str {
        self.decision.rule()
    }

    /// The key; None if the document has none.
    #[getter]
    fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// One sentence for the journal; None for what is NEW.
    #[getter]
    fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// When the service began, as a datetime in UTC: the `now` of `begin_one`. None if the history
    /// keeps no track of the document.
    #[getter]
    fn started_at<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.claimed.as_ref().map(|claimed| clock::datetime(py, claimed.started_at())).transpose()
    }

    /// Status, action, rule, acknowledge, key and message, for a consumer: one call for all.
    #[getter]
    fn _verdict<'py>(&self, py: Python<'py>) -> Verdict<'py> {
        // Words that Python knows already are quicker to hand over, and to count by.
        let word = |word: &'static str| PyString::intern(py, word);
        let text = |text: &Option<String>| text.as_deref().map(|text| PyString::new(py, text));
        (
            self.status().map(word),
            word(self.action()),
            word(self.rule()),
            word(self.acknowledge()),
            text(&self.key),
            text(&self.message),
        )
    }

    /// The service ended, in success or failure. Durable on return; again changes nothing. Nothing
    /// to do unless the action is PROCESS.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] it was released: another claim may have begun it since.
    fn complete(&self, py: Python<'_>) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.check_process()?;
        let Some(claimed) = &self.claimed else { return Ok(()) };
        Ok(crate::calls::outside(py, || claimed.complete(None))?)
    }

    /// The service's work was undone for certain: the document is NEW when it comes again. Durable
    /// on return; again changes nothing.
    ///
    /// Raises:
    ///     StateError: [DH-STATE] it was completed.
    fn release(&self, py: Python<'_>) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        self.handle.check_process()?;
        let Some(claimed) = &self.claimed else { return Ok(()) };
        Ok(crate::calls::outside(py, || claimed.release(None))?)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (kind, error, trace, /))]
    #[expect(unused_variables, reason = "only what was raised matters here")]
    fn __exit__(&self, kind: &Bound<'_, PyAny>, error: &Bound<'_, PyAny>, trace: &Bound<'_, PyAny>) -> Outcome<()> {
        on_leaving(error, || self.release(error.py()))
    }

    fn __repr__(&self) -> String {
        let status = self.status().unwrap_or("-");
        format!("<DocumentClaim {:?}: {status} {} {}>", self.key.as_deref().unwrap_or(""), self.action(), self.rule())
    }
}

impl DocumentClaim {
    pub(crate) fn new(handle: Arc<Handle>, columns: &Columns, begun: Begun) -> Outcome<Self> {
        let Verdicts { outcomes, sources, mut messages, unavailable } = begun.verdicts;
        let (Some(decision), Some(source)) = (outcomes.first().copied(), sources.first()) else {
            return Err(Failure::state("one document was begun, and no verdict came back"));
        };
        let documents = columns.documents();
        let key = documents.ids.get(usize::from(*source)).and_then(|column| match column.get(0) {
            IdCell::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            IdCell::Uuid(_) | IdCell::Null => None,
        });
        let said = messages.pop().map(|(_, message)| message);
        let message = said.or_else(|| sentence(decision, unavailable.as_deref()).map(Into::into));
        Ok(Self { handle, claimed: begun.claim, decision, key, message })
    }

    pub(crate) fn decision(&self) -> Decision {
        self.decision
    }
}

/// Most documents have no more than their id.
static ONLY_UUID: LazyLock<SchemaRef> =
    LazyLock::new(|| Arc::new(Schema::new(vec![Field::new("uuid", DataType::Utf8, true)])));

/// The arguments of `begin_one` about a document.
#[derive(Default)]
pub(crate) struct Document {
    pub(crate) uuid: Option<String>,
    pub(crate) track_id: Option<String>,
    pub(crate) event_id: Option<String>,
    pub(crate) jms_message_id: Option<String>,
    pub(crate) redelivery_count: Option<i64>,
    pub(crate) delivery_count: Option<i64>,
    pub(crate) guaranteed: Option<bool>,
    pub(crate) persistent: Option<bool>,
}

impl Document {
    /// A batch of one row, in the columns of a trigger of this kind.
    pub(crate) fn into_input(self, kind: Kind) -> Outcome<Input> {
        let text = |text: Option<String>| text.map(|text| Arc::new(StringArray::from(vec![text])) as ArrayRef);
        let count = |count: Option<i64>| count.map(|count| Arc::new(Int64Array::from(vec![count])) as ArrayRef);
        let flag = |flag: Option<bool>| flag.map(|flag| Arc::new(BooleanArray::from(vec![flag])) as ArrayRef);
        let uuid: ArrayRef = match self.uuid {
            // As the other way makes it, without what a builder costs.
            Some(text) => {
                let offsets = OffsetBuffer::from_lengths([text.len()]);
                Arc::new(StringArray::try_new(offsets, text.into_bytes().into(), None)?)
            }
            None => Arc::new(StringArray::new_null(1)),
        };
        let (messaging, jms) = (Some(Kind::Messaging), Some(Kind::Jms));
        let columns = [
            (None, "uuid", Some(uuid)),
            (messaging, "track_id", text(self.track_id)),
            (messaging, "event_id", text(self.event_id)),
            (jms, "jms_message_id", text(self.jms_message_id)),
            (messaging, "redelivery_count", count(self.redelivery_count)),
            (jms, "delivery_count", count(self.delivery_count)),
            (messaging, "guaranteed", flag(self.guaranteed)),
            (jms, "persistent", flag(self.persistent)),
        ];
        let given = || columns.iter().filter_map(|(of, name, array)| Some((of, *name, array.clone()?)));
        if let Some((_, name, _)) = given().find(|(of, ..)| of.is_some_and(|of| of != kind)) {
            return Err(Failure::config(format!("{name} is given, but a {kind} trigger does not look at it")));
        }
        let is_plain = given().nth(1).is_none();
        let batch = match columns {
            [(_, _, Some(uuid)), ..] if is_plain => RecordBatch::try_new(ONLY_UUID.clone(), vec![uuid])?,
            _ => RecordBatch::try_from_iter_with_nullable(given().map(|(_, name, array)| (name, array, true)))?,
        };
        Ok(Input::from(batch))
    }
}
