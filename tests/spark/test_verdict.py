"""The verdict as a column, as functions of SQL, and what crosses to Python for it."""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

import dochistory as dh
from dochistory.spark import compat
from tests.spark.support import orders, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

EXPECTED = {"done": ("DUPLICATE", "R9"), "begun": ("IN_DOUBT", "R11"), "fresh": ("NEW", "R8")}


@pytest.fixture
def history(history_path: Path) -> Path:
    with dh.open(history_path, create=True) as opened:
        opened.begin(rows(["done"]), orders()).complete()
        opened.begin(rows(["begun"]), orders())
    return history_path


@pytest.fixture
def documents(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame(rows(EXPECTED).to_pandas())


def test_the_verdict_is_a_column_for_any_select(documents: "DataFrame", history: Path) -> None:
    verdict = dh.spark.verdict(history, orders())

    judged = documents.select("*", verdict.alias("verdict"), verdict["rule"].alias("rule"))
    assert {row.uuid: (row.verdict.status, row.rule) for row in judged.collect()} == EXPECTED
    assert {row.uuid: row.verdict.key for row in judged.collect()} == {one: one for one in EXPECTED}
    assert [row.uuid for row in documents.where(verdict["status"] == "NEW").collect()] == ["fresh"]
    counted = documents.groupBy(verdict["action"].alias("action")).count()
    assert {row["action"]: row["count"] for row in counted.collect()} == {"PROCESS": 1, "DISCARD": 1, "LOG": 1}


def test_its_columns_may_have_other_names_or_be_expressions(documents: "DataFrame", history: Path) -> None:
    renamed = documents.select(F.upper("uuid").alias("order id"))
    given: dict[str, Any] = {"uuid": F.lower(F.col("`order id`"))}
    judged = renamed.select(dh.spark.verdict(history, orders(), columns=given).alias("verdict"))
    assert {row.verdict.key: (row.verdict.status, row.verdict.rule) for row in judged.collect()} == EXPECTED
    with pytest.raises(dh.SchemaError, match="has no column order_id"):
        dh.spark.verdict(history, orders(), columns={"order_id": "order id"})


def test_rows_come_out_in_the_order_in_which_they_went_in(spark: "SparkSession", history: Path) -> None:
    df = spark.range(0, 50_000, 1, 3).select(F.concat(F.lit("id-"), "id").alias("uuid"), "id")
    verdict = dh.spark.verdict(history, orders(), columns={"uuid": "uuid"})
    judged = df.select(F.spark_partition_id().alias("part"), "id", verdict["key"].alias("key"))
    found = judged.collect()
    assert len(found) == 50_000
    assert [row.id for row in found] == list(range(50_000))
    assert all(row.key == f"id-{row.id}" for row in found)


def test_ids_may_be_uuids_in_16_bytes(spark: "SparkSession", history_path: Path) -> None:
    ids = [uuid.UUID(int=n * 0x1234_5678_9ABC_DEF0_1234) for n in range(1, 5)]
    with dh.open(history_path, create=True) as opened:
        opened.begin(rows([str(ids[0])]), orders()).complete()
    packed = spark.createDataFrame([(bytearray(one.bytes),) for one in ids], "uuid binary")
    for how in ("udf", "map"):
        judged = dh.spark.classify(packed, history_path, orders(), how)
        assert {row.key: row.status for row in judged.collect()} == {
            str(one): "NEW" if n else "DUPLICATE" for n, one in enumerate(ids)
        }


def test_the_key_comes_from_the_first_id_that_holds_a_value(spark: "SparkSession", history: Path) -> None:
    df = spark.createDataFrame(
        [("done", "a", 0), ("", "begun", 0), (None, "fresh", 0), (None, None, 0), (None, "", 1)],
        "uuid string, event_id string, redelivery_count int",
    )
    judged = dh.spark.classify(df.coalesce(1), history, orders())
    assert [(row.key, row.rule) for row in judged.collect()] == [
        ("done", "R9"),
        ("begun", "R11"),
        ("fresh", "R8"),
        (None, "R3"),
        (None, "R3"),
    ]


def test_a_verdict_says_the_same_in_every_entrance(spark: "SparkSession", history: Path) -> None:
    ids = [*EXPECTED, "", None, "x" * 97, "fresh"]
    df = spark.createDataFrame([(one, n - 1) for n, one in enumerate(ids)], "uuid string, redelivery_count int")
    columns = [*dh.spark.VERDICT_COLUMNS]
    with dh.open(history, read_only=True) as opened:
        counts = pa.array([n - 1 for n in range(len(ids))], pa.int32())
        documents = pa.record_batch({"uuid": pa.array(ids, pa.string()), "redelivery_count": counts})
        direct = opened.classify(documents, orders(in_batch="new")).to_pylist()
    expected = [
        tuple(row[name].replace("+batch", "") if name == "rule" else row[name] for name in columns) for row in direct
    ]
    one = df.coalesce(1)
    verdict = dh.spark.verdict(history, orders())
    for judged in (
        dh.spark.classify(one, history, orders()),
        dh.spark.classify(one, history, orders(), "map"),
        one.select(verdict.alias("v")).select("v.*"),
    ):
        assert [tuple(row) for row in judged.select(*columns).collect()] == expected


def test_sql_may_ask_for_the_verdict_of_a_row(spark: "SparkSession", documents: "DataFrame", history: Path) -> None:
    documents.createOrReplaceTempView("arrived")
    dh.spark.register(spark, "verdict_of", history, orders(), columns=("uuid", "redelivery_count"))
    found = spark.sql("SELECT uuid, verdict_of(uuid, redelivery_count) AS v FROM arrived").collect()
    assert {row.uuid: (row.v.status, row.v.rule) for row in found} == EXPECTED


def test_one_name_is_one_column_of_the_function(spark: "SparkSession", documents: "DataFrame", history: Path) -> None:
    documents.createOrReplaceTempView("arrived")
    dh.spark.register(spark, "verdict_of", history, orders(), columns="uuid")
    found = spark.sql("SELECT verdict_of(uuid).status AS status FROM arrived WHERE uuid = 'done'").collect()
    assert [row.status for row in found] == ["DUPLICATE"]


@pytest.mark.parametrize("arguments", ["", "uuid, redelivery_count"])
@pytest.mark.skipif(not compat.has_table_functions(), reason="pandas comes first there, and counts them")
def test_a_function_given_other_arguments_says_what_it_takes(
    spark: "SparkSession", documents: "DataFrame", history: Path, arguments: str
) -> None:
    documents.createOrReplaceTempView("arrived")
    dh.spark.register(spark, "verdict_of", history, orders())
    with pytest.raises(Exception, match=r"\[DH-SCHEMA\] the function verdict_of was made for uuid, and it is given"):
        spark.sql(f"SELECT verdict_of({arguments}).status FROM arrived").collect()


def test_sql_may_classify_a_table(spark: "SparkSession", documents: "DataFrame", history: Path) -> None:
    documents.createOrReplaceTempView("arrived")
    if compat.has_table_functions():
        dh.spark.register_table(spark, "classified", history, orders(), documents.schema)
        found = spark.sql("SELECT * FROM classified(TABLE(arrived)) WHERE status <> 'NEW'").collect()
        assert {row.uuid: (row.status, row.rule, row.payload) for row in found} == {
            one: (*EXPECTED[one], f"payload of {one}") for one in ("done", "begun")
        }
    else:
        with pytest.raises(dh.spark.UnsupportedError, match=r"\[DH-SPARK\] a table function of Arrow needs Spark 4.1"):
            dh.spark.register_table(spark, "classified", history, orders(), documents.schema)


class Resolver:
    """Knows that one document was done; counts how often it is asked, in this process."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, batch: pa.RecordBatch) -> pa.Table:
        keys, reasons = batch["dh_key"].to_pylist(), batch["dh_reason"].to_pylist()
        self.asked.append(sorted(keys))
        return pa.table(
            {
                "status": ["DUPLICATE" if key == "begun" else "NEW" for key in keys],
                "message": [f"asked about {key}, {reason}" for key, reason in zip(keys, reasons, strict=True)],
            }
        )


@pytest.mark.parametrize("how", [pytest.param("udf", marks=pytest.mark.slow), "map"])
def test_a_resolver_may_run_on_the_driver_once(spark: "SparkSession", history: Path, how: Any) -> None:
    with dh.open(history) as opened:
        opened.begin(rows(["also begun"]), orders())
    df = spark.createDataFrame(rows([*EXPECTED, "also begun"]).to_pandas()).repartition(3)
    resolver = Resolver()

    judged = dh.spark.classify(df, history, orders(resolver=resolver), how, resolve="driver")

    assert resolver.asked == [["also begun", "begun"]]
    for _ in range(2):
        found = {row.uuid: (row.status, row.rule, row.message) for row in judged.collect() if "begun" in row.uuid}
        assert found == {
            "begun": ("DUPLICATE", "R10>S2", "asked about begun, R10"),
            "also begun": ("NEW", "R10>S1", "asked about also begun, R10"),
        }
    assert len(resolver.asked) == 1


def test_resolver_failing_on_driver_decides_as_one_on_a_worker(documents: "DataFrame", history: Path) -> None:
    def failing(_: pa.RecordBatch) -> list[str]:
        raise ValueError("no answer")

    for resolve in ("driver", "workers"):
        judged = dh.spark.classify(documents, history, orders(resolver=failing), resolve=resolve)
        assert {row.uuid: row.rule for row in judged.collect()}["begun"] == "R10>S6", resolve
