"""Everything that differs from one Spark to the next, in one place. Nothing else asks for a version."""

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

__all__ = ["collect_arrow", "columnar_udf", "frame_of", "from_arrow_schema", "query_id"]

ArrowFunction = Callable[[Sequence[pa.Array]], pa.StructArray]
"""Columns in, one struct column of the same length out."""


def columnar_udf(function: ArrowFunction, returns: StructType) -> Callable[..., Column]:
    """Make `function` a scalar function of Spark over its argument columns.

    Where Spark has `arrow_udf` (4.1 and later) the columns go to and fro as Arrow; else through pandas.
    """
    if hasattr(F, "arrow_udf"):

        def arrow(*columns: pa.Array) -> pa.Array:
            return function(columns)

        return F.arrow_udf(arrow, returns)

    import pandas as pd

    def pandas(*columns: pd.Series) -> pd.DataFrame:  # type: ignore[type-arg] - Spark reads these hints
        struct = function([pa.Array.from_pandas(one) for one in columns])
        return pa.RecordBatch.from_struct_array(struct).to_pandas()

    return F.pandas_udf(pandas, returns)


def collect_arrow(frame: DataFrame) -> pa.Table:
    """All rows of the DataFrame on the driver, evaluated once, in Spark's order."""
    if hasattr(frame, "toArrow"):  # Spark 4.0
        return frame.toArrow()
    return pa.Table.from_batches(frame._collect_as_arrow(), to_arrow_schema(frame.schema))  # noqa: SLF001


def frame_of(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """A DataFrame of these rows, which needs no evaluation of where they came from."""
    try:
        return spark.createDataFrame(table, schema)
    except TypeError:  # Spark 3.5 takes no Arrow table
        return spark.createDataFrame(table.to_pandas(), schema)


def query_id(spark: SparkSession) -> str | None:
    """The id of the streaming query whose batch this thread handles; it outlives restarts from one checkpoint.

    None outside a stream, and on Spark Connect, which shows no such thing.
    """
    try:
        context = spark.sparkContext
    except Exception:  # noqa: BLE001 - Connect's own error type cannot be imported where Connect is not installed
        return None
    found: str | None = context.getLocalProperty("sql.streaming.queryId")
    return found
