"""Verdicts of single documents, counted in memory and written a moment later together."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

_AFTER = 0.25
"""Seconds after the first count all are written; a killed process loses those."""

_LISTED = 100
"""The maximum number of documents that are listed each time."""

Counted = tuple[str | None, str, str, int]


class Tally:
    """Counts of verdicts, and a list of those that are not NEW.

    Args:
        write: called with both, never by two threads at once.
    """

    def __init__(self, write: Callable[[Sequence[Counted], Sequence[Any]], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._counts: dict[tuple[str | None, str, str], int] = {}
        self._listed: list[Any] = []
        self.lists = True
        """Whether few documents are listed yet."""
        self._timer: threading.Timer | None = None

    def add(self, kind: tuple[str | None, str, str], count: int = 1) -> None:
        """Count documents of this status, action and rule."""
        with self._lock:
            self._counts[kind] = self._counts.get(kind, 0) + count
            if self._timer is not None:
                return
            self._timer = threading.Timer(_AFTER, self.flush)
            self._timer.daemon = True
            self._timer.start()

    def note(self, row: Sequence[Any]) -> None:
        """List a document that was counted."""
        with self._lock:
            self._listed.append(row)
            self.lists = len(self._listed) < _LISTED

    def flush(self) -> None:
        """Write what was counted."""
        with self._writing:
            with self._lock:
                counts, self._counts = self._counts, {}
                listed, self._listed = self._listed, []
                self.lists = True
                timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()
            if counts or listed:
                self._write([(*kind, count) for kind, count in counts.items()], listed)
