"""Asking a resolver on the driver about what the workers cannot decide."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

import dochistory as dh
from dochistory.spark import compat
from dochistory.spark.judge import Judge
from dochistory.spark.questions import _pairs as pairs
from dochistory.spark.staging import identified

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def resolved(judge: Judge, df: "DataFrame", found: dict[str, str]) -> Judge:
    """The same judge with a resolver that knows the answers to whatever `df` leaves undecided."""
    names = df.columns
    recording = judge.asking(_Recorder())

    def questions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        recorder = recording.settings["resolver"]
        for batch in batches:
            recorder.asked.clear()
            recording.words(identified(batch.rename_columns(names)), found)
            for one in recorder.asked:
                yield pa.record_batch({"asked": pa.array([_sent(one)], pa.binary())})

    numbered = df.toDF(*(f"c{n}" for n in range(len(names))))
    asked = numbered.mapInArrow(questions, StructType([StructField("asked", BinaryType())]))
    batches = [_received(one) for one in compat.collect_arrow(asked)["asked"].to_pylist()]
    return judge.asking(_answers(judge.settings["resolver"], batches))


def _sent(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    sent: bytes = sink.getvalue().to_pybytes()
    return sent


def _received(sent: bytes) -> pa.Table:
    return pa.ipc.open_stream(sent).read_all()


class _Recorder:
    """A resolver that decides nothing and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[pa.RecordBatch] = []

    def __call__(self, batch: pa.RecordBatch) -> list[str]:
        self.asked.append(batch)
        return ["IN_DOUBT"] * batch.num_rows


@dataclass(frozen=True)
class _Answers:
    """A resolver that repeats what another one said of each key, and why."""

    known: dict[tuple[str | None, str], tuple[Any, str | None]] = field(default_factory=dict)
    failure: Exception | None = None

    def __call__(self, batch: pa.RecordBatch) -> Any:
        if self.failure is not None:
            raise self.failure
        questions = zip(batch["dh_key"].to_pylist(), batch["dh_reason"].to_pylist(), strict=True)
        said = [
            self.known.get(one, ("IN_DOUBT", "This row was not there when the resolver was asked."))
            for one in questions
        ]
        if any(isinstance(status, Exception) for status, _ in said):
            return [status for status, _ in said]
        return pa.table(
            {
                "status": pa.array([status for status, _ in said], pa.string()),
                "message": pa.array([message for _, message in said], pa.string()),
            }
        )


def _answers(resolver: Any, batches: list[pa.Table]) -> _Answers:
    """Ask once, about all rows at once."""
    if not batches:
        return _Answers()
    asked = pa.concat_tables(batches, promote_options="permissive").combine_chunks()
    numbers = pa.array(range(asked.num_rows), asked.schema.field("dh_row").type)
    asked = asked.set_column(asked.schema.get_field_index("dh_row"), "dh_row", numbers)
    batch = asked.to_batches()[0]
    try:
        said = pairs(resolver(batch))
    except Exception as failure:  # noqa: BLE001 - whatever it raises is its answer, which the rules know to take
        return _Answers(failure=_sendable(failure))
    if len(said) != batch.num_rows:
        return _Answers(failure=RuntimeError(f"the resolver gave {len(said)} answers for {batch.num_rows} rows"))
    keys = zip(batch["dh_key"].to_pylist(), batch["dh_reason"].to_pylist(), strict=True)
    sendable = [(_sendable(one) if isinstance(one, Exception) else one, message) for one, message in said]
    return _Answers(dict(zip(keys, sendable, strict=True)))


def _sendable(failure: Exception) -> Exception:
    """The same to the rules, in a form that every worker knows."""
    return (dh.TransientError if isinstance(failure, dh.TransientError) else RuntimeError)(str(failure))
