"""A history as tables of Spark: what `spark.read.format("dochistory")` reads.

Entries are read in parts of the key range, each from the same pinned snapshot. What is not wanted
is said by options and not read at all.
"""

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

import dochistory as dh
from dochistory.spark import compat
from dochistory.spark.options import Options
from dochistory.spark.shipped import Travelling, packed
from dochistory.spark.snapshots import Snapshot

compat.check_data_sources()

from pyspark.sql.datasource import DataSourceReader, InputPartition  # noqa: E402 - where there is none, that is said first

_SCHEMAS = {
    "entries": "trigger string, key string, status string, started_at timestamp",
    "transactions": "trigger string, application string, batch bigint, ended boolean",
    "statistics": (
        "trigger string, entries bigint, segment_entries bigint, log_entries bigint, open_entries bigint, "
        "segments bigint, filters bigint, bytes bigint, segment_bytes bigint, log_bytes bigint, filter_bytes bigint, "
        "manifest bigint, transactions bigint, oldest_started_at timestamp, purged_upto timestamp, "
        "partition_seconds double, history_time_to_live_seconds double"
    ),
}

# Spark plans a read in a process that ends before the read begins, so nobody is left to let its snapshot go.
_LEASE = "1 day"

# Enough for a task to be worth its start.
_ENTRIES_A_PARTITION = 1_000_000
_MOST_PARTITIONS = 1024


def schema(given: Mapping[str, str]) -> str:
    """The columns of the table that the options ask for.

    Raises:
        ConfigError: [DH-CONFIG] there is an option too many, or one that makes no sense.
    """
    return _SCHEMAS[Options(given, writing=False).table()]


def _check_columns(given: StructType, table: str) -> None:
    """Refuse a schema that Spark was given and that the table has not: it may leave columns out, or order them."""
    # Spark's own parser needs a session, and the process that plans a read has none.
    known = dict(one.split() for one in _SCHEMAS[table].split(", "))
    for field in given.fields:
        if field.name not in known:
            raise dh.SchemaError(
                f"[DH-SCHEMA] the table {table} has no column {field.name!r}; it has {_SCHEMAS[table]}: "
                "leave .schema(…) out, or name these"
            )
        if field.dataType.simpleString() != known[field.name]:
            raise dh.SchemaError(
                f"[DH-SCHEMA] column {field.name!r} of the table {table} is {known[field.name]}, "
                f"not {field.dataType.simpleString()}: leave .schema(…) out, and cast the column afterwards"
            )


@dataclass(frozen=True)
class _Part(InputPartition):
    """A part of the keys of one trigger."""

    trigger: str
    snapshot: Snapshot
    part: tuple[int, int]


@dataclass(frozen=True)
class _Rows(InputPartition):
    """Rows that were found when the read was planned."""

    rows: list[dict[str, Any]]


class Reader(DataSourceReader):
    """Reads one of the tables."""

    def __init__(self, given: Mapping[str, str], columns: StructType) -> None:
        options = Options(given, writing=False)
        self._place = options.place()
        self._trigger = options.trigger_name()
        self._table = options.table()
        self._status = options.status()
        self._since, self._before = options.time("from"), options.time("to")
        self._partitions = options.number("partitions")
        if self._partitions == 0:
            raise dh.ConfigError("[DH-CONFIG] partitions is 0; it must be 1 or more")
        self._columns = columns
        _check_columns(columns, self._table)
        self._keys = options.keys()
        if self._keys is not None and self._table != "entries":
            raise dh.ConfigError(f"[DH-CONFIG] the table {self._table} has no keys: leave the option key or keys out")

    def __reduce__(self) -> Any:
        """What travels to the executors, which may lack this package."""
        return packed(Travelling(Reader, self.__dict__))

    def partitions(self) -> list[InputPartition]:
        """Pin the history and divide it."""
        with self._place.open(read_only=True) as history:
            triggers = history.triggers() if self._trigger is None else [self._trigger]
            # A trigger that is about to begin has no rows yet.
            figures = {name: history.stats(dh.Trigger(name)) for name in triggers}
        if self._table == "transactions":
            return [_Rows([row for name, found in figures.items() for row in _transactions(name, found)])]
        if self._table == "statistics":
            return [_Rows([_statistics(name, found) for name, found in figures.items()])]
        if self._keys is not None:
            return [self._looked_up(triggers)]
        parts: list[InputPartition] = []
        # Not read-only: pinning seals the log, so that all parts are read from files that no longer change.
        with self._place.opened() as history:
            for name, found in figures.items():
                snapshot = Snapshot.of(self._place.holding(history), name, _LEASE)
                entries = found["segment_entries"] + found["log_entries"]
                count = self._partitions or min(-(-entries // _ENTRIES_A_PARTITION) or 1, _MOST_PARTITIONS)
                parts += [_Part(name, snapshot, (number, count)) for number in range(count)]
        return parts or [_Rows([])]

    def _looked_up(self, triggers: list[str]) -> "_Rows":
        """The entries of the wanted keys, looked up here and now: nothing is scanned, nothing pinned, no log sealed."""
        rows: list[dict[str, Any]] = []
        with self._place.open(read_only=True) as history:
            for name in triggers:
                one = dh.Trigger(name)
                found = history.entries(one, self._status, since=self._since, before=self._before, keys=self._keys)
                rows += found.read_all().to_pylist()
        return _Rows(rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        wanted = compat.arrow_schema_in_utc(self._columns)
        if isinstance(partition, _Rows):
            yield pa.RecordBatch.from_pylist(partition.rows, wanted)
            return
        if not isinstance(partition, _Part):
            raise TypeError(f"{type(partition).__name__} is not a partition of this reader")
        entries = partition.snapshot.open().entries(
            partition.trigger, self._status, since=self._since, before=self._before, part=partition.part
        )
        for batch in entries:
            yield pa.RecordBatch.from_arrays([batch[field.name].cast(field.type) for field in wanted], schema=wanted)


def _transactions(name: str, found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for application, (batch, has_ended) in found["transactions"].items():
        yield {"trigger": name, "application": application, "batch": batch, "ended": has_ended}


def _statistics(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **found,
        "trigger": name,
        "entries": found["segment_entries"] + found["log_entries"],
        "bytes": found["segment_bytes"] + found["log_bytes"] + found["filter_bytes"],
        "transactions": len(found["transactions"]),
        "partition_seconds": _seconds(found["partition"]),
        "history_time_to_live_seconds": _seconds(found["history_time_to_live"]),
    }


def _seconds(duration: dt.timedelta) -> float:
    return duration.total_seconds()
