"""A batch of messages decided by Spark's tasks: each decides all messages of some streams, and changes nothing.

- route: all messages of a stream into one partition, those of earlier batches that wait before
  those of this one.
- decide: each task reads the rows of its streams in the shared history, and decides its partition.
- keep: the rows and what was decided are materialised, once; the tasks' receipts go to the driver,
  which commits them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DecimalType,
    LongType,
    NumericType,
    StructField,
    StructType,
)

import dochistory as dh
from dochistory.spark import compat
from dochistory.spark.decode import quoted
from dochistory.spark.newest import newest
from dochistory.spark.same_bucket import BucketSight
from dochistory.spark.same_directory import Sight
from dochistory.spark.settings import check_case
from dochistory.spark.staging import cut, version_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROLES = ("stream", "header", "resend_count", "prev", "cur", "seq")
WORDS = ("decision", "status", "reason")
OFFSET = DecimalType(20, 0)
"""Spark has no unsigned numbers of 64 bits."""

_KEPT = "__dochistory_kept"
_ARRIVAL = "__dochistory_arrival"
_ANSWER = "__dochistory_answer"

RETURNED = StructType(
    [
        *(StructField(name, ByteType(), False) for name in WORDS),
        StructField("transaction", OFFSET),
        StructField("apply_rank", LongType(), False),
        StructField("commit", OFFSET),
        StructField("keep", BooleanType(), False),
        StructField("version", LongType(), False),
        StructField("applied", LongType(), False),
        StructField("kept", LongType(), False),
        StructField("receipt", BinaryType()),
    ]
)
"""What a task says of each row; the receipt of its partition, and its counts, stand in the last one."""


@dataclass(frozen=True)
class DeliveryShard:
    """What travels to the tasks."""

    sight: Sight | BucketSight
    plan: bytes
    roles: tuple[str, ...]
    stream: str | None

    def part(self, batches: Iterator[Sequence[pa.Array]]) -> Iterator[pa.StructArray]:
        """Decide one partition: as many rows as came, in the same batches."""
        names = ["kept", *self.roles]
        received = [pa.RecordBatch.from_arrays(list(one), names) for one in batches]
        lengths = [batch.num_rows for batch in received]
        if not sum(lengths):
            return
        table = pa.Table.from_batches(received)
        kept = pc.sum(table["kept"]).as_py() or 0
        with newest(self.sight) as history:
            decided, receipt = history._shards.decide_delivery(
                self.plan, table.drop_columns(["kept"]), kept=kept, stream=self.stream
            )
        yield from cut(_columns(received, decided), lengths, receipt, RETURNED.names)


def _columns(received: list[pa.RecordBatch], decided: pa.RecordBatch) -> dict[str, pa.Array]:
    columns = {name: decided.column(name).indices for name in WORDS}
    for name in ("transaction", "commit"):
        columns[name] = decided.column(name).cast(pa.decimal128(20, 0))
    # Where Spark hands answers on through pandas, numbers with nulls would be floats.
    columns["apply_rank"] = decided.column("apply_rank").cast(pa.int64()).fill_null(-1)
    columns["keep"] = decided.column("keep")
    applied = pc.sum(pc.greater_equal(columns["apply_rank"], 0)).as_py() or 0
    fixed = {"version": version_of(received, columns), "applied": applied, "kept": pc.sum(columns["keep"]).as_py() or 0}
    for name, value in fixed.items():
        columns[name] = pa.repeat(pa.scalar(value, pa.int64()), decided.num_rows)
    return columns


@dataclass(frozen=True)
class Decided:
    """A batch that the tasks have decided. Its DataFrames read what Spark keeps; nothing is decided again."""

    receipts: list[bytes]
    applied: int
    """Messages to apply, released ones included."""
    messages: "DataFrame"
    """They, each stream in one partition and in the order of application."""
    kept: "DataFrame | None"
    """The rows that wait, to be handed in again with the next batch; None if there are none."""
    rows: "DataFrame"
    stored: "DataFrame"
    """What Spark keeps, until somebody lets it go."""
    columns: list[str]

    def decisions(self, words: pa.RecordBatch) -> "DataFrame":
        """The rows of the batch, and what was decided about each.

        Args:
            words: columns with the words which the tasks give as numbers.
        """

        def word(name: str) -> "Column":
            known = F.array(*(F.lit(one) for one in words.column(name).dictionary.to_pylist()))
            return F.element_at(known, F.col(f"{_ANSWER}.{name}").cast("int") + 1).alias(f"dh_{name}")

        transaction, rank = F.col(f"{_ANSWER}.transaction"), F.col(f"{_ANSWER}.apply_rank")
        numbers = (transaction.alias("dh_transaction"), F.when(rank >= 0, rank).alias("dh_apply_rank"))
        return self.rows.where(~F.col(_KEPT)).select(*_own(self.columns), *map(word, WORDS), *numbers)


@dataclass(frozen=True)
class DeliveryShards:
    """How batches are decided by tasks."""

    sight: Sight | BucketSight
    columns: Mapping[str, str]
    stream: str | None
    parts: int | None

    def decide(self, frame: "DataFrame", kept: "DataFrame | None", plan: bytes) -> Decided:
        """Decide a batch, and keep what was decided.

        Args:
            frame: the batch; it is evaluated once.
            kept: the rows that wait from earlier batches.
            plan: from `Shards.plan_delivery`.
        """
        wanted = {role: self.columns.get(role, role) for role in ROLES}
        check_case(wanted, frame.columns)
        found = {role: there for role, there in wanted.items() if there in frame.columns}
        if "stream" not in found and self.stream is None:
            raise dh.SchemaError("[DH-SCHEMA] there is no column 'stream': name it, as in columns={'stream': 'mine'}")
        routed = self._routed(frame, kept, found)
        takes = StructType([routed.schema[name] for name in (_KEPT, *found.values())])
        decide = compat.partition_udf(DeliveryShard(self.sight, plan, tuple(found), self.stream).part, takes, RETURNED)
        answered = routed.withColumn(_ANSWER, decide(*(routed[quoted(name)] for name in (_KEPT, *found.values()))))
        rows = answered.localCheckpoint(eager=True)
        receipts = rows.where(F.col(f"{_ANSWER}.receipt").isNotNull()).select(f"{_ANSWER}.*").collect()
        checked = rows.where(_is_of([row.version for row in receipts]))
        stream = F.lit(self.stream) if "stream" not in found else F.col(quoted(found["stream"]))
        waits = (
            checked.where(f"{_ANSWER}.keep").select(*_own(frame.columns)) if sum(row.kept for row in receipts) else None
        )
        return Decided(
            [bytes(row.receipt) for row in receipts],
            sum(row.applied for row in receipts),
            _messages(checked, frame.columns, stream),
            waits,
            checked,
            rows,
            frame.columns,
        )

    def _routed(self, frame: "DataFrame", kept: "DataFrame | None", found: dict[str, str]) -> "DataFrame":
        """Each stream in one partition; rows that wait first, and all in the order in which `collect` brings them."""

        def numbered(rows: "DataFrame", *, is_kept: bool) -> "DataFrame":
            number = F.monotonically_increasing_id().alias(_ARRIVAL)
            return rows.select(*_own(frame.columns), F.lit(is_kept).alias(_KEPT), number)

        rows = numbered(frame, is_kept=False)
        if kept is not None:
            if missing := set(frame.columns).symmetric_difference(kept.columns):
                names = ", ".join(sorted(missing))
                raise dh.SchemaError(
                    f"[DH-SCHEMA] messages wait from earlier batches, which differ in the columns {names}"
                )
            _check_types(kept.schema, frame.schema)
            rows = numbered(kept, is_kept=True).unionByName(rows)
        if "stream" in found:
            parts = self.parts or compat.parallelism(frame.sparkSession)
            routed = rows.repartition(parts, F.col(quoted(found["stream"])))
        else:
            routed = rows.repartition(1)
        return routed.sortWithinPartitions(F.col(_KEPT).desc(), _ARRIVAL)


def _check_types(kept: StructType, now: StructType) -> None:
    """Refuse columns whose type has changed: Spark would cast them, or fail to, task by task.

    Of two kinds of numbers it takes the wider one.
    """
    for field in now.fields:
        types = (kept[field.name].dataType, field.dataType)
        before, after = (one.simpleString() for one in types)
        if before != after and not all(isinstance(one, NumericType) for one in types):
            raise dh.SchemaError(
                f"[DH-SCHEMA] messages wait from earlier batches, whose column {field.name!r} is {before}, and now it "
                f"is {after}: cast it to one type"
            )


def _own(columns: list[str]) -> list["Column"]:
    return [F.col(quoted(name)) for name in columns]


def _is_of(versions: list[int]) -> "Column":
    """Whether a row was decided as the receipts say. Another is an error: Spark kept what two attempts decided."""
    message = (
        "[DH-STATE] Spark kept two versions of this batch, decided differently by two attempts at a task: "
        "start the batch again"
    )
    return F.when(F.col(f"{_ANSWER}.version").isin(versions), F.lit(True)).otherwise(
        F.raise_error(F.lit(message)).cast("boolean")
    )


def _messages(rows: "DataFrame", columns: list[str], stream: "Column") -> "DataFrame":
    added = [
        stream.alias("dh_stream"),
        F.col(f"{_ANSWER}.transaction").alias("dh_transaction"),
        F.col(f"{_ANSWER}.commit").alias("dh_commit"),
        F.col(f"{_ANSWER}.apply_rank").alias("dh_apply_rank"),
    ]
    applied = rows.where(F.col(f"{_ANSWER}.apply_rank") >= 0).select(*_own(columns), *added)
    return applied.sortWithinPartitions("dh_stream", "dh_apply_rank")
