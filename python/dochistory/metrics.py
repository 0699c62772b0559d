"""Metrics: the content of a history, and the verdicts on documents that went through this process.

```python
from dochistory import metrics

counts = metrics.VerdictCounts()
claim = history.begin(documents, trigger)
counts.add(claim.verdicts, trigger)
page = metrics.prometheus_text(history, counts)    # what an HTTP handler under /metrics answers
```
"""

import datetime as dt
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory import suspension, sweeper
from dochistory._damage import Damaged, split, triggers_ever_used

__all__ = ["CONTENT_TYPE", "VerdictCounts", "history_metrics", "prometheus_text"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The `Content-Type` under which `prometheus_text` is to be served."""


class Counts(Protocol):
    """Counted verdicts."""

    def table(self) -> pa.Table:
        """The counts, with columns `trigger`, `status`, `action`, `rule`, `count`."""
        ...


_TOTALS = ("new", "duplicate", "in_doubt", "suspended", "rejected", "no_id", "too_long")
_WITHOUT_STATUS = {"SUSPEND": "suspended", "REJECT": "rejected"}
_UNASKED = {"R3": "no_id", "R4": "too_long"}


class VerdictCounts:
    """Counts verdicts by trigger, status, action and rule, since it was made or cleared. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, str, str]] = Counter()

    def add(self, verdicts: Any, trigger: dh.Trigger | str) -> None:
        """Count the verdicts of one batch, as `classify` answered them; each batch once.

        Args:
            verdicts: what `classify` answered, or `claim.verdicts`.
            trigger: whose documents they are.
        """
        name = trigger if isinstance(trigger, str) else trigger.name
        counted = dh.count_verdicts(verdicts)
        with self._lock:
            for status, action, rule, count in counted:
                self._counts[name, status or "", action, rule] += count

    def clear(self, trigger: dh.Trigger | str | None = None) -> None:
        """Forget the counts of one trigger, or of all. No entry of a history is touched.

        Args:
            trigger: a trigger, or its name; every trigger, if absent.
        """
        name = trigger.name if isinstance(trigger, dh.Trigger) else trigger
        with self._lock:
            kept = {} if name is None else {key: count for key, count in self._counts.items() if key[0] != name}
            self._counts = Counter(kept)

    def totals(self) -> dict[str, dict[str, int]]:
        """The counts by trigger.

        Returns:
            dict: trigger -> how many documents were `new`, `duplicate`, `in_doubt`, `suspended`,
            `rejected`.
        """
        return _totals(self.table())

    def table(self) -> pa.Table:
        """The counts.

        Returns:
            pa.Table: `trigger`, `status` (null when suspended or rejected), `action`, `rule`
            (utf8), `count` (int64).
        """
        with self._lock:
            rows = sorted(self._counts.items())
        names = ("trigger", "status", "action", "rule")
        columns = {name: pa.array([key[n] or None for key, _ in rows], pa.string()) for n, name in enumerate(names)}
        return pa.table({**columns, "count": pa.array([count for _, count in rows], pa.int64())})


def _totals(counts: pa.Table) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in counts.to_pylist():
        of_trigger = found.setdefault(row["trigger"], dict.fromkeys(_TOTALS, 0))
        of_trigger[(row["status"] or "").lower() or _WITHOUT_STATUS[row["action"]]] += row["count"]
        step = row["rule"].partition(">")[0]
        if step in _UNASKED:
            of_trigger[_UNASKED[step]] += row["count"]
    return dict(sorted(found.items()))


def history_metrics(
    history: dh.History, *, in_progress: bool = True, now: dt.datetime | None = None
) -> dict[str, dict[str, Any]]:
    """The content of a history, by trigger.

    Args:
        history: the history; one that is open for reading is enough.
        in_progress: also count entries in progress, which reads all entries: some seconds for many
            millions. If not, `processing` and `oldest_processing_seconds` are None.
        now: the time that counts as now; the clock's, if absent.

    Returns:
        For each trigger: `entries` (in segments and log), `bytes`, `segments` and `filters`
        (files), `pins` (pinned states, which keep their files), `log_bytes`, `looked_up` (rows that
        this handle looked up) and `filter_positives` (rows among them that passed a filter and
        needed an exact look-up), `begun_without_id`, `history_time_to_live_seconds`,
        `oldest_entry_seconds` (age of the oldest entry; None without one),
        `oldest_partition_seconds` (age of its time partition, from the partition's begin),
        `expired_seconds` (for how long that entry has been ready for a purge, 0 if it is not),
        `processing` (entries begun and not ended) and `oldest_processing_seconds`, `transactions`
        (applications with batches) and `unfinished_transactions`.
    """
    moment = now or dt.datetime.now(dt.UTC)
    return {name: _of(history, name, in_progress, moment) for name in sorted(history.stats()["triggers"])}


def _of(history: dh.History, name: str, in_progress: bool, now: dt.datetime) -> dict[str, Any]:
    figures = history.stats(name)
    oldest: dt.datetime | None = figures["oldest_started_at"]
    time_to_live: dt.timedelta | None = figures["history_time_to_live"]
    age = None if oldest is None else max((now - oldest).total_seconds(), 0.0)
    lives = None if time_to_live is None else time_to_live.total_seconds()
    processing, since = _processing(history, name) if in_progress else (None, None)
    return {
        "entries": figures["segment_entries"] + figures["log_entries"],
        "bytes": figures["segment_bytes"] + figures["log_bytes"] + figures["filter_bytes"],
        "segments": figures["segments"],
        "filters": figures["filters"],
        "pins": figures["pins"],
        "log_bytes": figures["log_bytes"],
        "looked_up": figures["looked_up"],
        "filter_positives": figures["filter_positives"],
        "begun_without_id": figures["begun_without_id"],
        "history_time_to_live_seconds": lives,
        "oldest_entry_seconds": age,
        "oldest_partition_seconds": _partition_age(oldest, figures["partition"], now),
        "expired_seconds": None if age is None or lives is None else max(age - lives, 0.0),
        "processing": processing,
        "oldest_processing_seconds": None if since is None else max((now - since).total_seconds(), 0.0),
        "transactions": len(figures["transactions"]),
        "unfinished_transactions": sum(not has_ended for _, has_ended in figures["transactions"].values()),
    }


def _partition_age(oldest: dt.datetime | None, width: dt.timedelta, now: dt.datetime) -> float | None:
    if oldest is None:
        return None
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    begins = epoch + (oldest - epoch) // width * width
    return max((now - begins).total_seconds(), 0.0)


def _processing(history: dh.History, name: str) -> tuple[int, dt.datetime | None]:
    """The number of entries in progress, and when the first of them began."""
    count, first = 0, None
    for batch in history.entries(name, status="processing"):
        count += batch.num_rows
        earliest: dt.datetime | None = pc.min(batch["started_at"]).as_py()
        if earliest is not None and (first is None or earliest < first):
            first = earliest
    return count, first


@dataclass(frozen=True)
class _Metric:
    name: str
    kind: str
    help: str


_DAMAGED = _Metric(
    "dochistory_damaged", "gauge", "1 for a trigger whose files are damaged or cannot be read: it has no other figures."
)
_OF_HISTORY = {
    "entries": _Metric("dochistory_entries", "gauge", "Entries of the history, in segments and log."),
    "bytes": _Metric("dochistory_bytes", "gauge", "Bytes of the history's files."),
    "segments": _Metric("dochistory_segments", "gauge", "Segment files."),
    "filters": _Metric("dochistory_filters", "gauge", "Global filter files."),
    "pins": _Metric("dochistory_pins", "gauge", "Pinned states, which keep their files from being purged."),
    "log_bytes": _Metric("dochistory_log_bytes", "gauge", "Bytes of the write-ahead log."),
    "history_time_to_live_seconds": _Metric(
        "dochistory_time_to_live_seconds", "gauge", "Time to live of an entry, as last used."
    ),
    "looked_up": _Metric("dochistory_looked_up_total", "counter", "Documents that this process looked up."),
    "filter_positives": _Metric(
        "dochistory_filter_positives_total", "counter", "How often a filter let one of them through."
    ),
    "begun_without_id": _Metric(
        "dochistory_begun_without_id_total", "counter", "Documents that this process began and that have no id."
    ),
    "oldest_partition_seconds": _Metric(
        "dochistory_oldest_partition_age_seconds", "gauge", "Age of the oldest time partition, from where it begins."
    ),
    "oldest_entry_seconds": _Metric("dochistory_oldest_entry_age_seconds", "gauge", "Age of the oldest entry."),
    "expired_seconds": _Metric(
        "dochistory_purge_overdue_seconds", "gauge", "For how long the oldest entry has been ready for a purge."
    ),
    "processing": _Metric("dochistory_processing", "gauge", "Documents that were begun and have not ended."),
    "oldest_processing_seconds": _Metric(
        "dochistory_oldest_processing_age_seconds", "gauge", "Age of the oldest document that has not ended."
    ),
    "unfinished_transactions": _Metric(
        "dochistory_unfinished_transactions", "gauge", "Applications whose last batch was begun and has not ended."
    ),
}

_SUSPENDED = _Metric("dochistory_suspended", "gauge", "1 for a trigger that is suspended on this machine.")
_SUSPENDED_FOR = _Metric("dochistory_suspended_seconds", "gauge", "For how long a trigger has been suspended.")
_NEXT_PURGE = _Metric("dochistory_next_purge_seconds", "gauge", "Until the sweeper purges next; below 0, it is late.")
_LONGEST = _Metric("dochistory_longest_run_seconds", "gauge", "The longest run of a service that a sweeper saw.")
_DOCUMENTS = _Metric("dochistory_documents_total", "counter", "Documents judged, by what they were.")
_VERDICTS = _Metric("dochistory_verdicts_total", "counter", "Documents judged.")


def prometheus_text(
    history: dh.History | None = None,
    counts: Counts | None = None,
    *,
    in_progress: bool = True,
    now: dt.datetime | None = None,
    triggers: Collection[str] | None = None,
) -> str:
    """The metrics in the text format of Prometheus.

    Args:
        history: the history; every metric has the label `trigger`.
        counts: `VerdictCounts` of this process, or stored `Statistics`:
            `dochistory_documents_total`, by trigger and by state of the documents, and
            `dochistory_verdicts_total`, by trigger, status, action and rule.
        in_progress: as in `history_metrics`.
        now: as in `history_metrics`.
        triggers: only these triggers' metrics; None for all.

    Returns:
        str: the page, in the text format 0.0.4. Of a trigger whose files are damaged, or cannot be
        read, it has `dochistory_damaged` alone.
    """
    lines: list[str] = []
    figures, damaged = ({}, {}) if history is None else readable(history, in_progress, now, triggers)
    lines += _samples(_DAMAGED, (({"trigger": trigger}, 1) for trigger in damaged))
    for name, metric in _OF_HISTORY.items():
        lines += _samples(metric, (({"trigger": trigger}, one[name]) for trigger, one in figures.items()))
    if counts is not None:
        counted = counts.table()
        if triggers is not None:
            counted = counted.filter(pc.is_in(counted["trigger"], pa.array(sorted(triggers), pa.string())))
        totals = _totals(counted)
        lines += _samples(
            _DOCUMENTS,
            (({"trigger": one, "what": what}, count) for one, found in totals.items() for what, count in found.items()),
        )
        rows = counted.to_pylist()
        lines += _samples(_VERDICTS, ((row, row.pop("count")) for row in rows))
    if history is not None:
        lines += _around(history, now or dt.datetime.now(dt.UTC), triggers)
    return "".join(f"{line}\n" for line in lines)


def readable(
    history: dh.History, in_progress: bool, now: dt.datetime | None, triggers: Collection[str] | None
) -> tuple[dict[str, dict[str, Any]], Damaged]:
    """`history_metrics` of each trigger that can be read, and what is wrong with those that cannot.

    Args:
        history: as in `history_metrics`.
        in_progress: as in `history_metrics`.
        now: as in `history_metrics`.
        triggers: these triggers alone; None for all.

    Raises:
        CorruptError: [DH-CORRUPT] a trigger is damaged, and nothing knows their names.
    """
    moment = now or dt.datetime.now(dt.UTC)
    there = triggers_ever_used(history)
    wanted = (name for name in there if _is_wanted(name, triggers))
    return split(wanted, lambda name: _of(history, name, in_progress, moment))


def _is_wanted(name: str, triggers: Collection[str] | None) -> bool:
    return triggers is None or name in triggers


def _around(history: dh.History, now: dt.datetime, triggers: Collection[str] | None) -> list[str]:
    """The metrics of this machine's sweeper and suspensions."""
    suspended = [one for one in suspension.suspended(history) if _is_wanted(one.trigger, triggers)]
    found = [({"trigger": one.trigger}, one) for one in suspended]
    due = sweeper.next_purge(history)
    runs = [(name, seconds) for name, seconds in sweeper.longest_runs(history).items() if _is_wanted(name, triggers)]
    return [
        *_samples(_SUSPENDED, ((labels, 1) for labels, _ in found)),
        *_samples(_SUSPENDED_FOR, ((labels, (now - one.since).total_seconds()) for labels, one in found)),
        *_samples(_NEXT_PURGE, [({}, None if due is None else (due - now).total_seconds())]),
        *_samples(_LONGEST, (({"trigger": name}, seconds) for name, seconds in runs)),
    ]


def _samples(metric: _Metric, samples: Iterable[tuple[Mapping[str, Any], float | None]]) -> list[str]:
    lines = [f"{metric.name}{_labels(labels)} {value}" for labels, value in samples if value is not None]
    head = [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
    return head + lines if lines else []


def _labels(labels: Mapping[str, str | None]) -> str:
    return f"{{{','.join(_label(*label) for label in labels.items())}}}" if labels else ""


def _label(name: str, value: str | None) -> str:
    escaped = (value or "").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{escaped}"'
