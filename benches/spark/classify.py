"""Jobs that classify a DataFrame, next to the same plan with a function that does nothing."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import ByteType, StructField, StructType

import dochistory as dh
from benches.spark import data
from benches.stores import TRIGGER, scratch_copy
from benches.timing import seconds_of
from benches.workload import Workload
from dochistory.spark.classify import of_columns
from dochistory.spark.decider import Decider
from dochistory.spark.decode import verdict_sql

Found = dict[str, Any]


def run(df: DataFrame) -> None:
    """Evaluate every column of every row."""
    df.write.format("noop").mode("overwrite").save()


_WARM_UP_SECONDS, _MOST_WARM_UPS = 3, 3


def in_turns(jobs: dict[str, Callable[[], None]], runs: int) -> Found:
    """Seconds of each job, one run of each after the other, so that a busy spell of the machine meets all of them.

    Before that they run to warm up: Python's workers start, files are read for the first time, Java
    compiles.
    """
    for _ in range(_MOST_WARM_UPS):
        if min(seconds_of(job) for job in jobs.values()) > _WARM_UP_SECONDS:
            break
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs):
        for name, job in jobs.items():
            found[name].append(seconds_of(job))
    return found


def _frame(spark: SparkSession, workload: Workload, rows: int, payload: bool) -> DataFrame:
    df = spark.read.parquet(str(data.documents(workload, rows)))
    return df if payload else df.drop("payload")


_CODE = "code"


def _constant(df: DataFrame) -> DataFrame:
    """The same plan as the verdict's, with a function that answers a constant byte."""

    def constant(uuid: pa.Array, count: pa.Array) -> pa.Array:  # noqa: ARG001
        return pa.repeat(pa.scalar(2, pa.int8()), len(uuid))

    return _answered(df, constant)


def _verdict_byte(df: DataFrame, history: Path) -> DataFrame:
    """The verdict as the byte that comes back from Python: what `classify` makes words of."""
    judge, names = Decider.of(history, TRIGGER), ["uuid", "redelivery_count"]
    judged = of_columns(judge, names)
    return _answered(df, lambda uuid, count: judged([uuid, count]))


def _answered(df: DataFrame, function: Callable[[pa.Array, pa.Array], pa.Array]) -> DataFrame:
    def answer(uuid: pa.Array, count: pa.Array) -> pa.Array:
        return function(uuid, count)

    made: Any = F
    return df.withColumn(_CODE, made.arrow_udf(answer, "byte").asNondeterministic()("uuid", "redelivery_count"))


def _mapped(df: DataFrame, function: Callable[[pa.RecordBatch], pa.Array]) -> DataFrame:
    """A `mapInArrow` that appends a byte a row."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.append_column(_CODE, function(batch))

    return df.mapInArrow(answer, StructType([*df.schema.fields, StructField(_CODE, ByteType())]))


def _constant_byte(batch: pa.RecordBatch) -> pa.Array:
    return pa.repeat(pa.scalar(2, pa.int8()), batch.num_rows)


def _same(df: DataFrame) -> DataFrame:
    return df.mapInArrow(lambda batches: batches, df.schema)


def _words(df: DataFrame, made: DataFrame) -> DataFrame:
    """The words of the verdicts in `code`, whoever gave them: what `classify` appends."""
    words = verdict_sql(_CODE, [("uuid", df.schema["uuid"].dataType)])
    return made.selectExpr(
        *df.columns, *(f"{word} AS {name}" for word, name in zip(words, dh.spark.VERDICT_COLUMNS, strict=True))
    )


def udf(spark: SparkSession, workload: Workload, rows: int, runs: int, payload: bool = True) -> Found:
    """`how="udf"`, next to functions of the same columns that answer a constant byte.

    `status` leaves out five of the six words, `byte` all. `constant, words` makes six words of the
    constant, as `classify` does of the verdict; `constant` none.
    """
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        history = scratch_copy(workload, Path(home))
        df = _frame(spark, workload, rows, payload)
        judged, constant = dh.spark.classify(df, history, TRIGGER), _constant(df)
        _check(judged, rows)
        jobs = {
            "own": judged,
            "constant, words": _words(df, constant),
            "byte": _verdict_byte(df, history),
            "constant": constant,
            "status": judged.select(*df.columns, "status"),
        }
        return in_turns({name: _runner(one) for name, one in jobs.items()}, runs)


def rows_in_arrow(spark: SparkSession, workload: Workload, rows: int, runs: int, payload: bool = False) -> Found:
    """`how="map"`, next to a `mapInArrow` that hands on what it gets; the others as in `udf`."""
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        history = scratch_copy(workload, Path(home))
        df = _frame(spark, workload, rows, payload)
        judged, judge = dh.spark.classify(df, history, TRIGGER, "map"), Decider.of(history, TRIGGER)
        _check(judged, rows)
        names = {"uuid": "uuid", "redelivery_count": "redelivery_count"}
        jobs = {
            "own": judged,
            "constant, words": _words(df, _mapped(df, _constant_byte)),
            "byte": _mapped(df, lambda batch: judge.codes(batch, names)),
            "identity": _same(df),
            "status": judged.select(*df.columns, "status"),
        }
        return in_turns({name: _runner(one) for name, one in jobs.items()}, runs)


def crossing(spark: SparkSession, workload: Workload, rows: int, runs: int) -> Found:
    """Ids as text, next to ids that Spark packs into 16 bytes first."""
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        history = scratch_copy(workload, Path(home))
        df = _frame(spark, workload, rows, payload=False)
        packed = df.withColumn("uuid", F.unhex(F.regexp_replace("uuid", "-", "")))
        translated = df.withColumn("uuid", F.unhex(F.translate("uuid", "-", "")))
        jobs = {"text": df, "regexp_replace": packed, "translate": translated}
        return in_turns({name: _runner(dh.spark.classify(one, history, TRIGGER)) for name, one in jobs.items()}, runs)


def left_join(spark: SparkSession, workload: Workload, rows: int, runs: int) -> Found:
    """The same question put as a join with the history as a table."""
    df = _frame(spark, workload, rows, payload=False)
    history = spark.read.parquet(str(data.history_as_parquet(workload)))
    joined = df.join(history, "uuid", "left")
    return in_turns({"left_join": lambda: run(joined)}, runs)


def drop_duplicates(spark: SparkSession, workload: Workload, rows: int, runs: int) -> Found:
    """Documents and history together, of each id one."""
    df = _frame(spark, workload, rows, payload=False).select("uuid")
    history = spark.read.parquet(str(data.history_as_parquet(workload))).select("uuid")
    one_each = history.union(df).dropDuplicates(["uuid"])
    return in_turns({"drop_duplicates": lambda: run(one_each)}, runs)


def versus(spark: SparkSession, workload: Workload, rows: int, runs: int) -> Found:
    """The question that users have, put in four ways in one session, in turns: which of these documents are new?

    `own` gives each row its verdict, planning and pinning included; the left join gives it the
    history's status; `join by broadcast` does so too, with the documents' ids sent to the history's
    tasks instead of both through a shuffle; and `dropDuplicates` keeps one of each id of history
    and documents together.
    """
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        history = scratch_copy(workload, Path(home))
        df = _frame(spark, workload, rows, payload=False)
        table = spark.read.parquet(str(data.history_as_parquet(workload)))
        _check(dh.spark.classify(df, history, TRIGGER), rows)
        met = table.join(F.broadcast(df.select("uuid")), "uuid", "left_semi")
        jobs = {
            "own": lambda: run(dh.spark.classify(df, history, TRIGGER)),
            "map": lambda: run(dh.spark.classify(df, history, TRIGGER, "map")),
            "left join": lambda: run(df.join(table, "uuid", "left")),
            "join by broadcast": lambda: run(df.join(F.broadcast(met), "uuid", "left")),
            "dropDuplicates": lambda: run(table.select("uuid").union(df.select("uuid")).dropDuplicates(["uuid"])),
            "reading alone": lambda: run(df),
        }
        return in_turns(jobs, runs)


def _runner(df: DataFrame) -> Callable[[], None]:
    return lambda: run(df)


def _check(judged: DataFrame, rows: int) -> None:
    counted = {row["status"]: row["count"] for row in judged.groupBy("status").count().collect()}
    right = sum(counted.values()) == rows and counted["IN_DOUBT"] == rows // 1000 and counted["DUPLICATE"] > rows // 200
    if not right:
        raise SystemExit(f"wrong verdicts: {counted}")
