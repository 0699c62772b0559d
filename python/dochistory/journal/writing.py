"""Writing a batch into the journal: its records, the log's sample of them, and the summary."""

import datetime as dt
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory import _columns
from dochistory.journal.sinks import SCHEMA, Sink

__all__ = ["LOGGER", "Summary", "records", "write"]

LOGGER = "dochistory.journal"
"""The name of the logger that records go to."""

_COUNT = {"messaging": "redelivery_count", "jms": "delivery_count"}
_LEVEL = {"DUPLICATE": logging.INFO, "IN_DOUBT": logging.WARNING}


@dataclass(frozen=True)
class Summary:
    """The number of one batch's records, and of those logged."""

    trigger: str
    """Name of the trigger."""
    counts: Mapping[tuple[str, str], int]
    """(status, rule) -> number of records."""
    logged: int
    """Records that went to `logging` one by one."""
    left_out: int
    """Records that only the summary counts."""

    @property
    def total(self) -> int:
        """Number of records."""
        return sum(self.counts.values())


def records(
    documents: Any,
    verdicts: Any,
    trigger: dh.Trigger,
    *,
    columns: Mapping[str, str] | None = None,
    now: dt.datetime | None = None,
) -> pa.Table:
    """The journal's records of one batch, as columns.

    Args:
        documents: the batch that was judged: anything with columns that Arrow can read. Only its
            column of counts is read; None leaves `count` null.
        verdicts: what `classify` answered, or `claim.verdicts`.
        trigger: whose documents they are.
        columns: the trigger's name of a column -> its name in `documents`, where they differ.
        now: the time of the records; the clock's, if absent.

    Returns:
        A table with the columns of `SCHEMA`, in the order of the batch.

    Raises:
        SchemaError: [DH-SCHEMA] documents and verdicts have different numbers of rows.
    """
    verdicts = _columns.verdicts_of(verdicts, ("status", "rule", "key", "message"))
    rows = _columns.rows_where(verdicts["status"], "DUPLICATE", "IN_DOUBT")
    counts = _counts(documents, verdicts.num_rows, (columns or {}).get(_COUNT[trigger.kind], _COUNT[trigger.kind]))
    time = pa.scalar(now or dt.datetime.now(dt.UTC), SCHEMA.field("time").type)
    found = verdicts.take(rows)
    return pa.table(
        {
            "time": pa.repeat(time, len(rows)),
            "trigger": pa.repeat(trigger.name, len(rows)),
            "key": found["key"].cast(pa.string()),
            "status": found["status"].cast(pa.string()),
            "rule": found["rule"].cast(pa.string()),
            "message": found["message"].cast(pa.string()),
            "count": counts.take(rows).cast(pa.int64()),
            "row": rows,
        },
        schema=SCHEMA,
    )


def write(
    documents: Any,
    verdicts: Any,
    trigger: dh.Trigger,
    *,
    columns: Mapping[str, str] | None = None,
    logger: logging.Logger | None = None,
    most: int | None = 1_000,
    sample: Literal["spread", "first"] = "spread",
    sinks: Sequence[Sink] = (),
    now: dt.datetime | None = None,
) -> Summary:
    """Write one batch to the journal.

    Each log record has its fields as a dictionary in its attribute `dochistory` (time, trigger,
    key, status, rule, message, count, row), for handlers that write structured logs. Its level is
    INFO for a DUPLICATE and WARNING for an IN_DOUBT. If records were left out, one more record has
    the number of each status and rule in the batch; its dictionary has `trigger`, `counts` (a list
    of status, rule, count), `logged` and `left_out`.

    Args:
        documents: as in `records`.
        verdicts: as in `records`.
        trigger: whose documents they are.
        columns: as in `records`.
        logger: where to log; the logger `dochistory.journal`, if absent.
        most: the maximum number of DUPLICATE and of IN_DOUBT records that go to `logging` one by
            one; 0 logs the summary alone, None logs every record.
        sample: which: `spread` evenly over the batch, or the `first` ones.
        sinks: get every record, before anything is logged; their exceptions are raised here.
        now: the time of the records; the clock's, if absent.

    Returns:
        Summary: how many records there were, by status and rule, and how many were logged one by
        one.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense.
        SchemaError: [DH-SCHEMA] documents and verdicts have different numbers of rows.
    """
    if sample not in ("spread", "first"):
        raise dh.ConfigError(f"[DH-CONFIG] sample is {sample!r}; it must be spread or first")
    if most is not None and most < 0:
        raise dh.ConfigError(f"[DH-CONFIG] most is {most}; it must be 0 or more, or None for all")
    journal = records(documents, verdicts, trigger, columns=columns, now=now)
    if journal.num_rows:
        for sink in sinks:
            sink.write(journal)
    log = logger or logging.getLogger(LOGGER)
    logged = sum(_log(log, _sampled(one, most, sample)) for one in _by_status(journal, log))
    summary = Summary(trigger.name, _counted(journal), logged, journal.num_rows - logged)
    _summarise(log, summary)
    return summary


def _counts(documents: Any, rows: int, name: str) -> Any:
    if documents is None:
        return pa.nulls(rows, pa.int64())
    if not isinstance(documents, pa.Table | pa.RecordBatch):
        documents = pa.table(documents)
    if documents.num_rows != rows:
        raise dh.SchemaError(
            f"[DH-SCHEMA] there are {documents.num_rows} documents and {rows} verdicts: give those of one batch"
        )
    return documents[name] if name in documents.schema.names else pa.nulls(rows, pa.int64())


def _by_status(journal: pa.Table, log: logging.Logger) -> Iterator[pa.Table]:
    """The records of each status, if its level is logged; those in doubt come first."""
    for status in ("IN_DOUBT", "DUPLICATE"):
        if log.isEnabledFor(_LEVEL[status]):
            yield journal.filter(pc.equal(journal["status"], status))


def _sampled(journal: pa.Table, most: int | None, sample: str) -> pa.Table:
    if most is None or journal.num_rows <= most:
        return journal
    if sample == "first":
        return journal.slice(0, most)
    return journal.take(pa.array([n * journal.num_rows // most for n in range(most)], pa.int64()))


def _log(log: logging.Logger, journal: pa.Table) -> int:
    for record in journal.to_pylist():
        log.log(
            _LEVEL[record["status"]],
            "%s %s %s key=%s count=%s: %s",
            record["trigger"],
            record["status"],
            record["rule"],
            json.dumps(record["key"]),  # a key may hold anything, line ends too
            "unknown" if record["count"] is None else record["count"],
            record["message"],
            extra={"dochistory": record},
        )
    return int(journal.num_rows)


def _counted(journal: pa.Table) -> dict[tuple[str, str], int]:
    grouped = journal.group_by(["status", "rule"]).aggregate([([], "count_all")])
    return {(row["status"], row["rule"]): row["count_all"] for row in grouped.to_pylist()}


def _summarise(log: logging.Logger, summary: Summary) -> None:
    if not summary.left_out:
        return
    counts = sorted((status, rule, count) for (status, rule), count in summary.counts.items())
    level = max(_LEVEL[status] for status, _, _ in counts)
    log.log(
        level,
        "%s: %d of the batch's %d records are written one by one; in all %s",
        summary.trigger,
        summary.logged,
        summary.total,
        ", ".join(f"{count} {status} by {rule}" for status, rule, count in counts),
        extra={
            "dochistory": {
                "trigger": summary.trigger,
                "counts": [{"status": status, "rule": rule, "count": count} for status, rule, count in counts],
                "logged": summary.logged,
                "left_out": summary.left_out,
            }
        },
    )
