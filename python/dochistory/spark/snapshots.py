"""Read-only histories in Spark's Python workers, opened once per worker and snapshot.

A worker lives through many tasks and jobs and is never told that it ends, so what it keeps must
hold no lock. A pinned snapshot is immutable, so a handle that was opened for it once is right for
as long as the worker lives.
"""

import atexit
import os
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import dochistory as dh
from dochistory.spark.place import Place
from dochistory.spark.same_bucket import BucketSight, Described
from dochistory.spark.same_directory import Sight

if TYPE_CHECKING:
    from dochistory import History, Trigger

_MOST_OPEN = 8

# Well below the age at which maintenance releases forgotten pins.
_PIN_AGE_SECONDS = 24 * 3600.0

_open: "OrderedDict[tuple[int, Snapshot], History]" = OrderedDict()

# Which state of a history was pinned, as what, when. Nobody can tell when a plan is dead, so a state is pinned once.
_pinned: "dict[tuple[Place, str], tuple[int, Snapshot, float]]" = {}

# What this process pinned for plans, which end with it at the latest.
_to_let_go: "list[tuple[int, Snapshot]]" = []


@dataclass(frozen=True)
class Snapshot:
    """One state of a trigger's history, to be read by any process that sees its directory, or reaches its bucket."""

    sight: Sight | BucketSight
    token: str
    described: Described | None = field(default=None, compare=False, repr=False)

    @classmethod
    def at(cls, place: Place, history: "History", trigger: str, token: str) -> "Snapshot":
        """What this process has just pinned."""
        return cls(place.sight(history, trigger), token, Described.of(history, trigger, token))

    @classmethod
    def of(
        cls, history: "History | str | os.PathLike[str] | Place", trigger: "Trigger | str", lease: str | None = None
    ) -> "Snapshot":
        """Pin what the history holds of this trigger now.

        Args:
            history: the history, its directory, or its place.
            trigger: the trigger, or its name.
            lease: how long the state is needed at most, for a process that will be gone before;
                else as long as this process lives, and a week at most.
        """
        place = Place.of(history)
        # Not read-only: pinning seals the log, so that workers read files that no longer change.
        with place.opened() as opened:
            return cls._of(opened, place, trigger, lease)

    @classmethod
    def _of(cls, history: "History", place: Place, trigger: "Trigger | str", lease: str | None) -> "Snapshot":
        name = trigger if isinstance(trigger, str) else trigger.name
        # How workers reach it is part of what they are sent.
        key = (place.closed(), name)
        known = _pinned.get(key) if lease is None else None
        if known is not None and _is_good(history, name, *known):
            return known[1]
        token = history.pin(trigger, lease=lease)
        snapshot = cls.at(place, history, name, token)
        if lease is None:
            _to_let_go.append((os.getpid(), snapshot))
            _pinned[key] = (history.stats(dh.Trigger(name))["manifest"], snapshot, time.monotonic())
        return snapshot

    def open(self) -> "History":
        """The handle of this process, which stays open for the tasks to come.

        Raises:
            ClusterError: [DH-CLUSTER] this process does not see the directory of the process that
                pinned it, or does not reach its bucket.
        """
        key = (os.getpid(), self)
        if key not in _open:
            _open[key] = self._opened()
            while len(_open) > _MOST_OPEN:
                _open.popitem(last=False)[1].close()
        _open.move_to_end(key)
        return _open[key]

    def _opened(self) -> "History":
        if isinstance(self.sight, BucketSight) and self.described is not None:
            return self.sight.read(self.token, self.described)
        return self.sight.open(read_only=True, snapshot=self.token)


def _is_good(history: "History", trigger: str, manifest: int, snapshot: Snapshot, pinned: float) -> bool:
    """Whether that pin is of the present state, and will be there for a while."""
    stats = history.stats(dh.Trigger(trigger))
    is_current = stats["log_entries"] == 0 and stats["manifest"] == manifest
    is_there = is_current and any(one["snapshot"] == snapshot.token for one in history.pins(trigger))
    return is_there and time.monotonic() - pinned < _PIN_AGE_SECONDS


@atexit.register
def let_go() -> None:
    """Let go what this process pinned: its plans end with it. Where that fails, maintenance does it after a week."""
    while _to_let_go:
        process, snapshot = _to_let_go.pop()
        if process != os.getpid():
            continue  # it was another's before a fork
        try:
            snapshot.sight.let_go(snapshot.token)
        except (dh.DocHistoryError, OSError):
            continue  # the history is gone, or away
    _pinned.clear()
