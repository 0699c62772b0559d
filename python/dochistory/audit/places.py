"""Where the audit log of a history lies."""

import os
from pathlib import Path

import dochistory as dh
from dochistory.audit import store
from dochistory.audit.bucket import Bucket
from dochistory.audit.files import Directory


def files_of(history: dh.History, directory: str | os.PathLike[str] | None, lock_timeout: float) -> store.Files:
    """The files of a history's audit log, in its own place, or in a directory that is named."""
    client = history._objects  # noqa: SLF001 - the package's own
    if client is not None:
        return (
            Bucket(client, lock_timeout)
            if directory is None
            else Directory(Path(directory).absolute(), None, lock_timeout)
        )
    own = Path(history.path)
    place = (own / "audit" if directory is None else Path(directory)).absolute()
    return Directory(place, _known_of(own, place), lock_timeout)


def _known_of(history: Path, directory: Path) -> Path | None:
    """Where a history records the id of its audit log; None for a log outside the history."""
    return history / "known" / "audit" if directory == history / "audit" else None
