"""The data of a report, independent of the page."""

import datetime as dt
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Partition:
    """The segments of one time partition."""

    start: dt.datetime
    entries: int
    bytes: int
    segments: int
    expires_at: dt.datetime
    """When a purge may drop all of it."""


@dataclass(frozen=True)
class Doubt:
    """A document that was begun and has not ended: IN DOUBT, if it came again."""

    key: str
    started_at: dt.datetime
    age: dt.timedelta


@dataclass(frozen=True)
class Verdicts:
    """How many documents got a verdict."""

    trigger: str
    status: str
    rule: str
    count: int


@dataclass(frozen=True)
class Bar:
    """The documents of a span of time: those begun (by the history), duplicates and in doubt (by the journal)."""

    start: dt.datetime
    begun: int = 0
    duplicate: int = 0
    in_doubt: int = 0


@dataclass(frozen=True)
class TriggerReport:
    """The part of one trigger."""

    name: str
    time_to_live: dt.timedelta
    entries: int
    completed: int
    bytes: int
    segments: int
    oldest: dt.datetime | None
    partitions: list[Partition]
    in_log: int
    """Entries that are in the log, and in no partition yet."""
    doubts: list[Doubt]
    """The oldest first."""
    doubts_in_all: int
    purge_entries: int
    """What a purge would free now."""
    purge_bytes: int
    purge_segments: int


@dataclass(frozen=True)
class Report:
    """A history at one moment."""

    path: str
    created_at: dt.datetime
    at: dt.datetime
    version: str
    triggers: list[TriggerReport]
    bars: list[Bar] = field(default_factory=list)
    bar_width: dt.timedelta = dt.timedelta(days=1)
    verdicts: list[Verdicts] = field(default_factory=list)
    has_journal: bool = False
