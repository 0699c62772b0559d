"""Add verdicts to a DataFrame. A pure read: the same plan gives the same verdicts, however often Spark runs it."""

import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql.types import ByteType, DataType, ShortType, StringType, StructField, StructType

from dochistory.spark import checks, compat, resolver_on_driver
from dochistory.spark.decider import VERDICT_COLUMNS, Decider
from dochistory.spark.decode import quoted, verdict_sql, verdict_words
from dochistory.spark.place import Place
from dochistory.spark.settings import ids_of, types_of
from dochistory.spark.shipped import iterating

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from dochistory import History, Trigger

_CODE = "__dochistory_verdict"


def classify(
    df: "DataFrame",
    history: "History | str | os.PathLike[str]",
    trigger: "Trigger",
    how: Literal["udf", "map"] = "udf",
    *,
    columns: Mapping[str, str] | None = None,
    now: dt.datetime | None = None,
    prefix: str = "",
    resolve: Literal["workers", "driver"] = "workers",
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> "DataFrame":
    """Every row of `df` with its verdict by the history as it is now.

    The history is pinned when this is called: whatever is added to it later, the returned
    DataFrame's verdicts stay the same, in every action, retry and branch of a plan. Nothing is
    recorded. Each row is judged by the history alone, so copies of an id within `df` all get the
    first one's verdict: which row comes first is nothing that Spark keeps. (`exactly_once` decides
    about copies, when it begins a batch.)

    Args:
        df: the documents, with the columns that the trigger looks at (`uuid`, `track_id`,
            `event_id`, `redelivery_count`, `guaranteed`; for JMS `uuid`, `jms_message_id`,
            `delivery_count`, `persistent`) and any others. At least one id column must be there:
            text, or UUIDs as 16 bytes of binary.
        history: the history, its directory, which every worker must see under the same path, or the
            URL of its bucket.
        trigger: whose documents they are.
        how: `udf` sends only the trigger's columns to Python and leaves the others in the JVM; a
            resolver then sees only those. `map` sends whole rows.
        columns: the trigger's name of a column -> its name in `df`, where they differ.
        now: the clock by which entries expire; the time of this call, if absent.
        prefix: put before the names of the six appended columns.
        resolve: where a resolver runs. `workers`: in the tasks, once per Arrow batch with undecided
            rows, whenever the plan is evaluated. `driver`: here, now, once, about all undecided
            rows of `df`, which is evaluated for that; its answers then travel with the plan. (Keys
            are told apart, not rows: copies get one answer.)
        storage_options: for the URL of a bucket: credentials, region, endpoint and the like. They
            travel to the workers, and are shown nowhere; what is absent comes from the environment
            of each process, or from its machine's role.
        cache: for the URL of a bucket: a directory on a local disk of every machine, which keeps
            what was fetched; one below the system's directory for temporary files, if absent.

    Returns:
        The rows of `df`, and appended as strings: `status` (NEW, DUPLICATE, IN_DOUBT, or null),
            `action` (PROCESS,
        DISCARD, LOG, SUSPEND, REJECT), `acknowledge` (AFTER_SERVICE, NOW, NO), `rule`, `key`,
            `message`.

    Raises:
        SchemaError: [DH-SCHEMA] there is no id column, `columns` names one that is missing, or a
            verdict's column is there already.
        OpenError: [DH-OPEN] there is no history at that path.
        ConfigError: [DH-CONFIG] `df` is no DataFrame of Spark, or another argument is none of the
            above.
    """
    checks.frame("df", df)
    compat.check_choice("how", how, ("udf", "map"))
    compat.check_choice("resolve", resolve, ("workers", "driver"))
    appended = [prefix + name for name in VERDICT_COLUMNS]
    checks.are_free(df, appended)
    found = checks.columns(trigger, df.schema, columns)
    if how == "udf":
        checks.names_differ(df)
    judge = Decider.of(Place.of(history, storage_options, cache), trigger, now)
    if judge.asks and resolve == "driver":
        seen = df.select(*(df[quoted(there)] for there in found.values())) if how == "udf" else df
        judge = resolver_on_driver.resolved(judge, seen, found)
    returned = verdict_type(judge, found)
    if how == "map":
        # mapInArrow looks columns up by name, and fails where a name has a dot.
        places = {name: f"c{place}" for place, name in enumerate(df.columns)}
        numbered = df.toDF(*(f"c{place}" for place in range(len(df.columns))))
        schema = StructType([*numbered.schema.fields, StructField(_CODE, returned)])
        judged = numbered.mapInArrow(iterating(_of_rows(judge, df.columns, found)), schema)
        kept = [f"c{place} AS {quoted(name)}" for place, name in enumerate(df.columns)]
    else:
        function = compat.columnar_udf(of_columns(judge, list(found)), types_of(found), returned)
        # Otherwise Spark may ask once for every use that the plan makes of it.
        once = function.asNondeterministic()
        judged = df.withColumn(_CODE, once(*map(quoted, found.values())))
        places = {name: quoted(name) for name in df.columns}
        kept = [quoted(name) for name in df.columns]
    ids = [(places[there], df.schema[there].dataType) for there in ids_of(found)]
    words = [f"{_CODE}.{name}" for name in VERDICT_COLUMNS] if judge.asks else verdict_sql(_CODE, ids)
    return judged.selectExpr(*kept, *(f"{word} AS {quoted(name)}" for word, name in zip(words, appended, strict=True)))


def verdict_type(judge: Decider, found: Mapping[str, object]) -> DataType:
    """What comes back from Python: a number a row, or words where a resolver may have something to say."""
    if judge.asks:
        return StructType([StructField(name, StringType()) for name in VERDICT_COLUMNS])
    return ByteType() if len(ids_of(found)) == 1 else ShortType()


def words_of(judge: Decider, answered: "Column", ids: "list[Column]") -> "list[Column]":
    """The six columns of the verdict that came back."""
    if judge.asks:
        return [answered[name] for name in VERDICT_COLUMNS]
    return verdict_words(answered, ids)


def of_columns(judge: Decider, names: list[str]) -> Callable[[Sequence[pa.Array]], pa.Array]:
    """The function of a trigger's columns that runs in the workers."""

    def judged(arrays: Sequence[pa.Array]) -> pa.Array:
        documents = pa.RecordBatch.from_arrays(list(arrays), names)
        if judge.asks:
            return pa.StructArray.from_arrays(judge.words(documents), list(VERDICT_COLUMNS))
        return judge.codes(documents)

    return judged


def _of_rows(
    judge: Decider, names: list[str], found: dict[str, str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of whole rows that runs in the workers."""

    def answered(documents: pa.RecordBatch) -> pa.Array:
        if judge.asks:
            return pa.StructArray.from_arrays(judge.words(documents, found), list(VERDICT_COLUMNS))
        return judge.codes(documents, found)

    def judged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            answer = answered(batch.rename_columns(names))
            yield pa.RecordBatch.from_arrays([*batch.columns, answer], [*batch.schema.names, _CODE])

    return judged
