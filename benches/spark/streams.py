"""Jobs that let each new id of a stream through once, batch by batch.

`filled` says of a peer that the workload's ids have passed it before what is measured; the history
holds them anyway.
"""

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

import dochistory as dh
from benches.spark import data
from benches.stores import TRIGGER, scratch_copy
from benches.workload import Workload

Found = dict[str, Any]
_WARM_UP = 2  # batches: the first starts Python and compiles plans


def own(spark: SparkSession, workload: Workload, rows: int, batches: int) -> Found:
    """Claim and complete, on a history that holds the workload's ids already."""
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        history = scratch_copy(workload, Path(home))

        def service(new: Any, batch: Any) -> None:  # noqa: ARG001
            if len(new) != rows:
                raise SystemExit(f"{len(new)} of {rows} ids are new")

        handle = dh.spark.exactly_once(history, TRIGGER, service, documents="arrow", application="bench")
        stream = _stream(spark, workload, rows, batches)
        return _seconds(stream.drop("arrived").writeStream.foreachBatch(handle), Path(home))


def own_in_tasks(spark: SparkSession, workload: Workload, rows: int, batches: int) -> Found:
    """The same, decided and staged by Spark's tasks."""
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        history = scratch_copy(workload, Path(home))

        def service(new: Any, batch: Any) -> None:  # noqa: ARG001
            if len(batch.claim) != rows:
                raise SystemExit(f"{len(batch.claim)} of {rows} ids are new")

        handle = dh.spark.exactly_once(history, TRIGGER, service, decide_on="executors", application="bench")
        stream = _stream(spark, workload, rows, batches)
        return _seconds(stream.drop("arrived").writeStream.foreachBatch(handle), Path(home))


def own_writing(spark: SparkSession, workload: Workload, rows: int, batches: int, payload: bool = False) -> Found:
    """The same with a service that does what services do: it appends what is new to files."""
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        history, target = scratch_copy(workload, Path(home)), str(Path(home, "processed").absolute())
        handle = dh.spark.exactly_once(
            history, TRIGGER, lambda new, _: new.write.mode("append").parquet(target), application="bench"
        )
        stream = _stream(spark, workload, rows, batches, payload=payload).drop("arrived")
        found = _seconds(stream.writeStream.foreachBatch(handle), Path(home))
        _check_written(spark, target, rows * (batches + _WARM_UP))
        return found


def nothing_writing(spark: SparkSession, workload: Workload, rows: int, batches: int, payload: bool = False) -> Found:
    """The same files, written by a stream that lets everything through."""
    stream = _stream(spark, workload, rows, batches, payload=payload).drop("arrived")
    return _written(spark, stream, rows * (batches + _WARM_UP))


def within_watermark_writing(
    spark: SparkSession, workload: Workload, rows: int, batches: int, filled: bool = False
) -> Found:
    """The same files, behind `dropDuplicatesWithinWatermark`, whose state nothing leaves."""
    stream = _stream(spark, workload, rows, batches, filled).withWatermark("arrived", "1 day")
    passed = stream.dropDuplicatesWithinWatermark(["uuid"]).drop("arrived")
    before = data.filling_batches(workload) if filled else 0
    written = rows * (batches + _WARM_UP) + (workload.n if filled else 0)
    return _written(spark, passed, written, before)


def _written(spark: SparkSession, stream: DataFrame, rows: int, before: int = 0) -> Found:
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        target = str(Path(home, "processed").absolute())

        def write(batch: DataFrame, _: int) -> None:
            batch.write.mode("append").parquet(target)

        found = _seconds(stream.writeStream.foreachBatch(write), Path(home), before)
        _check_written(spark, target, rows)
        return found


def _check_written(spark: SparkSession, target: str, rows: int) -> None:
    if (written := spark.read.parquet(target).count()) != rows:
        raise SystemExit(f"{written} of {rows} ids were written")


def nothing(spark: SparkSession, workload: Workload, rows: int, batches: int) -> Found:
    """What Spark itself takes to read a batch and to note that it is done."""
    return _noop(_stream(spark, workload, rows, batches))


def within_watermark(spark: SparkSession, workload: Workload, rows: int, batches: int, filled: bool = False) -> Found:
    """`dropDuplicatesWithinWatermark`, whose state nothing leaves."""
    stream = _stream(spark, workload, rows, batches, filled).withWatermark("arrived", "1 day")
    return _noop(stream.dropDuplicatesWithinWatermark(["uuid"]), workload, filled)


def drop_duplicates(spark: SparkSession, workload: Workload, rows: int, batches: int, filled: bool = False) -> Found:
    """`dropDuplicates`, whose state is never let go."""
    return _noop(_stream(spark, workload, rows, batches, filled).dropDuplicates(["uuid"]), workload, filled)


def with_state(spark: SparkSession, workload: Workload, rows: int, batches: int) -> Found:
    """`transformWithStateInPandas`, from an empty state: one call of Python for each id."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class First(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.seen = handle.getValueState("seen", "seen boolean")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
            known = self.seen.exists()
            for _ in rows:
                pass
            if not known:
                self.seen.update((True,))
                yield pd.DataFrame({"uuid": [key[0]]})

        def close(self) -> None:
            pass

    stream: Any = _stream(spark, workload, rows, batches)
    first = stream.groupBy("uuid").transformWithStateInPandas(
        statefulProcessor=First(), outputStructType="uuid string", outputMode="Append", timeMode="None"
    )
    return _noop(first)


def delta_merge(spark: SparkSession, workload: Workload, rows: int, batches: int) -> Found:
    """Delta's `MERGE` into a table of the workload's ids: insert what is not there."""
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        table = str(Path(home, "table").absolute())
        spark.read.parquet(str(data.history_as_parquet(workload))).select("uuid").write.format("delta").save(table)

        def merge(batch: DataFrame, _: int) -> None:
            batch.createOrReplaceTempView("arrived")
            batch.sparkSession.sql(
                f"MERGE INTO delta.`{table}` AS t USING arrived AS s ON t.uuid = s.uuid "
                "WHEN NOT MATCHED THEN INSERT (uuid) VALUES (s.uuid)"
            )

        stream = _stream(spark, workload, rows, batches).select("uuid")
        return _seconds(stream.writeStream.foreachBatch(merge), Path(home))


def _stream(
    spark: SparkSession, workload: Workload, rows: int, batches: int, filled: bool = False, payload: bool = False
) -> DataFrame:
    path = data.new_batches(workload, batches + _WARM_UP, rows, filled, payload)
    schema = data.STREAM_SCHEMA + (", payload string" if payload else "")
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(path))


def _noop(stream: DataFrame, workload: Workload | None = None, filled: bool = False) -> Found:
    before = data.filling_batches(workload) if workload is not None and filled else 0
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        return _seconds(stream.writeStream.format("noop").outputMode("append"), Path(home), before)


def _seconds(writer: Any, home: Path, before: int = 0) -> Found:
    """What each batch took, from its trigger to Spark's note that it is done, and what of that went where.

    The first batches, which warm up, and those `before`, which fill, are left out.
    """
    query = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [one for one in query.recentProgress if one["numInputRows"]][before + _WARM_UP :]
    parts = {name: [one["durationMs"].get(name, 0) for one in progress] for name in progress[0]["durationMs"]}
    found = {"batch": [one["durationMs"]["triggerExecution"] / 1000 for one in progress]}
    return {**found, "parts": {name: statistics.median(took) for name, took in parts.items()}}
