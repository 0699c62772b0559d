"""Recording documents from Spark: what `df.write.format("dochistory")` and `writeStream.format("dochistory")` do.

Tasks write staged segments; the driver publishes those of the attempts that won, in one commit.
Staged files that no commit names are swept up later. A stream's batch is a transaction under its
query's id and its number: what Spark commits again changes nothing, and what it aborts after a
commit stays committed. Other rows under a known number are refused, or recorded as well
(`on_other_rows`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import StructType

import dochistory as dh
from dochistory.spark import checks, compat
from dochistory.spark.load import stage
from dochistory.spark.options import Options
from dochistory.spark.same_bucket import BucketSight
from dochistory.spark.same_directory import Sight
from dochistory.spark.settings import check_case
from dochistory.spark.shipped import Travelling, packed

compat.check_data_sources()

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage  # noqa: E402 - where there is none, that is said first

_OWN = ("started_at", "status")


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What one task staged."""

    receipts: list[bytes]
    query: str | None
    """The id of the streaming query; None outside a stream."""


class _Recorder:
    """What the batch's and the stream's writer have in common."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._place = options.place()
        self._trigger = options.trigger()
        self._record = options.record()
        self._application = options.application()
        self._columns = options.columns()
        self._on_other_rows = options.on_other_rows()
        self._status = self._columns.get("status", "status")
        if not self._trigger.use_history:
            raise dh.ConfigError(f"[DH-CONFIG] trigger {self._trigger.name} uses no history, so there is none to write")
        # Before anything runs.
        self._judged_by = checks.columns(
            self._trigger, schema, {one: at for one, at in self._columns.items() if one not in _OWN}
        )
        check_case({one: self._columns.get(one, one) for one in _OWN}, schema.names)
        _check_started_at(schema, self._columns.get("started_at", "started_at"))
        self._sight: Sight | BucketSight | None = None

    def see(self, *, makes: bool = True) -> None:
        """Remember the history; make it if it is not there and `makes` says so.

        Before the tasks run, and not by them: each that did not see it would make one of its own,
        and each would find out by itself that the trigger's stored settings differ.
        """
        with self._place.opened(create=makes) as history:
            if self._trigger.name in history.triggers():
                # Nothing to begin: only the settings are compared.
                history.begin(pa.table({name: pa.nulls(0) for name in self._judged_by}), self._trigger)
            self._sight = self._place.sight(history, self._trigger.name)

    def __reduce__(self) -> Any:
        """What travels to the executors, which may lack this package."""
        return packed(Travelling(type(self), self.__dict__))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the documents of one task. Runs in a worker."""
        first = next(iterator, None)
        if first is None:
            return Staged([], _streaming_query())
        batches = (self._with_status(batch) for batch in chain([first], iterator))
        if self._sight is None:
            raise dh.StateError("[DH-STATE] the driver must open the history before its tasks run")
        with self._sight.open() as history:
            receipt = stage(history, self._trigger, batches, self._with_status(first).schema, self._columns)
        return Staged([receipt], _streaming_query())

    def _with_status(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With the status that `record` says where a row has none."""
        if self._record == "completed":
            return batch
        place = batch.schema.get_field_index(self._status)
        if place < 0:
            return batch.append_column(self._status, pa.repeat(self._record, batch.num_rows))
        said = batch.column(place)
        if pa.types.is_null(said.type):
            said = pa.repeat(self._record, batch.num_rows)
        elif said.null_count and not pa.types.is_nested(said.type):
            said = pc.coalesce(said.cast(pa.string()), self._record)
        return batch.set_column(place, self._status, said)

    def publish(self, messages: Sequence[Any], transaction: tuple[str, int] | None) -> None:
        """Publish what the tasks staged, once."""
        receipts = _receipts(messages)
        if receipts:
            with self._place.opened() as history:
                history._shards.commit_entries(
                    receipts, self._trigger, transaction=transaction, on_other_rows=self._on_other_rows
                )

    def give_up(self, messages: Sequence[Any]) -> None:
        """Let go what the tasks staged, unless it was published."""
        receipts = _receipts(messages)
        if receipts:
            with self._place.opened() as history:
                history._shards.abort_entries(receipts)


def _check_started_at(schema: StructType, name: str) -> None:
    """A sink gets local times without the session's time zone, so nobody could say when that was."""
    if name not in schema.names:
        return
    found = schema[name].dataType
    if found.typeName() in ("timestamp_ntz", "date"):
        raise dh.SchemaError(f"[DH-SCHEMA] column {name!r} is {found.simpleString()}; cast it to timestamp")


def _streaming_query() -> str | None:
    """The id of the streaming query that this task works for; None outside a stream."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")


def _receipts(messages: Sequence[Any]) -> list[bytes]:
    # Of tasks that failed Spark says None.
    return [receipt for message in messages if message is not None for receipt in message.receipts]


class Writer(_Recorder, DataSourceArrowWriter):
    """Records the documents of a DataFrame."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._transaction = options.transaction()

    def commit(self, messages: Sequence[Any]) -> None:
        """All tasks are done."""
        self.publish(messages, self._transaction)

    def abort(self, messages: Sequence[Any]) -> None:
        """A task failed, or `commit` did."""
        self.give_up(messages)


class StreamWriter(_Recorder, compat.DataSourceStreamArrowWriter):  # type: ignore[misc] # which class it is depends on Spark
    """Records the documents of a stream."""

    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803 - Spark's word
        """All tasks of a batch are done."""
        queries = {message.query for message in messages if message is not None}
        application = self._application or next(iter(queries - {None}), None)
        if application is None and _receipts(messages):
            raise dh.ConfigError(
                "[DH-CONFIG] Spark does not tell the workers which query they work for: give the option application, "
                "a name that outlives restarts"
            )
        self.publish(messages, None if application is None else (application, batchId))

    def abort(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's words
        """A task of a batch failed, or `commit` did."""
        self.give_up(messages)


def writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> Writer:
    """The writer of a DataFrame.

    Raises:
        ConfigError: [DH-CONFIG] an option makes no sense, or the mode is `overwrite`: a history
            forgets by purging alone.
        SchemaError: [DH-SCHEMA] there is no id column.
    """
    if overwrite:
        raise dh.ConfigError(
            '[DH-CONFIG] a history is never overwritten: write with .mode("append"); a purge drops expired entries'
        )
    made = Writer(Options(given, writing=True), schema)
    made.see()
    return made


def stream_writer(given: Mapping[str, str], schema: StructType) -> StreamWriter:
    """The writer of a stream.

    Raises:
        ConfigError: [DH-CONFIG] an option makes no sense.
        SchemaError: [DH-SCHEMA] there is no id column.
        OpenError: [DH-OPEN] the stream has recorded batches before, and its history is away.
        UnsupportedError: before Spark 4.1.
    """
    compat.check_stream_sink()
    options = Options(given, writing=True)
    if options.number("batch") is not None:
        raise dh.ConfigError("[DH-CONFIG] a stream numbers its batches itself: leave the option batch out")
    made = StreamWriter(options, schema)
    # Spark makes a writer for each batch. Once the history was there, it must not be created again, empty, where its
    # disk is not mounted.
    made.see(makes=not options.has_committed())
    return made
