"""The journal: a record of every document that was not simply processed.

```python
from dochistory import journal

claim = history.begin(documents, trigger)
journal.write(documents, claim.verdicts, trigger)  # through `logging`, logger "dochistory.journal"
sinks = [journal.ParquetSink("journal/")]
journal.write(documents, claim.verdicts, trigger, sinks=sinks)  # and every one to files
```

There is a record for each DUPLICATE and each IN_DOUBT, never one for NEW. Sinks get all of them, as
columns. `logging` gets at most `most` of each status a batch, spread over the batch, and always one
summary for what was left out: a million duplicates cost what a thousand cost, and nothing is
dropped silently.
"""

import datetime as dt
import json
import logging
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import dochistory as dh
from dochistory import _columns

__all__ = ["LOGGER", "SCHEMA", "JsonLinesSink", "ParquetSink", "Sink", "Summary", "records", "write"]

LOGGER = "dochistory.journal"
"""The name of the logger that records go to."""

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("trigger", pa.string()),
        ("key", pa.string()),
        ("status", pa.string()),
        ("rule", pa.string()),
        ("message", pa.string()),
        ("count", pa.int64()),
        ("row", pa.int64()),
    ]
)
"""The columns of the journal: `count` is the document's redelivery count (JMS: delivery count), null if there is none;
`row` its number in the batch."""

_COUNT = {"messaging": "redelivery_count", "jms": "delivery_count"}
_CHUNK = 65_536
_LEVEL = {"DUPLICATE": logging.INFO, "IN_DOUBT": logging.WARNING}


class Sink(Protocol):
    """Where the journal goes besides `logging`."""

    def write(self, records: pa.Table) -> None:
        """Keep these records, of the columns of `SCHEMA`; there is one at least.

        Args:
            records: the records.
        """
        ...


@dataclass(frozen=True)
class Summary:
    """What became of one batch's records."""

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
    """Put one batch into the journal.

    Each log record carries its fields as a dictionary in its attribute `dochistory` (time, trigger,
    key, status, rule, message, count, row), for handlers that write structured logs. Its level is
    INFO for a DUPLICATE and WARNING for an IN_DOUBT. Where records were left out, one more says how
    many of each status and rule there were in the batch; its dictionary has `trigger`, `counts` (a
    list of status, rule, count), `logged` and `left_out`.

    Args:
        documents: as in `records`.
        verdicts: as in `records`.
        trigger: whose documents they are.
        columns: as in `records`.
        logger: where to log; the logger `dochistory.journal`, if absent.
        most: so many DUPLICATE and so many IN_DOUBT go to `logging` one by one; 0 leaves the
            summary alone, None logs every one.
        sample: which: `spread` evenly over the batch, or the `first` ones.
        sinks: get every record, before anything is logged; what they raise is raised here.
        now: the time of the records; the clock's, if absent.

    Returns:
        Summary: how many records there were, by status and rule, and how many were logged one by
        one.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense.
        SchemaError: [DH-SCHEMA] documents and verdicts have different numbers of rows.
    """
    if sample not in ("spread", "first"):
        raise dh.ConfigError(f"[DH-CONFIG] sample is {sample!r}; it is to be spread or first")
    if most is not None and most < 0:
        raise dh.ConfigError(f"[DH-CONFIG] most is {most}; it is to be 0 or more, or None for all")
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
    """The records of each status, if anybody listens; what is in doubt comes first."""
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


@dataclass(frozen=True)
class ParquetSink:
    """Keeps the journal as Parquet files: one for each batch that has records, in one directory.

    A file appears whole or not at all. Its name begins with the time of its records, so names sort
    by time.
    """

    directory: str | os.PathLike[str]
    """Where the files go; made if it is not there."""
    compression: str = "zstd"
    """Parquet's compression."""

    def __post_init__(self) -> None:
        """A directory that the process changes to later is not meant."""
        object.__setattr__(self, "directory", Path(self.directory).absolute())

    def write(self, records: pa.Table) -> None:
        """Keep these records.

        Args:
            records: the records, in the columns of `SCHEMA`.
        """
        directory = Path(self.directory)
        directory.mkdir(parents=True, exist_ok=True)
        name = f"{records['time'][0].as_py():%Y%m%dT%H%M%S.%fZ}-{uuid.uuid4().hex[:8]}.parquet"
        draft = directory / f".{name}.part"
        try:
            pq.write_table(records, draft, compression=self.compression)
            draft.replace(directory / name)
        finally:
            draft.unlink(missing_ok=True)


@dataclass(frozen=True)
class JsonLinesSink:
    """Appends the journal to one file, a JSON object a line, times in ISO 8601.

    Each batch is one write to a file opened for appending; several processes may share a file on a
    local disk. Nothing is synced, and nothing rotated: the file is what `logrotate` and its like
    are for.
    """

    path: str | os.PathLike[str]
    """The file; made if it is not there."""
    _mode: int = field(default=0o640, repr=False)

    def __post_init__(self) -> None:
        """A directory that the process changes to later is not meant."""
        object.__setattr__(self, "path", Path(self.path).absolute())

    def write(self, records: pa.Table) -> None:
        """Keep these records.

        Args:
            records: the records, in the columns of `SCHEMA`.
        """
        lines = _json_lines(records)
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, self._mode)
        with os.fdopen(file, "wb", buffering=0) as out:
            left = memoryview(lines)
            while left:
                left = left[out.write(left) :]


def _json_lines(journal: pa.Table) -> bytes:
    """The records as JSON lines, by columns rather than by rows."""
    return b"".join(_json_chunk(journal.slice(start, _CHUNK)) for start in range(0, journal.num_rows, _CHUNK))


def _json_chunk(journal: pa.Table) -> bytes:
    pieces: list[Any] = []
    for name in journal.column_names:
        before = ", " if pieces else "{"
        pieces += [f'{before}"{name}": ', _json(journal[name].combine_chunks())]
    lines = pc.binary_join_element_wise(*pieces, "}\n", "")
    # A column of text keeps its values one behind the other: that is the file.
    return bytes(lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py()))


def _json(column: pa.Array) -> Any:
    if pa.types.is_timestamp(column.type):
        few = column.dictionary_encode()  # a batch has one time, and spelling it is slow
        text = pc.binary_join_element_wise('"', pc.strftime(few.dictionary, "%Y-%m-%dT%H:%M:%S"), 'Z"', "").take(
            few.indices
        )
    elif pa.types.is_integer(column.type):
        text = column.cast(pa.string())
    else:
        text = _json_text(column)
    return pc.fill_null(text, "null")


def _json_text(column: pa.Array) -> Any:
    escaped = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
    quoted = pc.binary_join_element_wise('"', escaped, '"', "")
    is_plain = pc.invert(pc.match_substring_regex(column, r"[\x00-\x1f\x7f]"))
    if pc.all(is_plain).as_py() is not False:  # nothing, or nulls alone, is plain
        return quoted
    # Control characters are rare, so these rows may cost what rows cost.
    odd = pc.invert(is_plain).fill_null(False)
    spelt = [json.dumps(value, ensure_ascii=False) for value in column.filter(odd).to_pylist()]
    return pc.replace_with_mask(quoted, odd, pa.array(spelt, pa.string()))
