"""What a claim still holds, for one whose handle is closed."""

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa

import dochistory as dh


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
    found = pa.table(history.entries(trigger, "processing", keys=[*keys]))
    begun: dict[str, set[dt.datetime]] = {}
    for key, when in zip(found["key"].to_pylist(), found["started_at"].to_pylist(), strict=True):
        begun.setdefault(key, set()).add(when)
    if own := [key for key in keys if begun.get(key) == {started_at}]:
        history.release(own, trigger)
