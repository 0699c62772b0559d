"""Read-only histories in Spark's Python workers, opened once per worker and snapshot.

A worker lives through many tasks and jobs and is never told that it ends, so what it keeps must hold no lock. A pinned
snapshot is immutable, so a handle that was opened for it once is right for as long as the worker lives.
"""

import os
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dochistory as dh

if TYPE_CHECKING:
    from dochistory import History, Trigger

_MOST_OPEN = 8

# Well below the age at which upkeep takes forgotten pins away.
_PIN_AGE_SECONDS = 24 * 3600.0

_open: "OrderedDict[tuple[int, Snapshot], History]" = OrderedDict()

# Which state of a history was pinned, as what, when. Nobody can tell when a plan is dead, so a state is pinned once.
_pinned: "dict[tuple[str, str], tuple[int, Snapshot, float]]" = {}


@dataclass(frozen=True)
class Snapshot:
    """One state of a trigger's history, to be read by any process that sees its directory."""

    path: str
    token: str

    @classmethod
    def of(cls, history: "History | str | os.PathLike[str]", trigger: "Trigger | str") -> "Snapshot":
        """Pin what the history holds of this trigger now."""
        if isinstance(history, str | os.PathLike):
            # Not read-only: pinning seals the log, so that workers read files that no longer change.
            with dh.open(history) as opened:
                return cls.of(opened, trigger)
        path = str(Path(history.path).absolute())
        name = trigger if isinstance(trigger, str) else trigger.name
        known = _pinned.get((path, name))
        stats = history.stats(trigger)
        is_current = known is not None and stats["log_entries"] == 0 and stats["manifest"] == known[0]
        if known is not None and is_current and time.monotonic() - known[2] < _PIN_AGE_SECONDS:
            return known[1]
        snapshot = cls(path, history.pin(trigger))
        _pinned[path, name] = (history.stats(trigger)["manifest"], snapshot, time.monotonic())
        return snapshot

    def open(self) -> "History":
        """The handle of this process, which stays open for the tasks to come."""
        key = (os.getpid(), self)
        if key not in _open:
            _open[key] = dh.open(self.path, read_only=True, snapshot=self.token)
            while len(_open) > _MOST_OPEN:
                _open.popitem(last=False)[1].close()
        _open.move_to_end(key)
        return _open[key]
