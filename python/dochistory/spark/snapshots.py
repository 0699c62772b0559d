"""Read-only histories in Spark's Python workers, opened once per worker and snapshot.

A worker lives through many tasks and jobs and is never told that it ends, so what it keeps must hold no lock. A pinned
snapshot is immutable, so a handle that was opened for it once is right for as long as the worker lives.
"""

import os
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dochistory as dh

if TYPE_CHECKING:
    from dochistory import History, Trigger

_MOST_OPEN = 8

_open: "OrderedDict[tuple[int, Snapshot], History]" = OrderedDict()


@dataclass(frozen=True)
class Snapshot:
    """One state of a trigger's history, to be read by any process that sees its directory."""

    path: str
    token: str

    @classmethod
    def of(cls, history: "History | str | os.PathLike[str]", trigger: "Trigger") -> "Snapshot":
        """Pin what the history holds of this trigger now."""
        if isinstance(history, str | os.PathLike):
            # Not read-only: pinning seals the log, so that workers read files that no longer change.
            with dh.open(history) as opened:
                return cls.of(opened, trigger)
        return cls(str(Path(history.path).absolute()), history.pin(trigger))

    def open(self) -> "History":
        """The handle of this process, which stays open for the tasks to come."""
        key = (os.getpid(), self)
        if key not in _open:
            _open[key] = dh.open(self.path, read_only=True, snapshot=self.token)
            while len(_open) > _MOST_OPEN:
                _open.popitem(last=False)[1].close()
        _open.move_to_end(key)
        return _open[key]
