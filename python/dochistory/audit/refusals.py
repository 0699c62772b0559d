"""Errors for requests that the state of documents does not allow."""

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh

_NAMED = 10
"""The maximum number of triggers that an error names."""
_WHY = {
    "resubmitting": "is being resubmitted at this moment",
    "cut_off": "was in a resubmission that was interrupted: resolve it first, as process or as duplicate",
    "resubmitted": "was resubmitted before",
    "duplicate": "is a duplicate, and duplicates are never resubmitted",
}


def only(chosen: pa.Table, allowed: tuple[str, ...], what: str) -> None:
    """Refuse with a StateError if an entry is in another state than the allowed ones."""
    others = chosen.filter(pc.invert(pc.is_in(chosen["state"], value_set=pa.array(allowed))))
    if others.num_rows:
        number, state = others["number"][0].as_py(), others["state"][0].as_py()
        raise dh.StateError(f"[DH-STATE] document {number} cannot {what}: it {_WHY[state]}")


def of_one(chosen: pa.Table, trigger: str) -> None:
    """Refuse with a StateError if an entry is of another trigger."""
    strangers = chosen.filter(pc.not_equal(chosen["trigger"], trigger))["number"].to_pylist()
    if strangers:
        are = "documents {} are" if len(strangers) > 1 else "document {} is"
        raise dh.StateError(f"[DH-STATE] {are.format(_some(strangers))} of another trigger than {trigger}")


def overtaken(trigger: str) -> dh.LockedError:
    """The error for a resubmission while another one is under way that did not wait."""
    return dh.LockedError(
        f"[DH-LOCKED] another process is resubmitting documents of {trigger}, because this one was silent for too "
        "long; nothing was handed out: try again"
    )


def unknown(numbers: list[int]) -> dh.StateError:
    """The error for numbers without a document."""
    return dh.StateError(f"[DH-STATE] there is no document {_some(numbers)} in the audit log")


def _some(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5]))


def of_no_trigger(name: str, entries: pa.Table, history: dh.History) -> None:
    """Refuse the name of no trigger: a typing error must not pass for a trigger without documents."""
    if pc.index(entries["trigger"], name).as_py() >= 0:
        return
    with suppress(dh.CorruptError, dh.StorageError):  # a damaged trigger hides the names of others
        there = history.triggers()
        if name not in there:
            raise dh.ConfigError(
                f"[DH-CONFIG] neither the history nor its audit log has a trigger {name!r}; the history has "
                f"{', '.join(there[:_NAMED]) or 'none yet'}"
            )
