"""A resolver on the driver: the undecided rows come to it, and its answers travel to the tasks.

The tasks decide their partitions twice by the same snapshot. The first time they only tell which rows a resolver would
be asked about; the second time they have its answers.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

import dochistory as dh
from dochistory.spark import compat
from dochistory.spark.staging import identified

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dochistory import Trigger
    from dochistory.spark.staging import Staging

_ASKED = {
    "dh_trigger": pa.string(),
    "dh_key": pa.string(),
    "dh_count": pa.int64(),
    "dh_reason": pa.string(),
    "dh_started_at": pa.timestamp("us", "UTC"),
    "dh_row": pa.int64(),
}


def answered(work: "Staging", routed: "DataFrame", found: dict[str, str]) -> "Trigger":
    """The trigger of `work` with a resolver that knows what its own one, asked here and once, says of the rows.

    Args:
        work: what the tasks do.
        routed: the documents, in the partitions in which they will be decided.
        found: the trigger's name of a column -> its name in `routed`.
    """
    columns = routed.select(*(routed[f"`{there}`"].alias(name) for name, there in found.items()))
    schema = to_arrow_schema(columns.schema)
    asked_schema = pa.schema([*schema, *(pa.field(name, type_) for name, type_ in _ASKED.items())])
    undecided = columns.mapInArrow(_Questions(work, asked_schema).of_part, from_arrow_schema(asked_schema))
    asked = compat.collect_arrow(undecided).cast(asked_schema).combine_chunks()
    if not asked.num_rows or work.trigger.resolver is None:
        return work.trigger
    return work.trigger_with(_ask(work.trigger.resolver, asked.to_batches()[0]))


@dataclass(frozen=True)
class _Questions:
    work: "Staging"
    schema: pa.Schema

    def of_part(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of one partition that a resolver would be asked about."""
        asked: list[pa.RecordBatch] = []

        def resolver(batch: pa.RecordBatch) -> list[str]:
            asked.append(batch)
            return ["IN_DOUBT"] * batch.num_rows

        received = [identified(batch) for batch in batches if batch.num_rows]
        if received:
            self.work.with_trigger(self.work.trigger_with(resolver)).staged(received)
        for batch in asked:
            columns = [
                batch.column(name).cast(type_) for name, type_ in zip(self.schema.names, self.schema.types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


@dataclass
class _Answers:
    """A resolver that has been asked: by key, and of several rows of one key by their order."""

    by_key: dict[str | None, list[tuple[Any, str | None]]] = field(default_factory=lambda: defaultdict(list))
    failure: Exception | None = None

    def __call__(self, batch: pa.RecordBatch) -> list[Any] | pa.Table:
        if self.failure is not None:
            raise self.failure
        left = {key: list(answers) for key, answers in self.by_key.items()}
        found = [left[key].pop(0) for key in batch["dh_key"].to_pylist()]
        if any(isinstance(status, Exception) for status, _ in found):
            return [status for status, _ in found]
        statuses, messages = zip(*found, strict=True)
        return pa.table({"status": pa.array(statuses, pa.string()), "message": pa.array(messages, pa.string())})


def _ask(resolver: Callable[[pa.RecordBatch], Any], asked: pa.RecordBatch) -> _Answers:
    try:
        reply = resolver(asked)
    except Exception as error:  # noqa: BLE001 - whatever it raises is an answer, by the rules
        kind = dh.TransientError if isinstance(error, dh.TransientError) else RuntimeError
        return _Answers({}, kind(str(error)))
    pairs = _pairs(reply)
    if len(pairs) != asked.num_rows:
        return _Answers({}, RuntimeError(f"the resolver gave {len(pairs)} answers for {asked.num_rows} rows"))
    answers = _Answers()
    for key, pair in zip(asked["dh_key"].to_pylist(), pairs, strict=True):
        answers.by_key[key].append(pair)
    return answers


def _pairs(reply: Any) -> list[tuple[Any, str | None]]:
    """Status and message of each row, whatever form the answer has."""
    if hasattr(reply, "column_names") or hasattr(reply, "columns"):
        table = pa.table(reply)
        statuses = table["status"].to_pylist()
        messages = table["message"].to_pylist() if "message" in table.column_names else [None] * len(statuses)
        return list(zip(statuses, messages, strict=True))
    statuses = reply.to_pylist() if hasattr(reply, "to_pylist") else list(reply)
    return [(status, None) for status in statuses]
