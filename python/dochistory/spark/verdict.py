"""The verdict as one column, for any `select`, and as functions of SQL."""

import datetime as dt
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StringType, StructField, StructType

import dochistory as dh
from dochistory import _checks
from dochistory.spark import checks, compat
from dochistory.spark.classify import of_columns, verdict_type, words_of
from dochistory.spark.decider import VERDICT_COLUMNS, Decider
from dochistory.spark.decode import quoted
from dochistory.spark.place import Place
from dochistory.spark.settings import COLUMNS, columns_of, ids_of, types_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from dochistory import History, Trigger

_VERDICT = StructType([StructField(name, StringType()) for name in VERDICT_COLUMNS])


def verdict(
    history: "History | str | os.PathLike[str]",
    trigger: "Trigger",
    *,
    columns: "Mapping[str, Column | str] | None" = None,
    now: dt.datetime | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> "Column":
    """The verdict of each row, as a column for any `select`, `where` or `withColumn`.

    ```python
    judged = df.select("*", dh.spark.verdict("orders.history", trigger).alias("verdict"))
    judged.where("verdict.status = 'NEW'")
    ```

    As `classify`, but for `how="udf"` and as a single column; the history is pinned when this is
    called.

    Args:
        history: the history, its directory, which every worker must see under the same path, or the
            URL of its bucket.
        trigger: whose documents they are. A resolver runs in the workers and sees the trigger's
            columns; Spark may ask it more than once about a row, where the plan uses the verdict in
            several places.
        columns: the trigger's name of a column -> the column, or its name. These are what is looked
            at, no others. If absent, `uuid` and the count (`redelivery_count`; `delivery_count` for
            JMS), which must both be there.
        now: the clock by which entries expire; the time of this call, if absent.
        storage_options: for the URL of a bucket: credentials, region, endpoint and the like. They
            travel to the workers, and are shown nowhere; what is absent comes from the environment
            of each process, or from its machine's role.
        cache: for the URL of a bucket: a directory on a local disk of every machine, which keeps
            what was fetched; one below the system's directory for temporary files, if absent.

    Returns:
        A struct of six strings: `status`, `action`, `acknowledge`, `rule`, `key`, `message`.

    Raises:
        SchemaError: [DH-SCHEMA] `columns` names none of the trigger's ids, or something that the
            trigger does not look at.
        OpenError: [DH-OPEN] there is no history at that path.
        ConfigError: [DH-CONFIG] an argument is of another kind than above.
    """
    _checks.trigger(trigger)
    _checks.columns(columns)
    given = _given(trigger, columns)
    judge = Decider.of(Place.of(history, storage_options, cache), trigger, now)
    taken = {name: F.col(quoted(one)) if isinstance(one, str) else one for name, one in given.items()}
    function = compat.columnar_udf(of_columns(judge, list(taken)), types_of(taken), verdict_type(judge, taken))
    words = words_of(judge, function(*taken.values()), ids_of(taken))
    return F.struct(*(word.alias(name) for word, name in zip(words, VERDICT_COLUMNS, strict=True)))


def _given(trigger: "Trigger", columns: "Mapping[str, Column | str] | None") -> "dict[str, Column | str]":
    count = next(name for name in COLUMNS[trigger.kind] if name.endswith("delivery_count"))
    given: dict[str, Column | str] = dict(columns) if columns else {"uuid": "uuid", count: count}
    names = columns_of(trigger, list(given), {name: name for name in given})
    return {name: given[name] for name in names}


def register(
    spark: "SparkSession",
    name: str,
    history: "History | str | os.PathLike[str]",
    trigger: "Trigger",
    *,
    columns: "str | Sequence[str]" = ("uuid",),
    now: dt.datetime | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> None:
    """Make the verdict a function of SQL under `name`.

    ```python
    dh.spark.register(spark, "verdict", "orders.history", trigger, columns=("uuid", "redelivery_count"))
    spark.sql("SELECT *, verdict(uuid, redelivery_count).status AS status FROM orders")
    ```

    Args:
        spark: the session that is to know the function.
        name: its name.
        history: the history, its directory, or the URL of its bucket. Pinned now: register again
            for newer verdicts.
        trigger: whose documents they are; a resolver runs in the workers.
        columns: the trigger's names of what the function takes, in that order; or the one name.
        now: as in `classify`.
        storage_options: as in `classify`.
        cache: as in `classify`.

    Raises:
        SchemaError: [DH-SCHEMA] no id is among `columns`, or something that the trigger does not
            look at.
        OpenError: [DH-OPEN] there is no history at that path.
        ConfigError: [DH-CONFIG] an argument is of another kind than above.
    """
    checks.session(spark)
    _checks.trigger(trigger)
    names = [columns] if isinstance(columns, str) else list(columns)
    columns_of(trigger, names, {one: one for one in names})
    judge = Decider.of(Place.of(history, storage_options, cache), trigger, now)

    def judged(arrays: Any) -> pa.Array:
        if len(arrays) != len(names):
            raise dh.SchemaError(
                f"[DH-SCHEMA] the function {name} was made for {', '.join(names)}, and it is given {len(arrays)} "
                f"arguments: give it {len(names)}, or make it for others, as in register(…, columns=('uuid',))"
            )
        return pa.StructArray.from_arrays(
            judge.words(pa.RecordBatch.from_arrays(list(arrays), names)), list(VERDICT_COLUMNS)
        )

    types = types_of({one: one for one in names})
    spark.udf.register(name, compat.columnar_udf(judged, types, _VERDICT))


def register_table(
    spark: "SparkSession",
    name: str,
    history: "History | str | os.PathLike[str]",
    trigger: "Trigger",
    schema: StructType,
    *,
    columns: Mapping[str, str] | None = None,
    now: dt.datetime | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> None:
    """Make classifying a table function of SQL under `name`: it adds the six columns of the verdict to a table.

    ```python
    dh.spark.register_table(spark, "classified", "orders.history", trigger, spark.table("orders").schema)
    spark.sql("SELECT * FROM classified(TABLE(orders)) WHERE status = 'IN_DOUBT'")
    ```

    Args:
        spark: the session that is to know the function; Spark 4.1 or later.
        name: its name.
        history: the history, its directory, or the URL of its bucket. Pinned now: register again
            for newer verdicts.
        trigger: whose documents they are; a resolver runs in the workers and sees all columns.
        schema: the columns of the tables that it will be given.
        columns: the trigger's name of a column -> its name in the schema, where they differ.
        now: as in `classify`.
        storage_options: as in `classify`.
        cache: as in `classify`.

    Raises:
        UnsupportedError: this Spark has no table functions of Arrow.
        SchemaError: [DH-SCHEMA] as `classify`.
        OpenError: [DH-OPEN] there is no history at that path.
        ConfigError: [DH-CONFIG] an argument is of another kind than above.
    """
    checks.session(spark)
    found = checks.columns(trigger, schema, columns)
    judge = Decider.of(Place.of(history, storage_options, cache), trigger, now)
    names = schema.names

    def judged(batch: pa.RecordBatch) -> Iterator[pa.Table]:
        if batch.schema.names != names:
            raise dh.SchemaError(
                f"[DH-SCHEMA] the table function {name} was made for the columns {', '.join(names)}, and its table has "
                f"{', '.join(batch.schema.names)}: give it TABLE(SELECT …) with those, or make it for these"
            )
        words = judge.words(batch, found)
        yield pa.Table.from_arrays([*batch.columns, *words], [*names, *VERDICT_COLUMNS])

    spark.udtf.register(name, compat.table_function(judged, StructType(schema.fields + _VERDICT.fields)))
