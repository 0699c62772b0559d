"""What an operator has to know of a history at one moment: what is unfinished, what waits, what is overdue.

```python
from dochistory import overview

with dh.open("orders.history", read_only=True) as history:
    seen = overview.look(history)
    print(seen.unfinished)          # what waits for somebody, one sentence each
```
"""

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any

import dochistory as dh
from dochistory import metrics, suspension, sweeper
from dochistory._damage import mappers_ever_used, split
from dochistory.display import span
from dochistory.statistics import Statistics

__all__ = ["Overview", "TriggerOverview", "look"]


@dataclass(frozen=True)
class TriggerOverview:
    """One trigger."""

    name: str
    entries: int
    bytes: int
    processing: int | None
    """Documents that were begun and have not ended; None if they were not counted."""
    oldest_processing: dt.timedelta | None
    time_to_live: dt.timedelta | None
    overdue: dt.timedelta
    """For how long the oldest entry has been ready for a purge."""
    pins: int
    audit: Mapping[str, int]
    """Documents of the audit log by state."""
    suspended: str | None
    """Why it is suspended on this machine; None if it is not."""
    counts: Mapping[str, int]
    """Its statistics, `new`, `duplicate`, `in_doubt`, `suspended`, `rejected`: they do not shrink with purges.

    Those of a bucket are what this machine counted.
    """

    @property
    def waiting(self) -> int:
        """Documents of the audit log that wait for a decision or for being resubmitted."""
        return sum(self.audit.get(state, 0) for state in WAITING)


@dataclass(frozen=True)
class Overview:
    """A history at one moment."""

    path: str
    at: dt.datetime
    triggers: list[TriggerOverview]
    next_purge: dt.datetime | None
    """When this machine's sweeper purges next; None without one."""
    pending: Mapping[str, int]
    """Ids of each message id mapper whose sending began and has not ended."""
    streams: Mapping[str, str]
    """Streams of guaranteed delivery that are in doubt: the range of offsets."""
    damaged: Mapping[str, str]
    """What cannot be read, and so has no figures: triggers, `mapper NAME`, `guaranteed delivery`;
    and what is wrong with it."""

    @property
    def unfinished(self) -> list[str]:
        """What waits for somebody, one sentence each, with the command that goes on with it."""
        return list(_sentences(self))


WAITING = ("open", "process", "cut_off")
"""States of the audit log that wait for somebody."""
_COUNTS = ("new", "duplicate", "in_doubt", "suspended", "rejected")


def look(
    history: dh.History, *, trigger: str | None = None, in_progress: bool = True, now: dt.datetime | None = None
) -> Overview:
    """Look at a history.

    Args:
        history: the history; one that is open for reading is enough.
        trigger: this trigger only; all, if absent.
        in_progress: also count documents that were begun and have not ended, which reads all
            entries: some seconds for many millions.
        now: the time that counts as now; the clock's, if absent.

    Returns:
        Overview: what there is to know. What is damaged is named, and hides nothing else.

    Raises:
        StorageError: [DH-IO] the operating system refused a file operation.
        CorruptError: [DH-CORRUPT] the audit log is damaged, or nothing knows a damaged trigger's
            name.
        StateError: [DH-STATE] the history is closed.
    """
    at = now or dt.datetime.now(dt.UTC)
    figures, damaged = metrics.readable(history, in_progress, at, None if trigger is None else [trigger])
    kept = _audit(history)
    counted = Statistics(history).summary()
    suspended = {one.trigger: one.reason for one in suspension.suspended(history)}
    pending, of_mappers = split(mappers_ever_used(history), lambda name: _pending(history, name))
    streams, of_streams = split(["guaranteed delivery"], lambda _: _streams(history))
    damaged |= {f"mapper {name}": error for name, error in of_mappers.items()} | of_streams
    return Overview(
        path=history.url or str(history.path),
        at=at,
        triggers=[
            _of(name, one, kept.get(name, Counter()), suspended.get(name), counted.get(name, {}))
            for name, one in figures.items()
        ],
        next_purge=sweeper.next_purge(history),
        pending={name: count for name, count in pending.items() if count},
        streams=streams.get("guaranteed delivery", {}),
        damaged={name: str(error) for name, error in damaged.items()},
    )


def _of(
    name: str, figures: Mapping[str, Any], audit: Mapping[str, int], suspended: str | None, counted: Mapping[str, Any]
) -> TriggerOverview:
    counts = {one: counted.get(one, 0) for one in _COUNTS}
    counts["in_doubt"] = sum((counted.get("in_doubt") or {}).values())
    return TriggerOverview(
        name=name,
        entries=figures["entries"],
        bytes=figures["bytes"],
        processing=figures["processing"],
        oldest_processing=_span(figures["oldest_processing_seconds"]),
        time_to_live=_span(figures["history_time_to_live_seconds"]),
        overdue=_span(figures["expired_seconds"]) or dt.timedelta(),
        pins=figures["pins"],
        audit=audit,
        suspended=suspended,
        counts=counts,
    )


def _span(seconds: float | None) -> dt.timedelta | None:
    return None if seconds is None else dt.timedelta(seconds=seconds)


def _audit(history: dh.History) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    listed = history.audit.list()
    for name, state in zip(listed["trigger"].to_pylist(), listed["state"].to_pylist(), strict=True):
        found.setdefault(name, Counter())[state] += 1
    return found


def _pending(history: dh.History, channel: str) -> int:
    return sum(batch.num_rows for batch in history.mapper(channel).pending())


def _streams(history: dh.History) -> dict[str, str]:
    return {
        one["stream"]: f"{one['log_received']}..{one['applying_upto']}"
        for one in history.delivery_status().to_pylist()
        if one["log_received"] is not None and one["applying_upto"] > one["log_received"]
    }


def _sentences(seen: Overview) -> Iterator[str]:
    for name, error in seen.damaged.items():
        yield f"{name}: has no figures, as it cannot be read ({error}): dochistory verify"
    for one in seen.triggers:
        if one.processing:
            age = f", the oldest for {span(one.oldest_processing)}" if one.oldest_processing else ""
            command = f"dochistory entries --trigger {quote(one.name)} --status processing"
            yield f"{one.name}: {one.processing:,} begun and not ended{age}: {command}"
        if one.waiting:
            states = ", ".join(f"{count:,} {state}" for state, count in one.audit.items() if state in WAITING)
            yield f"{one.name}: {states} in the audit log: dochistory audit list --trigger {quote(one.name)}"
        if one.suspended is not None:
            command = f"dochistory suspension resume --trigger {quote(one.name)}"
            yield f"{one.name}: suspended ({one.suspended}): once the cause is gone: {command}"
        if one.overdue > dt.timedelta(days=1):
            yield f"{one.name}: a purge is overdue by {span(one.overdue)}: dochistory purge --trigger {quote(one.name)}"
    for channel, count in seen.pending.items():
        ids = "id" if count == 1 else "ids"
        yield f"mapper {channel}: {count:,} {ids} pending: dochistory mapper pending --channel {quote(channel)}"
    for stream, offsets in seen.streams.items():
        yield f"stream {stream}: {offsets} in doubt, or being applied: dochistory delivery --stream {quote(stream)}"
    if seen.next_purge is not None and seen.next_purge < seen.at - dt.timedelta(minutes=1):
        yield f"the sweeper is late by {span(seen.at - seen.next_purge)}: dochistory sweep"
