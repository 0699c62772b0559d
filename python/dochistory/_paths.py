"""Paths that stay valid when the process changes its working directory."""

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
    """The absolute path of a directory; an open history is returned unchanged.

    Raises:
        OpenError: [DH-OPEN] the URL does not name a directory of this machine.
    """
    return str(dh.local_path(given)) if isinstance(given, str | os.PathLike) else given
