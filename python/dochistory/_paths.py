"""Paths that mean the same directory when the process has changed to another."""

import os
from pathlib import Path
from typing import overload

import dochistory as dh


@overload
def absolute(given: str | os.PathLike[str]) -> str: ...
@overload
def absolute(given: "dh.History") -> "dh.History": ...
@overload
def absolute(given: "dh.History | str | os.PathLike[str]") -> "dh.History | str": ...


def absolute(given: "dh.History | str | os.PathLike[str]") -> "dh.History | str":
    """A directory as it is named from anywhere; a history that is open, and an address, as they are."""
    if not isinstance(given, str | os.PathLike):
        return given
    path = os.fspath(given)
    return path if "://" in path else str(Path(path).absolute())
