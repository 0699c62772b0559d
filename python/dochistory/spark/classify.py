"""Add verdicts to a DataFrame. A pure read: the same plan gives the same verdicts, however often Spark runs it."""

import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StringType, StructField, StructType

import dochistory as dh
from dochistory.spark import compat
from dochistory.spark.settings import columns_of, settings_of
from dochistory.spark.snapshots import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dochistory import History, Trigger

VERDICT_COLUMNS = ("status", "action", "acknowledge", "rule", "key", "message")
"""What `classify` appends, in this order; all are strings."""


def classify(
    df: "DataFrame",
    history: "History | str | os.PathLike[str]",
    trigger: "Trigger",
    how: Literal["udf", "map"] = "udf",
    *,
    columns: Mapping[str, str] | None = None,
    now: dt.datetime | None = None,
    prefix: str = "",
) -> "DataFrame":
    """Every row of `df` with its verdict by the history as it is now.

    The history is pinned when this is called: whatever is added to it later, the returned DataFrame's verdicts stay the
    same, in every action, retry and branch of a plan. Nothing is recorded. Each row is judged by the history alone, so
    copies of an id within `df` all get the first one's verdict: which row comes first is nothing that Spark keeps.
    (`exactly_once` decides about copies, when it begins a batch.)

    Args:
        df: the documents, with the columns that the trigger looks at (`uuid`, `track_id`, `event_id`,
            `redelivery_count`, `guaranteed`; for JMS `uuid`, `jms_message_id`, `delivery_count`, `persistent`) and any
            others. At least one id column must be there.
        history: the history or its directory, which every worker must see under the same path.
        trigger: whose documents they are. A resolver runs in the workers, once per Arrow batch with undecided rows.
        how: `udf` sends only the trigger's columns to Python and leaves the others in the JVM; a resolver then sees
            only those. `map` sends whole rows.
        columns: the trigger's name of a column -> its name in `df`, where they differ.
        now: the clock by which entries expire; the time of this call, if absent.
        prefix: put before the names of the six appended columns.

    Returns:
        The rows of `df`, and appended as strings: `status` (NEW, DUPLICATE, IN_DOUBT, or null), `action` (PROCESS,
        DISCARD, LOG, SUSPEND, REJECT), `acknowledge` (AFTER_SERVICE, NOW, NO), `rule`, `key`, `message`.

    Raises:
        SchemaError: there is no id column, `columns` names one that is missing, or a verdict's column is there already.
        OpenError: there is no history at that path.
    """
    if how not in ("udf", "map"):
        raise dh.ConfigError(f"[DH-CONFIG] how is 'udf' or 'map', not {how!r}")
    appended = [prefix + name for name in VERDICT_COLUMNS]
    if taken := [name for name in appended if name in df.columns]:
        raise dh.SchemaError(f"[DH-SCHEMA] the column {', '.join(taken)} is there already: rename it or give a prefix")
    found = columns_of(trigger, df.columns, columns)
    judge = _Judge(
        Snapshot.of(history, trigger),
        # Copies are judged alone, so that a verdict does not depend on how Spark cuts rows into Arrow batches.
        {**settings_of(trigger), "in_batch": "new"},
        now or dt.datetime.now(dt.UTC),
    )
    if how == "map":
        schema = StructType(df.schema.fields + [StructField(name, StringType()) for name in appended])
        # mapInArrow looks columns up by name, and fails where a name has a dot.
        numbered = df.toDF(*(f"c{n}" for n in range(len(df.columns))))
        return numbered.mapInArrow(judge.rows(df.columns, found), schema)
    returned = StructType([StructField(name, StringType()) for name in VERDICT_COLUMNS])
    taken_columns = StructType([df.schema[there] for there in found.values()])
    verdict = compat.columnar_udf(judge.columns(list(found)), taken_columns, returned)
    inner = "__dochistory_verdict"
    judged = df.withColumn(inner, verdict(*(df[f"`{there}`"] for there in found.values())))
    names = zip(VERDICT_COLUMNS, appended, strict=True)
    kept = [judged[f"`{name}`"] for name in df.columns]
    return judged.select(*kept, *(judged[inner][name].alias(alias) for name, alias in names))


@dataclass(frozen=True)
class _Judge:
    """What travels to the workers."""

    snapshot: Snapshot
    settings: dict[str, Any]
    now: dt.datetime

    def columns(self, names: list[str]) -> Callable[[Sequence[pa.Array]], pa.StructArray]:
        def judged(arrays: Sequence[pa.Array]) -> pa.StructArray:
            verdicts = self._verdicts(pa.RecordBatch.from_arrays(list(arrays), names), None)
            return pa.StructArray.from_arrays(verdicts, list(VERDICT_COLUMNS))

        return judged

    def rows(
        self, names: list[str], found: dict[str, str]
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        def judged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                verdicts = self._verdicts(batch.rename_columns(names), found)
                # Spark goes by position and gives the columns their names.
                unnamed = [str(n) for n in range(len(names) + len(verdicts))]
                yield pa.RecordBatch.from_arrays([*batch.columns, *verdicts], unnamed)

        return judged

    def _verdicts(self, documents: pa.RecordBatch, columns: dict[str, str] | None) -> list[pa.Array]:
        trigger = dh.Trigger(**self.settings)
        verdicts = self.snapshot.open().classify(documents, trigger, columns=columns, now=self.now)
        return [_plain(verdicts.column(name), name) for name in VERDICT_COLUMNS]


def _plain(column: pa.Array, name: str) -> pa.Array:
    """The column as the plain strings that Spark takes from Python."""
    if not pa.types.is_dictionary(column.type):
        return column.cast(pa.string())
    values = column.dictionary.cast(pa.string())
    if name == "rule":
        values = pc.replace_substring(values, "+batch", "")
    return values.take(column.indices)
