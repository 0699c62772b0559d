"""Paths that mean the same directory when the process has changed to another."""

import os
from typing import overload

import dochistory as dh


@overload
def absolute(given: str | os.PathLike[str]) -> str: ...
@overload
def absolute(given: "dh.History") -> "dh.History": ...
@overload
def absolute(given: "dh.History | str | os.PathLike[str]") -> "dh.History | str": ...


def absolute(given: "dh.History | str | os.PathLike[str]") -> "dh.History | str":
    """A directory as it is named from anywhere; a history that is open as it is.

    Raises:
        OpenError: [DH-OPEN] it is named by a URL of something that is no directory of this machine.
    """
    return str(dh.local_path(given)) if isinstance(given, str | os.PathLike) else given
