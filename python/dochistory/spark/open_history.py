"""A history that stays open from one batch of a stream to the next.

Opening it for each batch would end its maintenance with each: closing waits a quarter of a second
for a merge, and then breaks it off, so that one that takes longer might never come to its end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dochistory as dh
from dochistory import _paths

if TYPE_CHECKING:
    from dochistory import History


class OpenHistory:
    """The history of a function for `foreachBatch`: opened by its first batch, and again after a batch that failed."""

    def __init__(self, history: "History | str | os.PathLike[str]") -> None:
        self._given = _paths.absolute(history)
        self._was_there = False
        self._opened: History | None = None
        self._as: tuple[int, int, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: not what is open."""
        return {**self.__dict__, "_opened": None, "_as": None}

    @contextmanager
    def open(self) -> Iterator["History"]:
        """The history, for one batch.

        Raises:
            OpenError: [DH-OPEN] it was there, and its directory is away or another one.
        """
        try:
            yield self._current()
        except BaseException:
            # A handle refuses to go on after a failed write. Whatever happened, the next batch begins with the files.
            self._opened = None
            raise

    def _current(self) -> "History":
        if not isinstance(self._given, str):
            return self._given
        if self._opened is None or self._place() != self._as:
            self._opened = None
            # Once it was there, it must not be created again, empty, where its disk is not mounted.
            self._opened = dh.open(self._given, create=not self._was_there)
            self._was_there = True
            self._as = self._place()
        return self._opened

    def _place(self) -> tuple[int, int, int] | None:
        """Which process works with which directory: what is open is of use to no other."""
        try:
            found = Path(str(self._given)).stat()
        except OSError:
            return None
        return os.getpid(), found.st_dev, found.st_ino
