"""What goes on although a trigger, or a mapper, is damaged."""

from collections.abc import Callable
from pathlib import Path

import dochistory as dh
from dochistory import _files


def is_damage(error: dh.DocHistoryError) -> bool:
    """Whether a trigger is damaged, or its files are refused: that must not keep the others from being purged."""
    return isinstance(error, dh.CorruptError | dh.StorageError) or str(error).startswith("[DH-MISSING]")


def triggers_ever_used(history: dh.History, path: Path | None) -> list[str]:
    """The triggers of a history. Where the manifest of one is damaged, those that were ever used.

    Args:
        history: the open history.
        path: its directory; None for one in a bucket.

    Raises:
        CorruptError: [DH-CORRUPT] a trigger is damaged, and nothing else knows their names.
        StorageError: [DH-IO] the system refuses its files, and nothing else knows their names.
    """
    return _ever_used(history.triggers, path, "triggers")


def mappers_ever_used(history: dh.History, path: Path | None) -> list[str]:
    """The channels of a history that have mappings, as `triggers_ever_used`."""
    names = _ever_used(history.mappers, path, "mappers")
    return [name.removeprefix("mapper:") for name in names]


def _ever_used(listed: Callable[[], list[str]], path: Path | None, room: str) -> list[str]:
    try:
        return listed()
    except (dh.CorruptError, dh.StorageError):
        if path is None or not (known := [*(path / "known").glob(f"{room}-*")]):
            raise
        with _files.storage(path):
            return sorted(one.read_bytes().decode(errors="replace") for one in known)
