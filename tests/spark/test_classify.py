"""`dochistory.spark.classify`: verdicts as columns, read from a pinned history."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest

import dochistory as dh
from tests.spark.support import orders, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

How = Literal["udf", "map"]
both = pytest.mark.parametrize("how", ["udf", "map"])

# 30 completed, 30 processing, 40 that nobody has seen.
COMPLETED = [f"completed-{n}" for n in range(30)]
PROCESSING = [f"processing-{n}" for n in range(30)]
NEW = [f"new-{n}" for n in range(40)]
EXPECTED = (
    dict.fromkeys(COMPLETED, ("DUPLICATE", "DISCARD", "NOW", "R9"))
    | dict.fromkeys(PROCESSING, ("IN_DOUBT", "LOG", "NOW", "R11"))
    | dict.fromkeys(NEW, ("NEW", "PROCESS", "AFTER_SERVICE", "R8"))
)


@pytest.fixture
def history(history_path: Path) -> Path:
    with dh.open(history_path, create=True) as opened:
        opened.begin(rows(COMPLETED), orders()).complete()
        opened.begin(rows(PROCESSING), orders())
    return history_path


@pytest.fixture
def documents(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame(rows([*COMPLETED, *NEW, *PROCESSING]).to_pandas()).repartition(4)


def verdicts(df: "DataFrame") -> dict[str, tuple[str, str, str, str]]:
    found = {row.uuid: (row.status, row.action, row.acknowledge, row.rule) for row in df.collect()}
    assert len(found) == df.count()
    return found


def fingerprint(directory: Path) -> dict[str, str]:
    """What the files of the directory hold, byte for byte."""
    files = [one for one in directory.rglob("*") if one.is_file()]
    return {str(one.relative_to(directory)): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


@both
def test_every_row_gets_its_verdict_and_keeps_its_columns(documents: "DataFrame", history: Path, how: How) -> None:
    df = dh.spark.classify(documents, history, orders(), how)

    assert df.columns == [*documents.columns, *dh.spark.VERDICT_COLUMNS]
    assert {name: kind for name, kind in df.dtypes if name in dh.spark.VERDICT_COLUMNS} == dict.fromkeys(
        dh.spark.VERDICT_COLUMNS, "string"
    )
    assert verdicts(df) == EXPECTED
    collected = df.collect()
    assert all(row.payload == f"payload of {row.uuid}" for row in collected)
    assert all(row.key == row.uuid for row in collected)


@both
def test_classifying_writes_nothing(documents: "DataFrame", history: Path, how: How) -> None:
    dh.spark.classify(documents, history, orders(), how).count()  # Pinning may seal the log, once.
    before = fingerprint(history)
    df = dh.spark.classify(documents, history, orders(), how)
    df.count()
    df.collect()

    assert verdicts(df) == EXPECTED
    with dh.open(history, read_only=True) as opened:
        assert pa.table(opened.entries(orders(), status="processing")).num_rows == len(PROCESSING)
    assert fingerprint(history) == before


@both
def test_a_plan_keeps_its_verdicts_while_the_history_grows(documents: "DataFrame", history: Path, how: How) -> None:
    df = dh.spark.classify(documents, history, orders(), how)
    first = verdicts(df)
    with dh.open(history) as opened:
        opened.begin(rows(NEW), orders()).complete()

    assert verdicts(df) == first == EXPECTED
    later = dh.spark.classify(documents, history, orders(), how)
    assert {verdict for one, verdict in verdicts(later).items() if one in NEW} == {
        ("DUPLICATE", "DISCARD", "NOW", "R9")
    }


@both
def test_limits_unions_and_filters_see_the_same_verdicts(documents: "DataFrame", history: Path, how: How) -> None:
    df = dh.spark.classify(documents, history, orders(), how)

    limited = df.limit(7).collect()
    assert len(limited) == 7
    assert all((row.status, row.action, row.acknowledge, row.rule) == EXPECTED[row.uuid] for row in limited)
    twice = df.union(df).groupBy("uuid").agg({"status": "count", "rule": "min", "key": "max"}).collect()
    assert {row["count(status)"] for row in twice} == {2}
    assert {row.uuid: row["min(rule)"] for row in twice} == {one: verdict[3] for one, verdict in EXPECTED.items()}
    assert {row.uuid for row in df.filter("status = 'DUPLICATE'").select("uuid").collect()} == set(COMPLETED)
    assert df.join(df.select("uuid", df.status.alias("again")), "uuid").filter("status != again").count() == 0


@pytest.mark.parametrize("how", [pytest.param("udf", marks=pytest.mark.slow), "map"])
def test_a_task_that_fails_and_is_tried_again_changes_no_verdict(
    documents: "DataFrame", history: Path, how: How
) -> None:
    def fail_at_first(batches: Any) -> Any:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() < 2 and context.partitionId() % 2 == 0:
            raise RuntimeError("this attempt is lost")

    df = dh.spark.classify(documents, history, orders(), how)

    assert verdicts(df.mapInArrow(fail_at_first, df.schema)) == EXPECTED


@both
def test_copies_in_one_frame_are_judged_alike_in_any_partition(spark: "SparkSession", history: Path, how: How) -> None:
    documents = spark.createDataFrame(rows(["new-1", "completed-1", "new-1", "new-1"] * 5).to_pandas()).coalesce(1)
    found = []
    for size in ("1", "3", "10000"):
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", size)
        try:
            df = dh.spark.classify(documents, history, orders(), how)
            found.append({(row.uuid, row.status, row.rule) for row in df.collect()})
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    assert found == [{("new-1", "NEW", "R8"), ("completed-1", "DUPLICATE", "R9")}] * 3


@both
def test_columns_may_have_other_names_and_verdicts_a_prefix(documents: "DataFrame", history: Path, how: How) -> None:
    renamed = documents.withColumnRenamed("uuid", "message.id").withColumnRenamed("payload", "status")
    df = dh.spark.classify(renamed, history, orders(), how, columns={"uuid": "message.id"}, prefix="dh_")

    assert df.columns == ["message.id", "redelivery_count", "status", *(f"dh_{n}" for n in dh.spark.VERDICT_COLUMNS)]
    assert {row["message.id"]: row.dh_rule for row in df.collect()} == {one: v[3] for one, v in EXPECTED.items()}


@both
def test_a_resolver_settles_in_the_workers_what_is_in_doubt(documents: "DataFrame", history: Path, how: How) -> None:
    def resolver(batch: pa.RecordBatch) -> list[str]:
        return ["NEW" if key.endswith("7") else "DUPLICATE" for key in batch.column("dh_key").to_pylist()]

    df = dh.spark.classify(documents, history, orders(resolver=resolver), how)

    found = {row.uuid: row.rule for row in df.collect() if row.uuid in PROCESSING}
    assert found == {one: "R10>S1" if one.endswith("7") else "R10>S2" for one in PROCESSING}


@both
def test_counts_may_be_absent_here_and_there(spark: "SparkSession", history: Path, how: How) -> None:
    counted = spark.createDataFrame(
        [("a", 0, True), ("b", None, None), ("c", 2, True)], "uuid string, redelivery_count int, guaranteed boolean"
    )
    df = dh.spark.classify(counted.coalesce(1), history, dh.Trigger("counts", use_history=False), how)

    assert {row.uuid: (row.rule, row.status) for row in df.collect()} == {
        "a": ("R12", "NEW"),
        "b": ("R16", "NEW"),
        "c": ("R14", "IN_DOUBT"),
    }


def test_an_open_history_serves_as_well_as_its_path(documents: "DataFrame", history: Path) -> None:
    with dh.open(history) as opened:
        df = dh.spark.classify(documents, opened, orders())
        assert verdicts(df) == EXPECTED
    assert verdicts(df) == EXPECTED  # The workers have handles of their own.


def test_columns_that_cannot_be_are_refused_before_spark_runs(documents: "DataFrame", history: Path) -> None:
    with pytest.raises(dh.SchemaError, match=r"\[DH-SCHEMA\] the column status exists already"):
        dh.spark.classify(documents.withColumnRenamed("payload", "status"), history, orders())
    with pytest.raises(dh.SchemaError, match=r"there is no column nowhere among"):
        dh.spark.classify(documents, history, orders(), columns={"uuid": "nowhere"})
    with pytest.raises(dh.SchemaError, match=r"none of the id columns uuid, track_id, event_id is among payload"):
        dh.spark.classify(documents.select("payload"), history, orders())
    with pytest.raises(dh.ConfigError, match=r"how is 'udf' or 'map'"):
        dh.spark.classify(documents, history, orders(), "rdd")  # type: ignore[arg-type]


def test_missing_history_is_refused_before_spark_runs(documents: "DataFrame", tmp_path: Path) -> None:
    with pytest.raises(dh.OpenError):
        dh.spark.classify(documents, tmp_path / "nowhere", orders())
