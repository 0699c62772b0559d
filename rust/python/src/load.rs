//! Bulk loading of entries from elsewhere, batch by batch, so that streams of any length fit in
//! memory.

use std::collections::HashMap;

use crate::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use crate::arrow::compute::{CastOptions, cast, cast_with_options};
use crate::arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use dochistory_core::columns::{FlagColumn, Validity};
use dochistory_core::protocols::trigger::{Attempt, Job};
use dochistory_core::time::format_us;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping};
use pyo3_arrow::input::AnyRecordBatch;

use crate::arguments;
use crate::clock::{self, KEPT, KEPT_US};
use crate::columns::{Columns, find_named};
use crate::errors::{Failure, Outcome};
use crate::history::{History, names};
use crate::input::Input;
use crate::progress::Hearer;
use crate::shards::Shards;
use crate::trigger::{self, Trigger};

/// Rows taken at a time; between two of these steps progress is reported and interrupts from the
/// keyboard are checked.
const AT_A_TIME: usize = 1 << 18;

#[pymethods]
impl History {
    /// Load entries in bulk: documents that were processed elsewhere, or before there was this
    /// history.
    ///
    /// Entries are published, durably, 4,194,304 at a time. **Resuming:** a load that was broken
    /// off (a kill, Ctrl-C, an error) leaves what it published. Run it again with the same entries
    /// in the same order, in batches of any size: the parts that are there are recognised by their
    /// content and not written again. Once a load has come to its end, its parts are forgotten: to
    /// load a completed entry again then lists it once in `entries` and twice in `stats`, until
    /// `maintain`, and its time to live starts at the later `started_at`; one that is processing is
    /// listed once more, and still ends as a whole.
    ///
    /// Other writers may go on meanwhile; their turns come between the parts. Afterwards `maintain`
    /// puts small files together.
    ///
    /// Args:
    ///     documents: the trigger's id columns, and optionally `started_at` (timestamp; when the
    ///         service began) and `status` (utf8: `completed` or `processing`, null means
    ///         completed). Anything with Arrow's C interface, read as a stream where it is one, a
    ///         pyarrow dataset, or an iterable of record batches.
    ///     trigger: whose documents they are.
    ///     columns: other names of the trigger's columns, `started_at` and `status`: role -> name.
    ///     now: `started_at` of entries that have none, a datetime with a time zone; the clock's,
    ///         if absent.
    ///     progress: called with the number of entries read so far, after each batch and each
    ///         262,144 entries; what it raises stops the load. True shows a bar on standard error.
    ///
    /// Returns:
    ///     The number of entries read, those included that were there from an interrupted run.
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] a column has the wrong type, or a row has no key or one of more
    ///         than 96 characters.
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    #[pyo3(signature = (documents, trigger, *, columns = None, now = None, progress = None))]
    fn load(
        &self,
        documents: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'_, Trigger>,
        #[pyo3(from_py_with = arguments::columns)] columns: Option<Bound<'_, PyMapping>>,
        now: Option<&Bound<'_, PyAny>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<u64> {
        let py = documents.py();
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let trigger = trigger.get();
        let names = Names::of(names(columns.as_ref())?.unwrap_or_default(), clock::now_us(now)?);
        let total = documents.getattr("num_rows").ok().and_then(|rows| rows.extract().ok());
        let hearer = Hearer::new(py, progress, &format!("loading {}", trigger.rules.name), total)?;
        let mut load = crate::calls::outside(py, || history.load(&trigger.rules))?;
        let done = each_batch(documents, &mut |batch| {
            for start in (0..batch.num_rows()).step_by(AT_A_TIME) {
                let piece = batch.slice(start, AT_A_TIME.min(batch.num_rows() - start));
                crate::calls::outside(py, || {
                    let read = names.read(piece, trigger)?;
                    Ok::<_, Failure>(load.push(&read.columns.documents(), &read.times, names.now_us, read.flags())?)
                })?;
                py.check_signals()?;
                hearer.tell(load.progress().entries, None)?;
            }
            Ok(())
        })
        .map(drop);
        let done = match done {
            Ok(()) => crate::calls::outside(py, || load.finish()).map(|done| done.entries).map_err(Failure::from),
            Err(stopped) => {
                load.leave();
                Err(stopped)
            }
        };
        hearer.close()?;
        done
    }
}

/// Take the batches of documents one after the other.
fn each_batch(documents: &Bound<'_, PyAny>, take: &mut dyn FnMut(RecordBatch) -> Outcome<()>) -> Outcome<()> {
    let py = documents.py();
    if let Ok(found) = documents.extract::<AnyRecordBatch>() {
        let mut reader = match found {
            AnyRecordBatch::RecordBatch(batch) => return take(batch.into_inner()),
            AnyRecordBatch::Stream(stream) => stream.into_reader()?,
        };
        // The producer may have to work in threads that need Python.
        while let Some(batch) = crate::calls::outside(py, || reader.next()) {
            take(batch.map_err(|error| Failure::schema(format!("the documents end early: {error}")))?)?;
        }
        return Ok(());
    }
    let batches = match documents.getattr("to_batches") {
        Ok(to_batches) => to_batches.call0()?.try_iter()?,
        Err(_) => match documents.try_iter() {
            Ok(batches) if !documents.hasattr("dtype")? => batches,
            // Raises the error for it.
            _ => return Input::import(documents).map(drop),
        },
    };
    for batches in batches {
        for batch in Input::import(&batches?)?.batches {
            take(batch)?;
        }
    }
    Ok(())
}

#[pymethods]
impl Shards {
    /// Stage entries of one part of a job: durable on return, and not part of the history until
    /// `commit_entries`.
    ///
    /// Args:
    ///     documents: as in `History.load`.
    ///     trigger: whose documents they are.
    ///     job: the `token` of a job that was reserved with `reads=False`.
    ///     part: number of the part, from 0.
    ///     attempt: a name that no other attempt at this job has: letters, digits and hyphens.
    ///     columns: other names of the trigger's columns, `started_at` and `status`: role -> name.
    ///     now: `started_at` of entries that have none, a datetime with a time zone; the job's
    ///         `started_at`, if absent.
    ///
    /// Returns:
    ///     The receipt, to hand to the committing driver.
    ///
    /// Raises:
    ///     SchemaError: [DH-SCHEMA] a column has the wrong type, or a row has no key or one of more
    ///         than 96 characters.
    ///     ConfigError: [DH-CONFIG] an argument makes no sense.
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    #[pyo3(signature = (documents, trigger, *, job, part, attempt, columns = None, now = None))]
    #[expect(clippy::too_many_arguments, reason = "users give them by name")]
    fn stage_entries<'py>(
        &self,
        documents: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'_, Trigger>,
        job: &str,
        part: u32,
        attempt: &str,
        columns: Option<HashMap<String, String>>,
        now: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<Bound<'py, PyBytes>> {
        let py = documents.py();
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let trigger = trigger.get();
        let job = Job::from_token(job)?;
        if job.trigger() != trigger.rules.name {
            let (of, name) = (job.trigger(), &trigger.rules.name);
            return Err(Failure::config(format!("the job is one of trigger {of:?}, not {name:?}")));
        }
        let now_us = now.map_or(Ok(job.plan().started_at), |now| clock::now_us(Some(now)))?;
        let names = Names::of(columns.unwrap_or_default(), now_us);
        let mut staging = history.stage_entries(&job, Attempt { part, name: attempt })?;
        each_batch(documents, &mut |batch| {
            crate::calls::outside(py, || {
                let read = names.read(batch, trigger)?;
                Ok::<_, Failure>(staging.push(&read.columns.documents(), &read.times, read.flags())?)
            })?;
            py.check_signals().map_err(Failure::from)
        })?;
        let receipt = crate::calls::outside(py, || staging.finish())?;
        Ok(PyBytes::new(py, &receipt.encode()))
    }
}

/// The entries of a batch.
struct Read {
    columns: Columns,
    times: Vec<i64>,
    completed: Option<BooleanArray>,
}

impl Read {
    fn flags(&self) -> FlagColumn<'_> {
        self.completed.as_ref().map_or(FlagColumn::Absent, |flags| FlagColumn::Bits {
            bits: flags.values().values(),
            offset: flags.values().offset(),
            validity: Validity::all(),
        })
    }
}

/// The names of a batch's columns.
struct Names {
    /// Other names of the columns of a load.
    own: HashMap<String, String>,
    /// The names of the trigger's own columns.
    renamed: HashMap<String, String>,
    now_us: i64,
}

impl Names {
    fn of(mut renamed: HashMap<String, String>, now_us: i64) -> Self {
        let own = ["started_at", "status"].iter().filter_map(|role| renamed.remove_entry(*role)).collect();
        Self { own, renamed, now_us }
    }

    fn read(&self, batch: RecordBatch, trigger: &Trigger) -> Outcome<Read> {
        let input = Input::from(batch);
        // A misspelt name is an error: without the column all would be completed, or begin now.
        let find = |role| find_named(&input, role, Some(&self.own));
        let times = find("started_at")?.map(|(name, column)| self.times(name, &column)).transpose()?;
        let completed = find("status")?.map(|(name, column)| completed(name, &column)).transpose()?;
        let columns = Columns::find(&input, trigger.rules.kind, Some(&self.renamed))?;
        let times = times.unwrap_or_else(|| vec![self.now_us; input.rows]);
        Ok(Read { columns, times, completed })
    }

    fn times(&self, name: &str, column: &ArrayRef) -> Outcome<Vec<i64>> {
        let found = column.data_type();
        if !matches!(found, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64) {
            return Err(Failure::schema(format!("column {name:?} is {found}; needed is a timestamp")));
        }
        // A time that microseconds cannot hold would become null, and so the time of the load.
        let exact = CastOptions { safe: false, ..CastOptions::default() };
        let micros = cast_with_options(column, &DataType::Timestamp(TimeUnit::Microsecond, None), &exact)
            .map_err(|_| Failure::schema(format!("column {name:?} holds a time of no such year; {KEPT}")))?;
        let micros = micros.as_primitive::<TimestampMicrosecondType>();
        let times: Vec<i64> = micros.iter().map(|time| time.unwrap_or(self.now_us)).collect();
        match times.iter().position(|time| !KEPT_US.contains(time)) {
            None => Ok(times),
            Some(row) => {
                let time = format_us(times[row]);
                Err(Failure::schema(format!("column {name:?} is {time} in row {row} of a batch; {KEPT}")))
            }
        }
    }
}

fn completed(name: &str, column: &ArrayRef) -> Outcome<BooleanArray> {
    let texts = cast(column, &DataType::Utf8)
        .map_err(|_| Failure::schema(format!("column {name:?} is {}; needed is utf8", column.data_type())))?;
    let texts = texts.as_string::<i32>();
    let flag = |row: usize| match texts.is_valid(row).then(|| texts.value(row)) {
        None | Some("completed") => Ok(Some(true)),
        Some("processing") => Ok(Some(false)),
        Some(other) => {
            let text = format!("column {name:?} holds {other:?} in row {row}; needed is completed or processing");
            Err(Failure::schema(text))
        }
    };
    (0..texts.len()).map(flag).collect()
}
