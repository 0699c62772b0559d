"""The sweeper: purges a history every ten minutes.

```python
with dh.Sweeper(history):  # a thread, until the block is left
    consume(history)

sweeper = dh.Sweeper("orders.history")
sweeper.sweep_if_due()  # in a stream: a call with each batch, which rarely does anything
```

What services returned (`Consumer.once(result=…)`) goes with the entries of its trigger.

`dochistory sweep` is the same as a program, and `dochistory purge` for cron. A purge by hand only
removes expired entries, and does not move the sweeper's next run. The file `sweeper.json` has the
time of the next run, and the longest run of a service that the sweeper saw. It is in the history's
directory. For a bucket it is in a directory of this machine (`suspension.state_directory`), and
tells of this machine's sweepers.
"""

import datetime as dt
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import dochistory as dh
from dochistory import _checks, _durations, _files, _results
from dochistory._damage import is_damage, mappers_ever_used, triggers_ever_used
from dochistory._place import Place

__all__ = ["LOGGER", "Sweeper", "next_purge", "warnings_about"]

LOGGER = "dochistory.sweeper"
"""The name of the logger that is told of purges (INFO), lives that are too short (WARNING) and failures (ERROR)."""

_FILE = "sweeper.json"
_LONGEST = dt.timedelta.max.total_seconds()


class Sweeper:
    """Purges a history repeatedly. Safe with threads and forks: a forked process has none until it starts one.

    Args:
        history: the history, its directory, or its URL. A directory is opened for each purge, a
            bucket once; after each purge, what nothing needs any more is deleted there.
        triggers: the expected settings of triggers; a trigger that the history stores with another
            time to live is not purged, and a warning is logged.
        every: how long from one run to the next: text, a timedelta, or seconds.
        retry_window: for how long the broker may deliver a document again; a shorter time to live
            causes a warning.
        on_sweep: called after each run with the result of `History.purge`.
        now: the clock; the system's, if absent.
        storage_options: of a bucket, as in `dochistory.open`.
        cache: of a bucket, as in `dochistory.open`.
        state: of a bucket, the directory of the state; that of the machine, if absent.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense, or `state` is given for a directory.
    """

    def __init__(
        self,
        history: dh.History | str | os.PathLike[str],
        triggers: Iterable[dh.Trigger] = (),
        *,
        every: str | dt.timedelta | float = "10 minutes",
        retry_window: str | dt.timedelta | float | None = None,
        on_sweep: Callable[[dict[str, Any]], object] | None = None,
        now: Callable[[], dt.datetime] = _durations.utc_now,
        storage_options: Mapping[str, Any] | None = None,
        cache: str | os.PathLike[str] | None = None,
        state: str | os.PathLike[str] | None = None,
    ) -> None:
        self._history = history if isinstance(history, dh.History) else None
        self._at = Place.of(history, storage_options, cache)
        self._opened: tuple[int, dh.History] | None = None  # of a URL, and by which process
        self.path = self._at.directory
        self._figures = self._at.figures(state)
        self._triggers = {trigger.name: trigger for trigger in _checks.triggers(triggers)}
        self._every = dt.timedelta(seconds=_durations.seconds("every", every, least=0.001))
        self._window = None if retry_window is None else _durations.seconds("retry_window", retry_window)
        self._on_sweep = on_sweep
        self._now = now
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._warned: set[str] = set()
        self._skipped: dict[str, str] = {}
        self._next = now() + self._every

    @property
    def next_run(self) -> dt.datetime:
        """When the next purge is due."""
        return self._next

    @property
    def skipped(self) -> dict[str, str]:
        """The triggers that the last run did not purge, and why: other settings, damage, or the lock of another one."""
        return dict(self._skipped)

    @property
    def is_running(self) -> bool:
        """Whether its thread runs in this process."""
        return self._process == os.getpid() and self._thread is not None and self._thread.is_alive()

    def sweep(self) -> dict[str, Any]:
        """Purge now, as one of the sweeper's own runs: the next is due after `every`.

        Returns:
            For each trigger the result of `History.purge`: `entries`, `bytes`, `segments`. A
            trigger that another process holds locked is left for the next run, and so is one that
            is damaged: `skipped` says so.

        Raises:
            OpenError: [DH-OPEN] the history does not exist.
            StorageError: [DH-IO] the operating system refused.
        """
        log = logging.getLogger(LOGGER)
        self._next = self._now() + self._every
        purged: dict[str, Any] = {}
        if self._history is not None:
            purged = self._swept(self._history, log)
        elif self.path is not None:
            with dh.open(self.path) as history:
                purged = self._swept(history, log)
        else:
            purged = self._swept_bucket(log)
        for name, gone in purged.items():
            if gone["entries"]:
                log.info("%s: purged %d entries, %d bytes", name, gone["entries"], gone["bytes"])
        if self._on_sweep is not None:
            self._on_sweep(purged)
        return purged

    def sweep_if_due(self) -> dict[str, Any] | None:
        """Purge if the next run is due: a call for each batch of a stream, which nearly always does nothing.

        Returns:
            As `sweep`; None if it is not due.
        """
        with self._lock:
            if self._now() < self._next:
                return None
            return self.sweep()

    def _swept_bucket(self, log: logging.Logger) -> dict[str, Any]:
        """Purge a bucket, which stays open: opening it fetches its triggers' files."""
        opener, history = self._opened or (0, None)
        if history is None or opener != os.getpid():
            history = self._at.open(auto_maintain=False)
            self._opened = os.getpid(), history
        try:
            return self._swept(history, log)
        except dh.DocHistoryError:
            self._let_go()
            raise

    def _swept(self, history: dh.History, log: logging.Logger) -> dict[str, Any]:
        purged: dict[str, Any] = {}
        figures: dict[str, Any] = {}
        self._skipped = {}
        there = triggers_ever_used(history)
        names = {*there, *self._triggers}
        for name in sorted(names):
            try:
                if name in there:
                    figures[name] = history.stats(name)
                if self._reconcile(history, name, log):
                    self._purge(history, name, log, purged)
                if self.path is None:
                    self._maintain(history, name, log)
            except dh.DocHistoryError as error:
                if not is_damage(error):
                    raise
                self._skipped[name] = str(error)
                log.error("%s: not purged: %s", name, error)  # noqa: TRY400 - as below
        self._sweep_results(history, names, log)
        runs = self._note(figures)
        for name, one in figures.items():
            lives = self._triggers[name].history_time_to_live if name in self._triggers else one["history_time_to_live"]
            for sentence in warnings_about(name, lives, runs.get(name), self._window):
                if sentence not in self._warned:
                    self._warned.add(sentence)
                    log.warning("%s", sentence)
        return purged

    def _purge(self, history: dh.History, name: str, log: logging.Logger, purged: dict[str, Any]) -> None:
        try:
            purged |= history.purge(self._triggers.get(name, name), now=self._now())
        except dh.LockedError as error:
            self._skipped[name] = str(error)
            log.warning("%s: left for the next run: %s", name, error)
        except dh.ConfigError as error:
            self._skipped[name] = str(error)
            log.error("%s: not purged: %s", name, error)  # noqa: TRY400 - a sentence, not a fault

    def _maintain(self, history: dh.History, name: str, log: logging.Logger) -> None:
        """Delete what a bucket's trigger does not need any more; where others write all the time, the next run does."""
        try:
            history.maintain(name)
        except dh.LockedError as error:
            log.warning("%s: its files are left for the next run: %s", name, error)

    def _reconcile(self, history: dh.History, name: str, log: logging.Logger) -> bool:
        """Settle documents in doubt that were completed after all; answers whether the trigger may be purged.

        A purge takes what shows that they were. Without that, somebody resubmits what is done.
        """
        if self.path is not None and not (self.path / "audit").is_dir():
            return True
        try:
            settled = history.audit.reconcile(name, now=self._now())
        except dh.DocHistoryError as error:
            self._skipped[name] = str(error)
            log.warning("%s: left for the next run, with its documents in doubt: %s", name, error)
            return False
        if settled:
            log.info("%s: settled %d documents in doubt that were completed", name, len(settled))
        return True

    def _sweep_results(self, history: dh.History, names: Iterable[str], log: logging.Logger) -> None:
        """Purge what services returned: it is kept for their triggers' time to live."""
        kept = {*mappers_ever_used(history)}
        for channel in sorted({_results.channel_of(name) for name in names} & kept):
            try:
                gone = history.mapper(channel).purge(now=self._now())
            except dh.DocHistoryError as error:
                if not isinstance(error, dh.LockedError | dh.ConfigError) and not is_damage(error):
                    raise
                log.warning("%s: left for the next run: %s", channel, error)
                continue
            if gone["entries"]:
                log.info("%s: purged %d results, %d bytes", channel, gone["entries"], gone["bytes"])

    def start(self) -> Self:
        """Start the thread, a daemon; repeating this changes nothing."""
        with self._lock:
            if self.is_running:
                return self
            self._process, self._stop = os.getpid(), threading.Event()
            self._next = self._now() + self._every
            self._note_next()
            arguments = (self._stop,)
            self._thread = threading.Thread(target=self._run, args=arguments, name="dochistory sweeper", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the thread, and wait for a purge in progress; repeating this changes nothing."""
        if not self.is_running or self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        self._let_go()

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(max((self._next - self._now()).total_seconds(), 0.0)):
            try:
                self.sweep()
            except Exception:  # the next run may do better, and nobody is there to raise it to
                logging.getLogger(LOGGER).exception("the purge of %s failed; it is tried again", self._at.name)

    def run(self) -> None:
        """Purge at once, and from then on until `stop_running` is called or an interrupt comes.

        For a program that does nothing else.
        """
        self._process, self._stop = os.getpid(), threading.Event()
        self._next = self._now()
        self._note_next()
        try:
            self._run(self._stop)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Close what this opened."""
        (_, opened), self._opened = self._opened or (0, None), None
        if opened is not None:
            opened.close()

    def stop_running(self) -> None:
        """End `run`; may be called by a signal handler."""
        self._stop.set()

    def _note(self, figures: Mapping[str, Any]) -> dict[str, float]:
        """Store the longest runs, and when the next purge is due."""
        seen = {name: one["longest_run"] for name, one in figures.items()}
        runs = {name: run.total_seconds() for name, run in seen.items() if run is not None}
        try:
            for name, seconds in _runs(_read(self._figures)).items():
                runs[name] = max(runs.get(name, 0.0), seconds)
            due, every = self._next.isoformat(), self._every.total_seconds()
            _files.replace(self._figures / _FILE, {"next_run": due, "every_seconds": every, "longest_runs": runs})
        except dh.StorageError as error:
            log = logging.getLogger(LOGGER)
            log.warning("when %s is purged next is not written down: %s", self._at.name, error)
        return runs

    def _note_next(self) -> None:
        # A directory that is away is not made.
        if self.path is None or self.path.is_dir():
            self._note({})

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Sweeper of {self._at.name!r}, every {self._every}, next at {self._next:%Y-%m-%d %H:%M:%S}>"


def warnings_about(
    name: str,
    time_to_live: dt.timedelta | None,
    longest_run_seconds: float | None,
    retry_window_seconds: float | None = None,
) -> list[str]:
    """Warnings about a trigger's time to live.

    Args:
        name: the trigger's name.
        time_to_live: the time to live in use.
        longest_run_seconds: the longest run of a service that was seen.
        retry_window_seconds: for how long the broker may deliver again.

    Returns:
        list of str: a sentence each; empty if there is no warning.
    """
    if not time_to_live:
        return []
    lives, found = time_to_live.total_seconds(), []
    if longest_run_seconds is not None and longest_run_seconds >= lives:
        found.append(
            f"{name}: a service ran for {dt.timedelta(seconds=round(longest_run_seconds))}, but an entry lives for "
            f"{time_to_live} only: a purge in between takes the protection away; give it a longer history_time_to_live"
        )
    if retry_window_seconds is not None and retry_window_seconds >= lives:
        found.append(
            f"{name}: the broker may deliver again for {dt.timedelta(seconds=round(retry_window_seconds))}, but an "
            f"entry lives for {time_to_live} only: later redeliveries are NEW; give it a longer history_time_to_live"
        )
    return found


def next_purge(
    history: dh.History | str | os.PathLike[str], *, state: str | os.PathLike[str] | None = None
) -> dt.datetime | None:
    """When the next purge of a history is due, according to its sweeper; for a bucket, to one of this machine.

    Args:
        history: the history, its directory, or the URL of its bucket.
        state: of a bucket, the directory of the state; that of the machine, if absent.

    Returns:
        datetime in UTC; None if it has no sweeper.

    Raises:
        ConfigError: [DH-CONFIG] `state` is given for a directory.
    """
    try:
        said = dt.datetime.fromisoformat(_read(Place.of(history).figures(state))["next_run"])
    except (KeyError, TypeError, ValueError):
        return None
    return said if said.tzinfo else None


def longest_runs(
    history: dh.History | str | os.PathLike[str], *, state: str | os.PathLike[str] | None = None
) -> dict[str, float]:
    """The longest run of a service that sweepers saw, by trigger, in seconds; for a bucket, those of this machine.

    Args:
        history: the history, its directory, or the URL of its bucket.
        state: of a bucket, the directory of the state; that of the machine, if absent.

    Returns:
        dict: trigger -> seconds.

    Raises:
        ConfigError: [DH-CONFIG] `state` is given for a directory.
    """
    return _runs(_read(Place.of(history).figures(state)))


def _runs(said: Mapping[str, Any]) -> dict[str, float]:
    found = said.get("longest_runs")
    runs = found.items() if isinstance(found, dict) else ()
    return {name: float(one) for name, one in runs if isinstance(one, int | float) and 0 <= one <= _LONGEST}


def _read(directory: Path) -> dict[str, Any]:
    try:
        return _files.content_of(directory / _FILE) or {}
    except dh.CorruptError:
        return {}  # a figure, which the next run writes again
