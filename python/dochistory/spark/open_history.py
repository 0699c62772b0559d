"""A history that stays open from one batch of a stream to the next.

Opening it for each batch would end its maintenance with each: closing waits a quarter of a second
for a merge, and then breaks it off, so that one that takes longer might never come to its end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dochistory.spark.place import Place

if TYPE_CHECKING:
    from dochistory import History


class OpenHistory:
    """The history of a function for `foreachBatch`: opened by its first batch, and again after a batch that failed."""

    def __init__(self, history: "History | str | os.PathLike[str] | Place", *, creates: bool = True) -> None:
        self._place = Place.of(history)
        self._was_there = not creates
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
        if self._place.history is not None:
            return self._place.history
        if self._opened is None or self._present() != self._as:
            self._opened = None
            # Once it was there, it must not be created again, empty, where its disk is not mounted.
            self._opened = self._place.open(create=not self._was_there)
            self._was_there = True
            self._as = self._present()
        return self._opened

    def close(self) -> None:
        """Close the history, if this opened it; the next batch opens it again."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @property
    def place(self) -> Place:
        """Where it is."""
        return self._place

    def _present(self) -> tuple[int, int, int] | None:
        """Which process works with which directory: what is open is of use to no other."""
        if self._place.is_bucket:
            return os.getpid(), 0, 0
        try:
            found = Path(self._place.path).stat()
        except OSError:
            return None
        return os.getpid(), found.st_dev, found.st_ino
