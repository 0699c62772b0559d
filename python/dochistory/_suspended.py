"""Where it is written that a trigger is suspended: a file of the machine, or this process's memory."""

import datetime as dt
import logging
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import dochistory as dh
from dochistory import _files, _native
from dochistory._forks import PerProcess

LOGGER = "dochistory.suspension"
"""The name of the logger that is told of each suspension (WARNING) and resumption (INFO)."""

Cause = Literal["history", "resolver", "person"]

_PATIENCE = 10.0
"""How long another process may hold the lock, in seconds: it writes one small file."""


@dataclass(frozen=True)
class Status:
    """A suspended trigger."""

    history: str
    """The directory of the history, or its URL."""
    trigger: str
    """The trigger's name."""
    cause: Cause
    """`history` (it cannot be reached), `resolver` (it failed for the moment), or `person` (suspended by hand)."""
    reason: str
    """What was said."""
    since: dt.datetime
    """When it was suspended."""
    polls: int
    """How often it was tried again since, without success."""
    next_poll: dt.datetime | None
    """When it is tried again; None if a person has to resume it."""


class State:
    """The status of one trigger, for all processes of the machine.

    Args:
        path: the file; if it cannot be written, the status is held in memory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = str(path)
        self._locks = PerProcess(threading.Lock)
        self._memory: Status | None = None

    def read(self) -> Status | None:
        """The status; None if the trigger is not suspended.

        Raises:
            CorruptError: [DH-CORRUPT] the file is damaged.
        """
        if not _native._is_there(self._place):  # noqa: SLF001 - asked for each document
            return self._memory
        try:
            return read(self.path) or self._memory
        except dh.StorageError:
            return self._memory

    def swap(self, seen: Status | None, new: Status | None) -> tuple[Status | None, bool]:
        """Replace a status by another one, if it still is what was seen: others change it, too.

        Args:
            seen: the status that led to the change.
            new: the status from now on; None if the trigger resumes.

        Returns:
            The status from now on, and whether it was changed here.

        Raises:
            StorageError: [DH-IO] the trigger resumes, and the file cannot be removed.
        """
        with self._locks():
            try:
                with _files.Lock(self.path.with_suffix(".lock"), _PATIENCE):
                    return self._swap(seen, new)
            except (dh.StorageError, dh.LockedError, dh.DescriptorsError):
                if new is None and _native._is_there(self._place):  # noqa: SLF001
                    raise
                return self._swap(seen, new)

    def _swap(self, seen: Status | None, new: Status | None) -> tuple[Status | None, bool]:
        found = self.read()
        if found != seen:
            return found, False
        if new is None:
            with _files.storage(self.path):
                self.path.unlink(missing_ok=True)
            self._memory = None
            return None, seen is not None
        try:
            _write(self.path, new)
            self._memory = None
        except (dh.StorageError, dh.DescriptorsError) as error:
            self._memory = new
            text = "%s: the suspension does not survive a restart: %s"
            logging.getLogger(LOGGER).warning(text, new.trigger, error)
        return new, True


def read(path: Path) -> Status | None:
    """What a file says; None if there is none.

    Raises:
        CorruptError: [DH-CORRUPT] it is damaged.
        StorageError: [DH-IO] the operating system refused.
    """
    found = _files.content_of(path)
    if found is None:
        return None
    try:
        due = found["next_poll"]
        times = {
            "since": dt.datetime.fromisoformat(found["since"]),
            "next_poll": None if due is None else dt.datetime.fromisoformat(due),
        }
        return Status(**{**found, **times})
    except (KeyError, TypeError, ValueError) as error:
        raise dh.CorruptError(f"[DH-CORRUPT] {path}: not a suspension: {error}") from error


def _write(path: Path, status: Status) -> None:
    due = status.next_poll.isoformat() if status.next_poll else None
    _files.replace(path, {**asdict(status), "since": status.since.isoformat(), "next_poll": due})
