"""A resolver on the driver: the undecided rows come to it, and its answers travel to the tasks.

The tasks decide by the same snapshot twice. The first time they only tell which rows a resolver
would be asked about; the second time they have its answers.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

import dochistory as dh
from dochistory.spark import compat
from dochistory.spark.decode import quoted
from dochistory.spark.shipped import iterating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dochistory import Trigger
    from dochistory.spark.decider import Decider
    from dochistory.spark.staging import Staging

_Question = tuple[str | None, str]
_Answer = tuple[Any, str | None]

_SENT = StructType([StructField("asked", BinaryType())])


def answered(work: "Staging", routed: "DataFrame", found: dict[str, str]) -> "Trigger":
    """The trigger of a claim with a resolver that knows what its own one, asked here and once, says of each row.

    Args:
        work: what the tasks do.
        routed: the documents, in the partitions in which they will be decided.
        found: the trigger's name of a column -> its name in `routed`.
    """

    def stage(documents: Iterator[pa.RecordBatch], recorder: "_Recorder") -> None:
        received = [batch for batch in documents if batch.num_rows]
        if received:
            work.with_trigger(work.trigger_with(recorder)).staged(received)

    columns = routed.select(*(routed[quoted(there)] for there in found.values()))
    asked = _asked(columns, list(found), stage)
    return work.trigger if asked is None else work.trigger_with(_answers(work.trigger.resolver, asked, by_row=True))


def resolved(judge: "Decider", df: "DataFrame", found: dict[str, str]) -> "Decider":
    """The judge of a plan with a resolver that knows the answers to whatever `df` leaves undecided."""

    def ask(documents: Iterator[pa.RecordBatch], recorder: "_Recorder") -> None:
        recording = judge.asking(recorder)
        for batch in documents:
            recording.words(batch, found)

    asked = _asked(df, df.columns, ask)
    return judge.asking(_Answers() if asked is None else _answers(judge.settings["resolver"], asked, by_row=False))


@dataclass
class _Recorder:
    """A resolver that decides nothing and remembers what it was asked."""

    asked: list[pa.RecordBatch] = field(default_factory=list)

    def __call__(self, batch: pa.RecordBatch) -> list[str]:
        self.asked.append(batch)
        return ["IN_DOUBT"] * batch.num_rows


def _asked(
    df: "DataFrame", names: list[str], decide: Callable[[Iterator[pa.RecordBatch], _Recorder], None]
) -> pa.RecordBatch | None:
    """The rows of `df`, its columns under these names, that `decide` asks a resolver about; None if there are none."""

    def questions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        recorder = _Recorder()
        decide((batch.rename_columns(names) for batch in batches), recorder)
        for one in recorder.asked:
            yield pa.record_batch({"asked": pa.array([_sent(one)], pa.binary())})

    # mapInArrow looks columns up by name, and fails where a name has a dot.
    numbered = df.toDF(*(f"c{number}" for number in range(len(names))))
    sent = compat.collect_arrow(numbered.mapInArrow(iterating(questions), _SENT))["asked"].to_pylist()
    if not sent:
        return None
    asked = pa.concat_tables([_received(one) for one in sent], promote_options="permissive").combine_chunks()
    place = asked.schema.get_field_index("dh_row")
    numbers = pa.array(range(asked.num_rows), asked.schema.field(place).type)
    return asked.set_column(place, "dh_row", numbers).to_batches()[0]


def _sent(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    sent: bytes = sink.getvalue().to_pybytes()
    return sent


def _received(sent: bytes) -> pa.Table:
    return pa.ipc.open_stream(sent).read_all()


@dataclass(frozen=True)
class _Answers:
    """A resolver that repeats what another one said of each key, and why it was asked."""

    known: dict[_Question, list[_Answer]] = field(default_factory=dict)
    by_row: bool = False
    """Whether rows of one key get answers of their own, in their order. Else all get the first."""
    failure: Exception | None = None

    def __call__(self, batch: pa.RecordBatch) -> Any:
        if self.failure is not None:
            raise self.failure
        taken = Counter[_Question]()
        said: list[_Answer] = []
        for question in _questions(batch):
            answers = self.known.get(question, [_UNASKED])
            said.append(answers[min(taken[question], len(answers) - 1) if self.by_row else 0])
            taken[question] += 1
        if any(isinstance(status, Exception) for status, _ in said):
            return [status for status, _ in said]
        statuses, messages = zip(*said, strict=True)
        return pa.table({"status": pa.array(statuses, pa.string()), "message": pa.array(messages, pa.string())})


_UNASKED: _Answer = ("IN_DOUBT", "This row was not there when the resolver was asked.")


def _questions(batch: pa.RecordBatch) -> "zip[_Question]":
    return zip(batch["dh_key"].to_pylist(), batch["dh_reason"].to_pylist(), strict=True)


def _answers(resolver: Any, asked: pa.RecordBatch, *, by_row: bool) -> _Answers:
    """Ask once, about all rows at once."""
    try:
        said = _pairs(resolver(asked))
    except Exception as failure:  # noqa: BLE001 - whatever it raises is its answer, which the rules know to take
        return _Answers(failure=_sendable(failure))
    if len(said) != asked.num_rows:
        return _Answers(failure=RuntimeError(f"the resolver gave {len(said)} answers for {asked.num_rows} rows"))
    known: dict[_Question, list[_Answer]] = {}
    for question, (status, message) in zip(_questions(asked), said, strict=True):
        one = _sendable(status) if isinstance(status, Exception) else status
        known.setdefault(question, []).append((one, message))
    return _Answers(known, by_row)


def _sendable(failure: Exception) -> Exception:
    """The same to the rules, in a form that every worker knows."""
    return (dh.TransientError if isinstance(failure, dh.TransientError) else RuntimeError)(str(failure))


def _pairs(reply: Any) -> list[_Answer]:
    """Status and message of each row, whatever form the answer has."""
    if hasattr(reply, "column_names") or hasattr(reply, "columns"):
        table = pa.table(reply)
        statuses = table["status"].to_pylist()
        messages = table["message"].to_pylist() if "message" in table.column_names else [None] * len(statuses)
        return list(zip(statuses, messages, strict=True))
    statuses = reply.to_pylist() if hasattr(reply, "to_pylist") else list(reply)
    return [(status, None) for status in statuses]
