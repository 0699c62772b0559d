"""Everything that differs from one Spark to the next, in one place. Nothing else asks for a version."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

_functions: Any = F  # which of them there are depends on the version

ArrowFunction = Callable[[Sequence[pa.Array]], pa.StructArray]
"""Columns in, one struct column of the same length out."""


def columnar_udf(function: ArrowFunction, takes: StructType, returns: StructType) -> Callable[..., Column]:
    """Make `function` a scalar function of Spark over argument columns of these types.

    Where Spark has `arrow_udf` (4.1 and later) the columns go to and fro as Arrow; else through pandas.
    """
    made: Callable[..., Column]
    if hasattr(_functions, "arrow_udf"):

        def arrow(*columns: pa.Array) -> pa.Array:
            return function(columns)

        made = _functions.arrow_udf(arrow, returns)
        return made

    import pandas as pd  # here, because later Sparks do without

    types = to_arrow_schema(takes).types

    # Spark reads these hints.
    def pandas(*columns: pd.Series) -> pd.DataFrame:
        # In pandas, integers with a null among them are floats.
        arrays = [pa.Array.from_pandas(one).cast(type_) for one, type_ in zip(columns, types, strict=True)]
        frame: pd.DataFrame = pa.RecordBatch.from_struct_array(function(arrays)).to_pandas()
        return frame

    made = _functions.pandas_udf(pandas, returns)
    return made


def collect_arrow(frame: DataFrame) -> pa.Table:
    """All rows of the DataFrame on the driver, evaluated once, in Spark's order."""
    any_frame: Any = frame
    if hasattr(any_frame, "toArrow"):  # Spark 4.0
        return any_frame.toArrow()
    return pa.Table.from_batches(any_frame._collect_as_arrow(), to_arrow_schema(frame.schema))  # noqa: SLF001


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
