"""What calls of a consumer began that failed, and that nobody has seen."""

import datetime as dt
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

import dochistory as dh
from dochistory import _durations
from dochistory._forks import PerProcess
from dochistory._own_entries import release_own

Begun = tuple[Callable[[], Any], Mapping[str, str] | None, dt.datetime]
"""Documents that a call has begun, their columns, and when."""

_UNCLEAR = (dh.StorageError, dh.FailedError, dh.FencedError, dh.LockedError)
"""Failures of a begin after which documents may be in progress: of the audit log, or of a commit without an answer."""


class Unseen:
    """Documents that may be in progress, though the call that began them failed; they can be released later.

    Many threads may use it at once.

    Args:
        trigger: whose documents they are.
    """

    def __init__(self, trigger: dh.Trigger) -> None:
        self._trigger = trigger
        self._begun: deque[Begun] = deque()
        self._timing = PerProcess(threading.Lock)
        self._last = _durations.utc_now()

    def own_time(self) -> dt.datetime:
        """The time now, as no other call has it: by it what a call begins is known from what others begin."""
        with self._timing():
            now = _durations.utc_now()
            if dt.timedelta(0) <= self._last - now < dt.timedelta(seconds=1):  # else the clock was set back
                now = self._last + dt.timedelta(microseconds=1)
            self._last = now
            return now

    def note(self, begun: Begun, error: dh.DocHistoryError) -> None:
        """Remember what a call may have begun that failed with `error`."""
        if isinstance(error, _UNCLEAR):
            self._begun.append(begun)

    def release(self, ask: Callable[[Callable[[dh.History], None]], None]) -> None:
        """Release what is remembered; what fails is remembered further.

        Args:
            ask: calls with the open history.
        """
        while self._begun:
            try:
                begun = self._begun.pop()
            except IndexError:
                return  # another thread was first
            try:
                ask(partial(self._release, *begun))
            except BaseException:
                self._begun.append(begun)
                raise

    def _release(
        self,
        documents: Callable[[], Any],
        columns: Mapping[str, str] | None,
        started_at: dt.datetime,
        history: dh.History,
    ) -> None:
        plain = self._trigger.replace(resolver=None, without_ids="in_doubt")
        keys = pa.table(history.classify(documents(), plain, columns=columns))["key"]
        release_own(history, self._trigger, keys.drop_null().unique().to_pylist(), started_at)
