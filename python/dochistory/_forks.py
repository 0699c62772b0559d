"""What each process needs of its own: a forked child has neither its parent's threads nor who lets go of its locks."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

_DESCRIPTORS = "/proc/self/fd"
_LOCK = re.compile(
    r"(.*)/(?:(?:triggers|mappers|delivery)/[^/]+/(?:turn|upkeep|seal|load|take-\d+)"
    r"|audit/(?:lock|resubmission-[0-9a-f]+\.lock)|statistics/lock)"
)
"""The files that a process locks in a history: those of key spaces, of the audit log and of the statistics."""


class PerProcess(Generic[T]):
    """One object for each process, made when the process first asks for it.

    Args:
        make: makes it.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[int, T] = {}

    def __call__(self) -> T:
        """The present process's own one."""
        process = os.getpid()
        found = self._made.get(process)
        # No lock here, which a fork might leave locked: of threads that come at once, one has its object taken.
        return self._made.setdefault(process, self._make()) if found is None else found


def leave_locks() -> None:
    """In a forked child: have no share in the parent's locks, which would then outlive the parent.

    The descriptors stay, and lead nowhere, so that objects of the parent may close theirs.
    """
    with suppress(OSError):  # without /proc, they are shared
        # Texts, not paths: a process may have thousands of files, and a fork waits for this.
        for name in os.listdir(_DESCRIPTORS):  # noqa: PTH208
            with suppress(OSError):  # it was that of the list
                match = _LOCK.fullmatch(os.readlink(f"{_DESCRIPTORS}/{name}"))  # noqa: PTH115
                if match and Path(match[1], "HISTORY").is_file():
                    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
                    os.dup2(nowhere, int(name), inheritable=False)
                    os.close(nowhere)
