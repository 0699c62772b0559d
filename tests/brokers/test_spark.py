"""Brokers' counts as expressions of Spark."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import brokers
from tests.brokers.rows import ROWS, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.slow
@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "lenient"])
def test_spark_counts_as_arrow_does(spark: "SparkSession", ansi: bool) -> None:
    spark.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    try:
        assert [_in_spark(spark, row) for row in ROWS] == [row.counts for row in ROWS]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def _in_spark(spark: "SparkSession", row: Row) -> list[int]:
    from pyspark.sql import types

    names = [f"c{n}" for n in range(len(row.columns))]
    schema = types.StructType(
        [
            types.StructField("row", types.IntegerType()),
            *(types.StructField(name, _type(column)) for name, column in zip(names, row.columns, strict=True)),
        ]
    )
    rows = [(n, *values) for n, values in enumerate(zip(*row.columns, strict=True))]
    frame = spark.createDataFrame(rows, schema)
    counts: Any = getattr(brokers, row.function)(*(frame[name] for name in names))
    selected = frame.select("row", counts.alias("count"))
    assert selected.schema["count"].dataType == types.IntegerType()
    return [found["count"] for found in sorted(selected.collect())]


def _type(column: list[Any]) -> Any:
    from pyspark.sql import types

    return {
        pa.int64(): types.LongType(),
        pa.bool_(): types.BooleanType(),
        pa.float64(): types.DoubleType(),
        pa.string(): types.StringType(),
    }[pa.array(column).type]


def test_counts_of_spark_stay_in_the_jvm(spark: "SparkSession", capsys: pytest.CaptureFixture[str]) -> None:
    frame = spark.range(3)
    frame.select(brokers.sqs(frame["id"])).explain()
    plan = capsys.readouterr().out
    assert "Project" in plan
    assert "Python" not in plan


def test_a_spark_column_beside_another_kind_is_refused(spark: "SparkSession") -> None:
    with pytest.raises(dh.SchemaError, match="columns of one kind"):
        brokers.rabbitmq_quorum(spark.range(1)["id"], [True])
