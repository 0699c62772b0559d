"""Jobs that classify a DataFrame, next to the same plan with a function that does nothing."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

import dochistory as dh
from benches.spark import data
from benches.stores import TRIGGER, scratch_copy
from benches.timing import seconds_of
from benches.workload import Workload
from dochistory.spark.decode import verdict_words

Found = dict[str, Any]


def run(df: DataFrame) -> None:
    """Evaluate every column of every row."""
    df.write.format("noop").mode("overwrite").save()


def in_turns(jobs: dict[str, Callable[[], None]], runs: int) -> Found:
    """Seconds of each job, one run of each after the other, so that a busy spell of the machine meets all of them."""
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(runs + 1):
        for name, job in jobs.items():
            seconds = seconds_of(job)
            if number:  # The first run starts Python's workers and reads files for the first time.
                found[name].append(seconds)
    return found


def _frame(spark: SparkSession, workload: Workload, rows: int, payload: bool) -> DataFrame:
    df = spark.read.parquet(str(data.documents(workload, rows)))
    return df if payload else df.drop("payload")


def _constant(df: DataFrame) -> DataFrame:
    def constant(uuid: pa.Array, count: pa.Array) -> pa.Array:  # noqa: ARG001
        return pa.repeat(pa.scalar(2, pa.int8()), len(uuid))

    made: Any = F
    function = made.arrow_udf(constant, "byte").asNondeterministic()
    return df.withColumn("code", function("uuid", "redelivery_count"))


def _same(df: DataFrame) -> DataFrame:
    return df.mapInArrow(lambda batches: batches, df.schema)


def _words(df: DataFrame, made: DataFrame) -> DataFrame:
    """The words of the verdicts in `code`, whoever gave them: what `classify` appends."""
    words = verdict_words(F.col("code"), [F.col("uuid")])
    return made.select(
        *df.columns, *(word.alias(name) for word, name in zip(words, dh.spark.VERDICT_COLUMNS, strict=True))
    )


def udf(spark: SparkSession, workload: Workload, rows: int, runs: int, payload: bool = True) -> Found:
    """`how="udf"`, next to functions of the same columns that answer a constant byte.

    `status` leaves out five of the six words. `constant, words` makes six words of the constant; `constant` none.
    """
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        history = scratch_copy(workload, Path(home))
        df = _frame(spark, workload, rows, payload)
        judged, constant = dh.spark.classify(df, history, TRIGGER), _constant(df)
        _check(judged, rows)
        jobs = {
            "own": judged,
            "status": judged.select(*df.columns, "status"),
            "constant": constant,
            "constant, words": _words(df, constant),
        }
        return in_turns({name: _runner(one) for name, one in jobs.items()}, runs)


def workers(spark: SparkSession, workload: Workload, rows: int, runs: int) -> Found:
    """`how="udf"` alone, of ids and counts; what is compared is the number of workers."""
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        judged = dh.spark.classify(_frame(spark, workload, rows, False), scratch_copy(workload, Path(home)), TRIGGER)
        _check(judged, rows)
        return in_turns({"own": lambda: run(judged)}, runs)


def rows_in_arrow(spark: SparkSession, workload: Workload, rows: int, runs: int, payload: bool = False) -> Found:
    """`how="map"`, next to a `mapInArrow` that hands on what it gets."""
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        history = scratch_copy(workload, Path(home))
        df = _frame(spark, workload, rows, payload)
        judged = dh.spark.classify(df, history, TRIGGER, "map")
        _check(judged, rows)
        jobs = {"own": judged, "status": judged.select(*df.columns, "status"), "identity": _same(df)}
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


def _runner(df: DataFrame) -> Callable[[], None]:
    return lambda: run(df)


def _check(judged: DataFrame, rows: int) -> None:
    counted = {row["status"]: row["count"] for row in judged.groupBy("status").count().collect()}
    right = sum(counted.values()) == rows and counted["IN_DOUBT"] == rows // 1000 and counted["DUPLICATE"] > rows // 200
    if not right:
        raise SystemExit(f"wrong verdicts: {counted}")
