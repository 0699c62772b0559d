"""What goes on although a trigger is damaged."""

from pathlib import Path

import dochistory as dh
from dochistory import _files


def is_damage(error: dh.DocHistoryError) -> bool:
    """Whether a trigger is damaged, which must not keep the others from being purged."""
    return isinstance(error, dh.CorruptError) or str(error).startswith("[DH-MISSING]")


def triggers_ever_used(history: dh.History, path: Path | None) -> list[str]:
    """The triggers of a history. Where the manifest of one is damaged, those that were ever used.

    Args:
        history: the open history.
        path: its directory; None for one in a bucket.

    Raises:
        CorruptError: [DH-CORRUPT] a trigger is damaged, and nothing else knows their names.
    """
    try:
        return history.triggers()
    except dh.CorruptError:
        if path is None or not (known := [*(path / "known").glob("triggers-*")]):
            raise
        with _files.storage(path):
            return sorted(one.read_bytes().decode(errors="replace") for one in known)
