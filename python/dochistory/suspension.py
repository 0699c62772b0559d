"""Suspension: a trigger that waits while its history or its resolver is down.

```python
suspension = dh.Suspension("orders.history", trigger)
while True:
    suspension.wait()                            # returns at once unless the trigger is suspended
    claim = history.begin(broker.receive(), trigger)
    suspension.note(claim.verdicts)              # rows whose action is SUSPEND suspend the trigger
```

The rules decide when (R5, S4): rows whose action is SUSPEND are not acknowledged, so the broker
keeps them. From then on nothing is begun. After `poll_every` (60 s) the suspension polls: it checks
whether the history can be read, or, if the resolver failed, allows one batch. Each failure
multiplies the wait by `backoff`, up to `longest`. A success resumes the trigger; `resume` does so
by hand, from any process of the machine.

The state is a file in a directory of the machine (`state_directory`), not of the history, because
the history may be unavailable. It survives restarts, and all processes of the machine use it;
consumers on other machines detect the failure themselves.
"""

import datetime as dt
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

import dochistory as dh
from dochistory import _checks, _columns, _durations, _suspended
from dochistory._durations import state_directory
from dochistory._forks import PerProcess
from dochistory._place import Place
from dochistory._suspended import LOGGER, Cause, State, Status
from dochistory.errors import SuspendedError

__all__ = ["LOGGER", "Status", "SuspendedError", "Suspension", "state_directory", "suspended"]

_SLICE = 0.5


class Suspension:
    """Whether a trigger is suspended, and until when. Thread-safe.

    Args:
        history: the history, its directory, or the URL of its bucket.
        trigger: the trigger.
        poll_every: how long to wait before the first poll: text, a timedelta, or seconds.
        backoff: the factor by which the wait grows with each failed poll; 1 for no growth.
        longest: the longest wait.
        state: the directory for the state; that of the machine, if absent.
        on_change: called with the new status (None: resumed) whenever it changes here. What it
            raises is logged.
        now: the clock; the system's, if absent.
        storage_options: of a bucket, as in `open`: polls read the history.
        cache: of a bucket, as in `open`.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense.
    """

    def __init__(
        self,
        history: dh.History | str | os.PathLike[str],
        trigger: dh.Trigger,
        *,
        poll_every: str | dt.timedelta | float = "60 s",
        backoff: float = 2.0,
        longest: str | dt.timedelta | float = "5 minutes",
        state: str | os.PathLike[str] | None = None,
        on_change: Callable[[Status | None], object] | None = None,
        now: Callable[[], dt.datetime] = _durations.utc_now,
        storage_options: Mapping[str, Any] | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        _checks.trigger(trigger)
        if backoff < 1:
            raise dh.ConfigError(f"[DH-CONFIG] backoff is {backoff}; allowed is 1 or more")
        self._history = history if isinstance(history, dh.History) else None
        self._at = Place.of(history, storage_options, cache)
        self._trigger = trigger
        self._poll_every = _durations.seconds("poll_every", poll_every)
        self._longest = max(_durations.seconds("longest", longest), self._poll_every)
        self._backoff = backoff
        self._state = State(_file(_durations.state_at(state), self._at.name, trigger.name))
        self._on_change = on_change
        self._now = now
        self._locks = PerProcess(threading.RLock)
        self._resumed: tuple[dt.datetime, int] | None = None
        """When a poll of the history succeeded last, and after how many that failed; None once a batch was decided."""

    def __repr__(self) -> str:
        return f"<Suspension of trigger {self._trigger.name!r} with {self._at.name!r}>"

    @property
    def suspends(self) -> bool:
        """Whether a failure suspends the trigger at all: whether either of its two switches says so."""
        return self._trigger.suspend_and_retry_on_error or self._trigger.suspend_on_failure

    @property
    def status(self) -> Status | None:
        """The suspension, for all processes of the machine; None if the trigger is not suspended.

        Raises:
            CorruptError: [DH-CORRUPT] the file of the state is damaged.
        """
        return self._state.read()

    def check(self) -> None:
        """Returns if documents may be begun now; polls if that is due.

        Raises:
            SuspendedError: [DH-SUSPENDED] the trigger is suspended; the text says why, and when the
                next poll is.
        """
        with self._locks():
            status = self.status
            if status is None:
                return
            if status.next_poll is None or self._now() < status.next_poll:
                raise _error(status)
            if status.cause == "resolver":
                return  # only a batch can tell whether it answers again
            reason = self._unreachable()
            # That took its time: a person may have suspended or resumed the trigger meanwhile, and that stands.
            if reason is None:
                self._resumed = self._now(), status.polls
            now = self._change(status, None) if reason is None else self._again(status, reason)
            if now is not None:
                raise _error(now)

    def note(self, verdicts: Any) -> Status | None:
        """Note the verdicts of a batch: rows whose action is SUSPEND suspend the trigger; no verdict resumes it.

        Args:
            verdicts: what `classify` answered, or `claim.verdicts`.

        Returns:
            The suspension, if the batch led to one.
        """
        judged = _columns.verdicts_of(verdicts)
        rows = _columns.rows_where(judged["action"], "SUSPEND")
        with self._locks():
            if not len(rows):
                if judged.num_rows:
                    self.succeeded()
                return None
            first = judged.slice(rows[0].as_py(), 1).to_pylist()[0]
            cause: Cause = "history" if first["rule"] == "R5" else "resolver"
            return self._fail(cause, first["message"] or f"rule {first['rule']}")

    def failed(self, error: Exception, cause: Literal["history", "resolver"] = "history") -> SuspendedError:
        """Suspend the trigger, because its history or its resolver failed.

        Args:
            error: the failure.
            cause: what is down: the history or the resolver.

        Returns:
            SuspendedError: the exception to raise.
        """
        return _error(self._fail(cause, str(error).removeprefix("[DH-SUSPENDED] ")))

    def succeeded(self) -> None:
        """Resume the trigger, because a batch was decided. A suspension by hand is only resumed by hand."""
        self._resumed = None
        status = self.status
        if status is not None and status.cause != "person":
            self._change(status, None)

    def suspend(self, reason: str = "suspended by hand") -> Status:
        """Suspend the trigger by hand, until somebody calls `resume`.

        Args:
            reason: the reason to show.

        Returns:
            Status: the suspension.
        """
        by_hand = Status(self._at.name, self._trigger.name, "person", reason, self._now(), 0, None)
        while self._change(self.status, by_hand) != by_hand:
            pass  # others changed it between the two looks
        return by_hand

    def resume(self) -> None:
        """Resume the trigger, whatever the reason of the suspension; if it is not suspended, nothing changes.

        Raises:
            StorageError: [DH-IO] the file of the state cannot be removed.
        """
        while self._change(self.status, None) is not None:
            pass  # as above

    def wait(self, timeout: str | dt.timedelta | float | None = None, *, stop: threading.Event | None = None) -> bool:
        """Wait until documents may be begun, polling. A resumption by hand is noticed within half a second.

        Args:
            timeout: how long at most; without a limit, if absent.
            stop: an event that ends the wait.

        Returns:
            Whether documents may be begun now.
        """
        end = None if timeout is None else time.monotonic() + _durations.seconds("timeout", timeout)
        stop = stop or threading.Event()
        while True:
            try:
                self.check()
            except (SuspendedError, dh.DescriptorsError) as error:
                left = _SLICE if end is None else min(_SLICE, end - time.monotonic())
                # Without a descriptor nobody knows whether it is suspended, which passes.
                status = error.status if isinstance(error, SuspendedError) else None
                due = status.next_poll if status else None
                if due is not None:
                    left = min(left, max((due - self._now()).total_seconds(), 0.001))
                if stop.is_set() or left <= 0 or stop.wait(left):
                    return False
            else:
                return True

    def _fail(self, cause: Cause, reason: str) -> Status:
        while True:
            status = self.status
            if status is None:
                polls = self._polls_before()
                found = self._change(
                    None,
                    Status(self._at.name, self._trigger.name, cause, reason, self._now(), polls, self._due(polls)),
                )
            elif status.next_poll is None or self._now() < status.next_poll:
                return status  # a batch that was begun before
            else:
                found = self._again(status, reason, cause)
            if found is not None:
                return found

    def _again(self, status: Status, reason: str, cause: Cause | None = None) -> Status | None:
        """The same suspension after one more failed poll."""
        polls = status.polls + 1
        again = replace(status, cause=cause or status.cause, polls=polls, reason=reason, next_poll=self._due(polls))
        return self._change(status, again)

    def _due(self, polls: int) -> dt.datetime:
        """When the poll is due after this number of failed ones."""
        wait = min(self._poll_every * self._backoff ** min(polls, 64), self._longest)
        return self._now() + dt.timedelta(seconds=wait)

    def _polls_before(self) -> int:
        """Failed polls that count for a new suspension.

        A poll of a bucket fetches nothing of the trigger, so it may succeed where the trigger is
        damaged. If the next batch fails, that poll counts as one that failed.
        """
        if self._resumed is None:
            return 0
        at, polls = self._resumed
        return polls + 1 if (self._now() - at).total_seconds() <= self._longest else 0

    def _change(self, seen: Status | None, new: Status | None) -> Status | None:
        """As `State.swap`; a change is told. Answers the status from now on."""
        found, is_changed = self._state.swap(seen, new)
        if not is_changed:
            return found
        log = logging.getLogger(LOGGER)
        if new is not None:
            log.warning("%s", _sentence(new), extra={"dochistory": asdict(new)})
        elif seen is not None:
            log.info("%s: resumed after %s", self._trigger.name, self._now() - seen.since)
        if self._on_change is not None:
            try:
                self._on_change(new)
            except Exception:  # what was begun must not fail because somebody was to be told
                log.exception("%s: on_change failed", self._trigger.name)
        return new

    def _unreachable(self) -> str | None:
        """Why the history cannot be read; None if it can."""
        probe = dh.Trigger(self._trigger.name, detect_duplicates=True, use_history=True)
        nothing = pa.table({"uuid": ["dochistory.poll"]})
        try:
            if self._history is not None and not self._history.closed:
                verdicts = self._history.classify(nothing, probe)
            elif self._at.directory is None:
                # Nothing is fetched of the trigger: its files may be large.
                with self._at.open(read_only=True) as history:
                    history.triggers()
                return None
            else:
                with self._at.open() as history:
                    verdicts = history.classify(nothing, probe)
        except dh.OpenError as error:
            hint = "if there never was one, resume the trigger by hand (dochistory suspension resume): one is made then"
            return f"{error}; {hint}"
        except dh.StorageError as error:
            return str(error)
        first = verdicts.to_pylist()[0]
        return str(first["message"]) if first["action"] == "SUSPEND" else None


def suspended(
    history: dh.History | str | os.PathLike[str] | None = None, *, state: str | os.PathLike[str] | None = None
) -> list[Status]:
    """The triggers that are suspended on this machine, the longest suspended first.

    Args:
        history: only those of this history, or of the one in this directory or at this URL.
        state: the directory for the state; that of the machine, if absent.

    Returns:
        list of Status: each suspension.
    """
    found = [_suspended.read(path) for path in _durations.state_at(state).glob("suspended-*.json")]
    all_ = sorted((one for one in found if one is not None), key=lambda one: one.since)
    if history is None:
        return all_
    name = Place.of(history).name
    return [one for one in all_ if one.history == name]


def _file(directory: Path, history: str, trigger: str) -> Path:
    return directory / f"suspended-{_durations.file_name(history, trigger)}.json"


def _sentence(status: Status) -> str:
    due = f"it is tried again at {status.next_poll:%Y-%m-%d %H:%M:%S} UTC" if status.next_poll else "resume it by hand"
    return (
        f"trigger {status.trigger} is suspended since {status.since:%Y-%m-%d %H:%M:%S} UTC "
        f"({status.cause}: {status.reason}); {due}"
    )


def _error(status: Status) -> SuspendedError:
    return SuspendedError(f"[DH-SUSPENDED] {_sentence(status)}", status)
