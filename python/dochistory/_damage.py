"""What goes on although a trigger, or a mapper, is damaged."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import dochistory as dh
from dochistory import _files

T = TypeVar("T")
Damaged = dict[str, dh.DocHistoryError]
"""What is damaged, and the error of reading it."""


def is_damage(error: dh.DocHistoryError) -> bool:
    """Whether a trigger is damaged, or its files are refused: that must not keep the others from being purged."""
    return isinstance(error, dh.CorruptError | dh.StorageError) or str(error).startswith("[DH-MISSING]")


def triggers_ever_used(history: dh.History) -> list[str]:
    """The triggers of a history. Where the manifest of one is damaged, those that were ever used.

    Args:
        history: the open history.

    Raises:
        CorruptError: [DH-CORRUPT] a trigger is damaged, and nothing else knows their names.
        StorageError: [DH-IO] the system refuses its files, and nothing else knows their names.
    """
    return _ever_used(history, history.triggers, "triggers")


def mappers_ever_used(history: dh.History) -> list[str]:
    """The channels of a history that have mappings, as `triggers_ever_used`."""
    names = _ever_used(history, history.mappers, "mappers")
    return [name.removeprefix("mapper:") for name in names]


def figures_beside_damage(history: dh.History) -> tuple[dict[str, Any], Damaged]:
    """`History.stats` without the triggers and mappers that are damaged, and what is wrong with each of those.

    Beside damage, only the figures of triggers and mappers are known: the others are None.

    Args:
        history: the open history.

    Raises:
        CorruptError: [DH-CORRUPT] a trigger is damaged, and nothing else knows their names.
        StorageError: [DH-IO] the system refuses its files, and nothing else knows their names.
    """
    try:
        return dict(history.stats()), {}
    except dh.DocHistoryError as error:
        if not is_damage(error):
            raise
    triggers, damaged = split(triggers_ever_used(history), history.stats)
    mappers, more = split(mappers_ever_used(history), lambda name: history.mapper(name).stats())
    damaged |= {f"mapper {name}": error for name, error in more.items()}
    unknown = dict.fromkeys(("id", "created_at", "shards", "delivery"))
    return {"path": history.url or history.path, "triggers": triggers, "mappers": mappers, **unknown}, damaged


def split(names: Iterable[str], of: Callable[[str], T], *, or_locked: bool = False) -> tuple[dict[str, T], Damaged]:
    """What `of` tells of each name, in their order; and of those that are damaged, what is wrong.

    Args:
        names: triggers, or mappers.
        of: reads one of them, or purges it.
        or_locked: whether those that another writer holds are passed over, too.

    Raises:
        DocHistoryError: as `of`, where it is none of these.
    """
    found: dict[str, T] = {}
    damaged: Damaged = {}
    for name in sorted(names):
        try:
            found[name] = of(name)
        except dh.DocHistoryError as error:
            if not (is_damage(error) or (or_locked and isinstance(error, dh.LockedError))):
                raise
            damaged[name] = error
    return found, damaged


def _ever_used(history: dh.History, listed: Callable[[], list[str]], room: str) -> list[str]:
    try:
        return listed()
    except (dh.CorruptError, dh.StorageError):
        if history.url:
            raise  # a bucket keeps no such list
        path = Path(history.path)
        if not (known := [*(path / "known").glob(f"{room}-*")]):
            raise
        with _files.storage(path):
            return sorted(one.read_bytes().decode(errors="replace") for one in known)
