//! Maintaining a history: its content, expired entries, and the check of its files.

use dochistory_core::history::values::Room;
use dochistory_core::key::format_uuid;
use dochistory_core::{Pin, Purge};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments;
use crate::clock;
use crate::errors::{Failure, Outcome};
use crate::history::History;
use crate::jobs::{self, TriggerOrName};
use crate::mapper::value_statistics;
use crate::trigger::{self, Trigger};

#[pymethods]
impl History {
    /// The names of the triggers that have entries, or had some.
    ///
    /// Returns:
    ///     list of str: the names, sorted.
    ///
    /// Raises:
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn triggers(&self, py: Python<'_>) -> Outcome<Vec<String>> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        Ok(crate::calls::outside(py, || history.triggers())?)
    }

    /// Drop what expired: entries whose service began a time to live ago, or longer. Drops whole
    /// files.
    ///
    /// Args:
    ///     trigger: the trigger, or its name; every trigger, if absent. The time to live that the
    ///         history keeps counts.
    ///     now: the time that counts as now, a datetime with a time zone; the clock's, if absent.
    ///     dry_run: only say what would go.
    ///     force: purge even if `now` is more than a day ahead of this machine's clock and every
    ///         entry of a trigger goes.
    ///
    /// Returns:
    ///     For each trigger: `entries` (`log_entries` of them in the log), `bytes` and `segments`
    ///     (files) that went.
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] the history has no trigger of that name, the trigger's settings
    ///         are not those that the history keeps, or `now` is doubtful (see `force`).
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    #[pyo3(signature = (trigger = None, now = None, dry_run = false, *, force = false))]
    fn purge<'py>(
        &self,
        py: Python<'py>,
        trigger: Option<TriggerOrName<'py>>,
        now: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = arguments::dry_run)] dry_run: bool,
        #[pyo3(from_py_with = arguments::force)] force: bool,
    ) -> Outcome<Bound<'py, PyDict>> {
        let clock_us = (!force).then(dochistory_core::time::now_us);
        let purge = Purge { now_us: clock::now_us(now)?, dry_run, clock_us };
        jobs::purge(py, &*self.handle.get()?, trigger.as_ref(), purge)
    }

    /// Change a trigger's time to live. Its next purge goes by the new one; opening the trigger
    /// with the old one raises `ConfigError`. What is begun can be ended all the same. The kind
    /// of a trigger never changes.
    ///
    /// Args:
    ///     trigger: the trigger, with the time to live that is to be kept from now on.
    ///
    /// Returns:
    ///     The time to live before, as a timedelta.
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] the history has no such trigger, or one of another kind.
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    fn change<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = trigger::argument)] trigger: Bound<'py, Trigger>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let rules = &trigger.get().rules;
        let before_us = crate::calls::outside(py, || history.change(rules))?;
        Ok(clock::timedelta(py, before_us)?)
    }

    /// Put small files together and roll filters up. `begin` does it by itself when it pays, unless
    /// told otherwise.
    ///
    /// Args:
    ///     trigger: the trigger, or its name; every trigger, mapper and stream of guaranteed
    ///         delivery, if absent.
    ///     all: go as far as it goes, rather than as far as it pays; wait for maintenance that runs
    ///         already. Without it, nothing is done where some is under way.
    ///     progress: called with (entries done, entries in all) from time to time; what it raises
    ///         stops the work, which does no harm.
    ///     grace: in a bucket, how long objects stay that no state needs any more, because others
    ///         may be reading them; 15 minutes, if absent.
    ///
    /// Returns:
    ///     For each trigger, by its name: `merged` (files before, files after), `rewritten` and
    ///     `rolled_up` (entries). Mappers are called `mapper:` and their channel; guaranteed
    ///     delivery `delivery:received` and `delivery:sent`.
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] the history has no trigger of that name.
    ///     LockedError: [DH-LOCKED] another writer held it for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    ///     FailedError: [DH-FAILED] an earlier write failed.
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    #[pyo3(signature = (trigger = None, *, all = false, progress = None, grace = None))]
    fn maintain<'py>(
        &self,
        py: Python<'py>,
        trigger: Option<TriggerOrName<'py>>,
        #[pyo3(from_py_with = arguments::all)] all: bool,
        progress: Option<&Bound<'py, PyAny>>,
        grace: Option<&Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyDict>> {
        let history = self.handle.get()?;
        let names = jobs::names(py, &history, trigger.as_ref())?;
        let maintained = jobs::maintain(py, &history, names.clone(), all, progress)?;
        if trigger.is_none() {
            jobs::maintain_values(py, &history, all, progress, &maintained)?;
        }
        if let Some(grace) = grace {
            let grace = jobs::grace(grace)?;
            crate::calls::outside(py, || {
                names.iter().try_for_each(|name| history.collect_objects(name, grace).map(drop))
            })?;
            if trigger.is_none() {
                jobs::collect_values(py, &history, grace)?;
            }
        }
        Ok(maintained)
    }

    /// Check every byte of the history's files, those of mappers, of guaranteed delivery and of the
    /// audit log among them.
    ///
    /// Args:
    ///     trigger: the trigger, or its name; everything, if absent.
    ///     progress: called with (bytes done, bytes in all) of a trigger from time to time; what it
    ///         raises stops the check.
    ///
    /// Returns:
    ///     The number of bytes checked.
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] the history has no trigger of that name.
    ///     CorruptError: [DH-CORRUPT] a file is damaged; the text names it and the place.
    #[pyo3(signature = (trigger = None, *, progress = None))]
    fn verify(
        this: &Bound<'_, Self>,
        trigger: Option<TriggerOrName<'_>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<u64> {
        let (py, history) = (this.py(), this.get().handle.get()?);
        let of_triggers = jobs::verify(py, &history, &jobs::names(py, &history, trigger.as_ref())?, progress)?;
        if trigger.is_some() {
            return Ok(of_triggers);
        }
        let of_values = jobs::verify_values(py, &history, progress)?;
        // Python's part is loaded only where there is a log, or was one.
        let has_log = this.get().handle.client().is_some()
            || ["audit", "known/audit"].iter().any(|name| history.path().join(name).exists());
        let of_audit: u64 = if has_log { this.getattr("audit")?.call_method0("verify")?.extract()? } else { 0 };
        Ok(of_triggers + of_values + of_audit)
    }

    /// Figures of the history.
    ///
    /// Args:
    ///     trigger: the trigger, or its name, whose figures alone are wanted.
    ///
    /// Returns:
    ///     Of the history: `path`, `id`, `created_at`, `shards`, `triggers`, and `mappers` and
    ///     `delivery` (name -> figures; of the last two see `MessageIdMapper.stats`). Of a trigger:
    ///     entries (`segment_entries`, `log_entries`, `open_entries`), bytes (`segment_bytes`,
    ///     `log_bytes`, `filter_bytes`), files (`segments`, `segments_uncovered`, `filters`), what
    ///     this handle was asked since it was opened (rows `looked_up`, and `filter_positives`: how
    ///     often a filter let one of them through to an exact look-up; `begun_without_id`:
    ///     documents that `begin` found to have no id), `manifest` (number of the newest),
    ///     `oldest_started_at`, `purged_upto`, `partition`, `history_time_to_live`, `transactions`
    ///     (application -> last batch, whether it ended), `longest_run` (timedelta from `begin` to
    ///     the end of a claim, the longest that this handle saw; None before the first), and
    ///     `partitions` (a list, oldest first, of what lies in segments: `start`, `entries`,
    ///     `bytes`, `segments`).
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] the history has no trigger of that name; one that is about to
    ///         begin is given as a `Trigger`, and has no entries.
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    #[pyo3(signature = (trigger = None))]
    fn stats<'py>(&self, py: Python<'py>, trigger: Option<TriggerOrName<'py>>) -> Outcome<Bound<'py, PyDict>> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let of_trigger = |name: &str| {
            let found = crate::calls::outside(py, || history.statistics(name))?;
            let figures = jobs::statistics(py, found)?;
            figures.set_item("begun_without_id", self.handle.without_id(name))?;
            Ok::<_, Failure>(figures)
        };
        if let Some(trigger) = trigger {
            jobs::check_known(py, &history, &trigger)?;
            return of_trigger(trigger.name());
        }
        let triggers = PyDict::new(py);
        for name in crate::calls::outside(py, || history.triggers())? {
            triggers.set_item(&name, of_trigger(&name)?)?;
        }
        let figures = PyDict::new(py);
        match self.handle.check_directory() {
            Ok(()) => figures.set_item("path", history.path())?,
            // A path would lose one of the URL's slashes.
            Err(_) => figures.set_item("path", self.handle.path.to_string_lossy())?,
        }
        figures.set_item("id", String::from_utf8_lossy(&format_uuid(history.id())).as_ref())?;
        figures.set_item("created_at", clock::datetime(py, history.created_at())?)?;
        figures.set_item("shards", history.shards())?;
        figures.set_item("triggers", triggers)?;
        for (name, room) in [("mappers", Room::Mapper), ("delivery", Room::Delivery)] {
            let spaces = PyDict::new(py);
            for space in crate::calls::outside(py, || history.value_spaces(room))? {
                let found = crate::calls::outside(py, || history.values(room, &space)?.statistics())?;
                spaces.set_item(&space, value_statistics(py, found)?)?;
            }
            figures.set_item(name, spaces)?;
        }
        Ok(figures)
    }

    /// Pin the present state of a trigger. A history that is opened with `snapshot=` and the text
    /// that this answers sees this state, in any process, until `unpin`. Maintenance releases
    /// forgotten pins go after a week, or when their lease is over.
    ///
    /// Args:
    ///     trigger: the trigger, or its name. The snapshot speaks of no other.
    ///     lease: how long it is needed at most, a duration; a week, if absent, which is the
    ///         longest.
    ///
    /// Returns:
    ///     str: the name of the snapshot.
    ///
    /// Raises:
    ///     LockedError: [DH-LOCKED] another writer held the trigger for longer than `lock_timeout`.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    #[pyo3(signature = (trigger, *, lease = None))]
    fn pin(&self, py: Python<'_>, trigger: TriggerOrName<'_>, lease: Option<&Bound<'_, PyAny>>) -> Outcome<String> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let name = trigger.name();
        let lease_us = lease.map(|lease| clock::duration_us("lease", lease)).transpose()?;
        Ok(crate::calls::outside(py, || history.pin_for(name, lease_us))?)
    }

    /// The states of a trigger that are pinned, oldest first. Each keeps its files from being
    /// purged or merged away.
    ///
    /// Args:
    ///     trigger: the trigger, or its name.
    ///
    /// Returns:
    ///     Of each a dict: `snapshot` (what `unpin` takes), `pinned_at` and `ends_at` (datetime),
    ///     `process` (int), `manifest` (int).
    ///
    /// Raises:
    ///     ConfigError: [DH-CONFIG] the history has no trigger of this name.
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn pins<'py>(&self, py: Python<'py>, trigger: TriggerOrName<'_>) -> Outcome<Vec<Bound<'py, PyDict>>> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let name = trigger.name();
        let pins = crate::calls::outside(py, || history.pins(name))?;
        if pins.is_empty() {
            jobs::check_known(py, &history, &trigger)?;
        }
        let described = |pin: Pin| -> PyResult<Bound<'py, PyDict>> {
            let one = PyDict::new(py);
            one.set_item("snapshot", pin.name)?;
            one.set_item("pinned_at", clock::datetime(py, pin.pinned_at)?)?;
            one.set_item("ends_at", clock::datetime(py, pin.ends_at)?)?;
            one.set_item("process", pin.process)?;
            one.set_item("manifest", pin.manifest)?;
            Ok(one)
        };
        Ok(pins.into_iter().map(described).collect::<PyResult<_>>()?)
    }

    /// Let a pinned state go, so that a purge can remove its files. Again changes nothing.
    ///
    /// Args:
    ///     trigger: the trigger, or its name.
    ///     snapshot: what `pin` answered.
    ///
    /// Raises:
    ///     OpenError: [DH-OPEN] this is no snapshot of the trigger.
    ///     ReadOnlyError: [DH-READ-ONLY] the history was opened for reading.
    ///     StorageError: [DH-IO] the operating system refused a file operation.
    ///     CorruptError: [DH-CORRUPT] a file of the history is damaged.
    ///     StateError: [DH-STATE] the history is closed.
    ///     ForkedError: [DH-FORKED] it was opened before this process was forked off.
    fn unpin(
        &self,
        py: Python<'_>,
        trigger: TriggerOrName<'_>,
        #[pyo3(from_py_with = arguments::pinned)] snapshot: &str,
    ) -> Outcome<()> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let name = trigger.name();
        Ok(crate::calls::outside(py, || history.unpin(name, snapshot))?)
    }

    /// What a process that reads a pinned state in a bucket need not fetch then. Not public: Spark
    /// sends it to its workers.
    ///
    /// Args:
    ///     trigger: the trigger, or its name.
    ///     snapshot: what `pin` answered.
    ///
    /// Returns:
    ///     tuple of bytes, or None: the object `HISTORY` and the pin's object; None for a
    ///     directory, and where this handle did not pin that state last.
    fn _described<'py>(
        &self,
        py: Python<'py>,
        trigger: TriggerOrName<'_>,
        snapshot: &str,
    ) -> Outcome<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let _call = crate::calls::InCall::enter(py);
        let history = self.handle.get()?;
        let name = trigger.name();
        let found = crate::calls::outside(py, || history.described(name, snapshot))?;
        Ok(found.map(|found| (PyBytes::new(py, &found.identity), PyBytes::new(py, &found.pin))))
    }
}
