"""`dochistory.spark.load`: a history filled by Spark's workers."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dochistory as dh
from tests.spark.support import orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def a_table(file: int, rows: int = 50) -> pa.Table:
    """Documents of one day; every tenth has not ended."""
    return pa.table(
        {
            "order_id": [f"{file}-{n}" for n in range(rows)],
            "began": pa.array([DAY + timedelta(days=file, seconds=n) for n in range(rows)], pa.timestamp("us", "UTC")),
            "state": ["processing" if n % 10 == 0 else None for n in range(rows)],
            "payload": ["x" * 100] * rows,
        }
    )


COLUMNS = {"uuid": "order_id", "started_at": "began", "status": "state"}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    home = tmp_path / "seen"
    home.mkdir()
    for file in range(5):
        pq.write_table(a_table(file), home / f"part-{file}.parquet")
    return home


def entries(path: Path) -> dict[str, tuple[str, datetime]]:
    with dh.open(path, read_only=True) as history:
        found = pa.table(history.entries("orders")).to_pylist()
    assert len({row["key"] for row in found}) == len(found)
    return {row["key"]: (row["status"], row["started_at"]) for row in found}


EXPECTED = {
    f"{file}-{n}": ("processing" if n % 10 == 0 else "completed", DAY + timedelta(days=file, seconds=n))
    for file in range(5)
    for n in range(50)
}


def test_parquet_files_are_loaded_with_their_times_and_states(
    spark: "SparkSession", files: Path, history_path: Path
) -> None:
    said: list[tuple[int, int, int]] = []
    trigger = orders(history_time_to_live="3650 days")
    loaded = dh.spark.load(
        files,
        history_path,
        trigger,
        columns=COLUMNS,
        files_a_step=2,
        progress=lambda *told: said.append(told),
        spark=spark,
    )

    assert loaded == 250
    assert said == [(100, 1, 3), (200, 2, 3), (250, 3, 3)]
    assert entries(history_path) == EXPECTED
    # Again: nothing, and nothing twice.
    assert dh.spark.load(files, history_path, trigger, columns=COLUMNS, files_a_step=2, spark=spark) == 0
    assert entries(history_path) == EXPECTED


def test_a_load_that_breaks_off_goes_on_where_it_was(spark: "SparkSession", files: Path, history_path: Path) -> None:
    trigger = orders(history_time_to_live="3650 days")

    def stop(_: int, step: int, __: int) -> None:
        if step == 2:
            raise KeyboardInterrupt

    options: dict[str, Any] = {"columns": COLUMNS, "files_a_step": 1, "spark": spark}
    with pytest.raises(KeyboardInterrupt):
        dh.spark.load(files, history_path, trigger, progress=stop, **options)
    assert len(entries(history_path)) == 100
    assert dh.spark.load(files, history_path, trigger, **options) == 150
    assert entries(history_path) == EXPECTED


def test_a_frame_is_loaded_once_under_a_name(spark: "SparkSession", history_path: Path) -> None:
    df = spark.range(1000).selectExpr("concat('id-', id) AS uuid", "id AS other").repartition(4)
    for loaded in (1000, 0):
        assert dh.spark.load(df, history_path, orders(), application="seed") == loaded
    assert len(entries(history_path)) == 1000
    judged = dh.spark.classify(df, history_path, orders()).groupBy("status").count().collect()
    assert [tuple(row) for row in judged] == [("DUPLICATE", 1000)]


def test_row_without_an_id_stops_the_load_unpublished(spark: "SparkSession", history_path: Path) -> None:
    df = spark.createDataFrame([("a",), (None,)], "uuid string")
    with pytest.raises(Exception, match="DH-SCHEMA"):
        dh.spark.load(df, history_path, orders())
    assert entries(history_path) == {}


def test_a_task_that_fails_leaves_no_job_behind(spark: "SparkSession", history_path: Path) -> None:
    dh.spark.load(spark.createDataFrame([("a",)], "uuid string"), history_path, orders())
    failing = spark.createDataFrame([("b",), (None,)], "uuid string").coalesce(1)
    with pytest.raises(Exception, match="DH-SCHEMA"):
        dh.spark.load(failing, history_path, orders())
    with dh.open(history_path) as history:
        assert history.pins(orders()) == []


def test_columns_that_are_not_there_are_refused(spark: "SparkSession", history_path: Path) -> None:
    df = spark.createDataFrame([("a",)], "uuid string")
    with pytest.raises(dh.SchemaError, match="there is no column began"):
        dh.spark.load(df, history_path, orders(), columns={"started_at": "began"})


def test_columns_in_the_names_of_directories_are_loaded(
    spark: "SparkSession", tmp_path: Path, history_path: Path
) -> None:
    home = tmp_path / "a 100% odd place"
    states = {"a": "completed", "b": "processing", "c": "completed"}
    df = spark.createDataFrame([*states.items()], "uuid string, status string")
    df.write.partitionBy("status").parquet(str(home))
    for loaded in (3, 0):
        assert dh.spark.load(home, history_path, orders(), spark=spark, files_a_step=1) == loaded
    assert {key: state for key, (state, _) in entries(history_path).items()} == states
