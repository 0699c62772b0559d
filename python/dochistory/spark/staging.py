"""What a task of a claim does: decide all rows of its partition, and stage `processing` for what is to be processed.

Nothing here is part of the history until the driver commits it. A task may be tried again, run
twice, or end long after everybody has forgotten it: each attempt writes files of its own.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, ByteType, LongType, StringType, StructField, StructType

import dochistory as dh
from dochistory.spark.beside import beside
from dochistory.spark.snapshots import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from dochistory import Trigger
    from dochistory._native import Staged

WORDS = ("status", "action", "acknowledge", "rule")
"""The verdict columns that come back as numbers of words: a byte each, -1 for none."""

RETURNED = StructType(
    [
        *(StructField(name, ByteType(), False) for name in WORDS),
        StructField("message", StringType()),
        StructField("version", LongType(), False),
        StructField("receipt", BinaryType()),
    ]
)
"""What a task says of each row; the receipt of its partition stands in the last one."""


@dataclass(frozen=True)
class Staging:
    """What travels to the tasks."""

    snapshot: Snapshot
    job: str
    trigger: "Trigger"
    names: tuple[str, ...]

    def part(self, batches: Iterator[Sequence[pa.Array]]) -> Iterator[pa.StructArray]:
        """Stage one partition, and say of its rows what is decided: as many rows as came, in the same batches."""
        # The rows come while the store answers.
        with beside(self.snapshot.open, Thread) as ready:
            received = [pa.RecordBatch.from_arrays(list(one), list(self.names)) for one in batches]
            if not any(batch.num_rows for batch in received):
                return
            ready()
        staged = self.staged(received)
        verdicts = staged.verdicts.combine_chunks()
        columns = {name: numbers(verdicts[name]) for name in WORDS}
        columns["message"] = verdicts["message"].combine_chunks().cast(pa.string())
        columns["version"] = pa.repeat(pa.scalar(version_of(received, columns), pa.int64()), verdicts.num_rows)
        yield from cut(columns, [batch.num_rows for batch in received], staged.receipt, RETURNED.names)

    def staged(self, received: list[pa.RecordBatch]) -> "Staged":
        """Decide the rows of this task's partition together, and stage what is to be processed."""
        context = _task()
        return self.snapshot.open()._shards.stage(
            pa.Table.from_batches(received),
            self.trigger,
            job=self.job,
            part=context.partitionId(),
            attempt=attempt_name(context),
        )

    def trigger_with(self, resolver: "Callable[[pa.RecordBatch], Any]") -> "Trigger":
        """The trigger with another resolver."""
        return self.trigger.replace(resolver=resolver)

    def with_trigger(self, trigger: "Trigger") -> "Staging":
        """The same for another trigger of that name."""
        return replace(self, trigger=trigger)


def _task() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise dh.StateError("[DH-STATE] only Spark tasks stage documents, and this is not one")
    return context


def version_of(rows: Sequence[pa.RecordBatch], decided: Mapping[str, pa.Array]) -> int:
    """A number that attempts at a task share if they were given the same rows, and decided the same.

    Spark may keep the rows of two attempts, each on its own executor: the copy of a slow task
    (`spark.speculation`) ends when the task itself does. A later job reads the ones or the others.
    """
    digest = hashlib.blake2b(digest_size=8)
    for batch in (*rows, pa.RecordBatch.from_arrays(list(decided.values()), list(decided))):
        digest.update(batch.serialize())
    return int.from_bytes(digest.digest(), "little", signed=True)


def attempt_name(context: TaskContext) -> str:
    """A name that no other attempt at a task of this application has."""
    return f"s{context.stageId()}-p{context.partitionId()}-a{context.attemptNumber()}-t{context.taskAttemptId()}"


def cut(
    columns: Mapping[str, pa.Array], lengths: list[int], receipt: bytes, names: list[str]
) -> Iterator[pa.StructArray]:
    """What a task says of its rows, in the batches in which they came.

    Args:
        columns: what it says.
        lengths: how many rows each batch has; one has some.
        receipt: of the partition; it stands in the last row, as the column `receipt`.
        names: all columns, in order.
    """
    receipts = pa.concat_arrays([pa.nulls(sum(lengths) - 1, pa.binary()), pa.array([receipt], pa.binary())])
    whole = {**columns, "receipt": receipts}
    start = 0
    for length in lengths:
        yield pa.StructArray.from_arrays([whole[name].slice(start, length) for name in names], names)
        start += length


def numbers(column: "pa.ChunkedArray | pa.Array") -> pa.Array:
    """The words of a verdict column as their numbers; -1 for none."""
    one = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    chunk = one.chunk(0) if isinstance(one, pa.ChunkedArray) else one
    return chunk.indices.fill_null(-1)
