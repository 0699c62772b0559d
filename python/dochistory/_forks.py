"""What each process needs of its own: a forked child has neither its parent's threads nor who lets go of its locks."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

_LOCKS = ("turn", "upkeep", "seal", "load", "take-", "lock", "resubmission-")
"""How the names of the files begin that a process locks in a history."""


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
        for opened in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # it was that of the list
                path = opened.readlink()
                if path.name.startswith(_LOCKS) and _is_of_history(path):
                    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
                    os.dup2(nowhere, int(opened.name), inheritable=False)
                    os.close(nowhere)


def _is_of_history(path: Path) -> bool:
    """Whether this is a file of a history's audit log or statistics, or of one of its key spaces."""
    return any((above / "HISTORY").is_file() for above in path.parents[1:3])
