"""The data of a report, independent of the page."""

import datetime as dt
from dataclasses import dataclass, field

from dochistory.overview import Overview


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
class Kept:
    """A document of the audit log that waits for a decision, or for being resubmitted."""

    number: int
    key: str | None
    rule: str
    state: str
    time: dt.datetime


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
    """What a purge would free now, in files and in the log."""
    purge_log_entries: int
    """Of them those in the log."""
    purge_bytes: int
    purge_log_bytes: int
    """Bytes of the log, estimated."""
    purge_segments: int
    kept: list[Kept] = field(default_factory=list)
    """What waits in the audit log, the oldest first."""
    kept_in_all: int = 0


@dataclass(frozen=True)
class Report:
    """A history at one moment."""

    path: str
    created_at: dt.datetime | None
    """None beside something damaged."""
    at: dt.datetime
    version: str
    overview: Overview
    """What waits and what is overdue."""
    triggers: list[TriggerReport]
    bars: list[Bar] = field(default_factory=list)
    bar_width: dt.timedelta = dt.timedelta(days=1)
    verdicts: list[Verdicts] = field(default_factory=list)
    has_journal: bool = False
