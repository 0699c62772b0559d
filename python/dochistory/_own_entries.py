"""What a claim still holds, for one whose handle is closed."""

import datetime as dt
import re
from collections.abc import Sequence

import pyarrow as pa

import dochistory as dh

_OURS = re.compile(r"(\w+): (\[DH-.*)", re.DOTALL)


def release_own(history: dh.History, trigger: dh.Trigger, keys: Sequence[str], started_at: dt.datetime | None) -> None:
    """Release what a claim began, and nothing that others began since.

    An attempt before may have reached the history without an answer. Then the keys were new again,
    and somebody else may be at work on them. While an entry is the claim's, nobody else begins it.

    Args:
        history: the history.
        trigger: whose documents they are.
        keys: of the claim.
        started_at: when the claim's services began.
    """
    try:
        found = pa.table(history.entries(trigger, "processing", keys=[*keys]))
    except pa.ArrowException as error:
        raise _ours(error) from error
    begun: dict[str, set[dt.datetime]] = {}
    for key, when in zip(found["key"].to_pylist(), found["started_at"].to_pylist(), strict=True):
        begun.setdefault(key, set()).add(when)
    if own := [key for key in keys if begun.get(key) == {started_at}]:
        history.release(own, trigger)


def _ours(error: pa.ArrowException) -> Exception:
    """The error of the history that Arrow hands on as text: another thread may have closed the handle meanwhile."""
    said = _OURS.search(str(error))
    kind: type[Exception] | None = None if said is None else getattr(dh, said[1], None)
    return error if said is None or kind is None else kind(said[2])
