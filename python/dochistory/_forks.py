"""What each process needs of its own: a forked child has neither its parent's threads nor who lets go of its locks."""

import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


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
