"""`spark.read.format("dochistory")`: a history as tables of Spark."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dochistory as dh
from tests.spark.support import orders, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]
sources = pytest.importorskip(
    "pyspark.sql.datasource", reason="data sources of Python came with Spark 4.0: test_older.py"
)

DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def history(history_path: Path) -> Path:
    """Three days with ten completed and five processing each, under one trigger; one document under another."""
    with dh.open(history_path, create=True) as opened:
        for day in range(3):
            ids = [f"{day}-{n}" for n in range(15)]
            claim = opened.begin(
                rows(ids),
                orders(history_time_to_live="30 days"),
                now=DAY + timedelta(days=day),
                transaction=("app", day),
            )
            claim.complete(rows=range(10))
            if day < 2:
                opened.unpin(orders(), opened.pin(orders()))
        opened.begin(rows(["other"]), dh.Trigger("bills"))
    return history_path


def read(spark: "SparkSession", history: Path, **options: Any) -> "DataFrame":
    reader = spark.read.format("dochistory").option("path", str(history))
    for name, value in options.items():
        reader = reader.option(name.rstrip("_"), str(value))
    return reader.load()


def test_the_entries_of_a_trigger_are_a_table(spark: "SparkSession", history: Path) -> None:
    df = read(spark, history, trigger="orders", partitions=4)

    assert df.dtypes == [("trigger", "string"), ("key", "string"), ("status", "string"), ("started_at", "timestamp")]
    assert df.rdd.getNumPartitions() == 4
    found = df.collect()
    assert {row.key for row in found} == {f"{day}-{n}" for day in range(3) for n in range(15)}
    assert len(found) == 45
    assert {row.trigger for row in found} == {"orders"}
    counted = {row["status"]: row["count"] for row in df.groupBy("status").count().collect()}
    assert counted == {"completed": 30, "processing": 15}
    times = df.selectExpr("key", "unix_micros(started_at) AS at").where("key LIKE '1-%'").collect()
    assert {row["at"] for row in times} == {int((DAY + timedelta(days=1)).timestamp()) * 1_000_000}


def test_options_read_less(spark: "SparkSession", history: Path) -> None:
    second = {"from_": "2026-03-02", "to": "2026-03-03T00:00:00+00:00"}

    assert read(spark, history, trigger="orders", status="processing").count() == 15
    assert {row.key[0] for row in read(spark, history, trigger="orders", **second).collect()} == {"1"}
    assert read(spark, history, trigger="orders", status="completed", partitions=3, **second).count() == 10
    assert read(spark, history, trigger="nobody").collect() == []


def test_without_a_trigger_all_are_read(spark: "SparkSession", history: Path) -> None:
    counted = read(spark, history).groupBy("trigger").count().collect()
    assert {row["trigger"]: row["count"] for row in counted} == {"orders": 45, "bills": 1}


def test_filters_and_unions_find_the_right_rows(spark: "SparkSession", history: Path) -> None:
    df = read(spark, history, trigger="orders")

    assert [row.key for row in df.filter("key = '0-3'").collect()] == ["0-3"]
    assert df.count() == 45
    both = df.filter("key = '0-1'").union(df.filter("key = '0-2'"))
    assert sorted(row.key for row in both.collect()) == ["0-1", "0-2"]
    assert df.select("status").distinct().count() == 2
    assert len(df.limit(3).collect()) == 3


def test_reading_writes_no_entry_and_disturbs_no_writer(spark: "SparkSession", history: Path) -> None:
    df = read(spark, history, trigger="orders")
    with dh.open(history) as opened:
        opened.begin(rows(["later"]), orders(history_time_to_live="30 days")).complete()
        assert df.count() in (45, 46)  # It is pinned when Spark plans it.
        assert read(spark, history, trigger="orders").count() == 46


def test_transactions_and_statistics_are_tables_too(spark: "SparkSession", history: Path) -> None:
    transactions = read(spark, history, table="transactions").collect()
    assert [tuple(row) for row in transactions] == [("orders", "app", 2, False)]
    statistics = {row.trigger: row for row in read(spark, history, table="statistics").collect()}
    assert {name: row.entries for name, row in statistics.items()} == {"orders": 45, "bills": 1}
    assert statistics["orders"].history_time_to_live_seconds == timedelta(days=30).total_seconds()
    assert statistics["orders"].transactions == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"status": "done"}, "status is 'done'; allowed is 'processing' or 'completed'"),
        ({"table": "rows"}, "table is 'rows'; allowed is entries, transactions, statistics"),
        ({"from_": "yesterday"}, "from is 'yesterday'; it must be a time such as"),
        ({"partitions": 0}, "partitions is 0; it must be 1 or more"),
        ({"use_history": "true"}, "has no option use_history for reading"),
        ({"keys": "0-1,0-2"}, "keys is '0-1,0-2'; it must be a list in JSON"),
        ({"keys": "[1]"}, "it must be a list in JSON"),
        ({"keys": "[]", "key": "a"}, "the options key and keys exclude each other"),
        ({"key": "a", "table": "statistics"}, "the table statistics has no keys"),
        ({"trigger": ""}, "name has 0 bytes of UTF-8; allowed is 1 to 255"),
    ],
)
def test_invalid_options_are_refused(spark: "SparkSession", history: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(Exception, match=text):
        read(spark, history, **{"trigger": "orders", **options}).collect()


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("key string, state string", "the table entries has no column 'state'; it has trigger string, key string"),
        ("key int", "column 'key' of the table entries is string, not int"),
    ],
)
def test_a_schema_that_the_table_has_not_is_refused(
    spark: "SparkSession", history: Path, schema: str, text: str
) -> None:
    reader = spark.read.format("dochistory").option("path", str(history)).option("trigger", "orders")
    with pytest.raises(Exception, match=rf"\[DH-SCHEMA\] {text}"):
        reader.schema(schema).load().collect()
    assert reader.schema("status string, key string").load().where("key = '0-1'").collect() == [("completed", "0-1")]


def test_sql_reads_by_a_view_and_says_that_no_table_can(spark: "SparkSession", history: Path) -> None:
    given = f"USING dochistory OPTIONS (path '{history}', trigger 'orders')"
    with pytest.raises(Exception, match=r"\[DH-CONFIG\] Spark's catalog forgets .* CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE entries_of_orders {given}")
    spark.sql(f"CREATE TEMPORARY VIEW entries_of_orders {given}")
    assert spark.sql("SELECT key FROM entries_of_orders").count() == 45
    spark.sql("DROP VIEW entries_of_orders")


def test_a_history_that_is_not_there_is_an_error(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(Exception, match="DH-OPEN"):
        read(spark, tmp_path / "nowhere").collect()


def test_keys_are_looked_up_and_nothing_is_pinned(spark: "SparkSession", history: Path) -> None:
    one = read(spark, history, trigger="orders", key="1-3")
    assert [(row.trigger, row.key, row.status, row.started_at) for row in one.collect()] == [
        (row.trigger, row.key, row.status, row.started_at)
        for row in read(spark, history, trigger="orders").where("key = '1-3'").collect()
    ]
    before = _state(history)
    several = read(spark, history, keys='["0-1", "2-12", "other", "never"]')
    assert several.rdd.getNumPartitions() == 1
    assert {(row.trigger, row.key, row.status) for row in several.collect()} == {
        ("orders", "0-1", "completed"),
        ("orders", "2-12", "processing"),
        ("bills", "other", "processing"),
    }
    assert read(spark, history, trigger="orders", keys='["0-1", "2-12"]', status="processing").count() == 1
    # A scan pins what it reads, and seals the log for that; this leaves every file as it was.
    assert _state(history) == before


def _state(history: Path) -> dict[str, int]:
    return {str(one.relative_to(history)): one.stat().st_size for one in history.rglob("*") if one.is_file()}


def test_read_says_by_arguments_what_options_say(spark: "SparkSession", history: Path) -> None:
    def keys(**wanted: Any) -> list[str]:
        return sorted(row.key for row in dh.spark.read(spark, history, **wanted).collect())

    assert keys(trigger=orders(), keys=["0-1", "2-12", "other"]) == ["0-1", "2-12"]
    assert keys(keys=iter(["other"])) == ["other"]
    assert keys(trigger="orders", status="processing", started_from=DAY + timedelta(days=2)) == [
        f"2-{n}" for n in (10, 11, 12, 13, 14)
    ]
    assert len(keys(trigger="orders", started_to=DAY + timedelta(days=1), partitions=3)) == 15
    assert dh.spark.read(spark, history, table="transactions").count() == 1
    for wanted, text in (
        ({"keys": [1]}, "keys has 1; allowed is text"),
        ({"partitions": 0}, "partitions is 0; allowed is a whole number from 1 on"),
        ({"table": "rows"}, "table is one of entries, transactions, statistics, not 'rows'"),
        ({"started_from": "2026-03-01"}, "started_from is '2026-03-01'; allowed is a datetime with a time zone"),
        ({"started_to": datetime(2026, 3, 1)}, "started_to is datetime"),  # noqa: DTZ001
    ):
        with pytest.raises(dh.ConfigError, match=text):
            dh.spark.read(spark, history, **wanted)
