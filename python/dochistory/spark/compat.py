"""Everything that differs from one Spark to the next, in one place. Nothing else asks for a version."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

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


PartitionFunction = Callable[[Iterator[Sequence[pa.Array]]], Iterator[pa.StructArray]]
"""The columns of a whole partition in batches, one struct column of the same length out for each batch."""


def partition_udf(function: PartitionFunction, takes: StructType, returns: StructType) -> Callable[..., Column]:
    """Make `function` a function of Spark over argument columns of these types, called once for each partition.

    It may read all batches before it answers: Spark keeps the other columns of the rows meanwhile, on disk if they are
    many. What it answers is not a function of the row alone, so Spark never moves it or evaluates it twice in one plan.
    """
    made: Any
    if hasattr(_functions, "arrow_udf"):
        # Spark reads these hints.
        def arrow(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
            # Of a single column Spark gives arrays rather than tuples of one.
            yield from function(one if isinstance(one, tuple) else (one,) for one in batches)

        made = _functions.arrow_udf(arrow, returns).asNondeterministic()
        return cast("Callable[..., Column]", made)

    import pandas as pd  # here, because later Sparks do without

    types = to_arrow_schema(takes).types

    def arrays(one: Any) -> list[pa.Array]:
        columns = one if isinstance(one, tuple) else (one,)
        return [pa.Array.from_pandas(each).cast(type_) for each, type_ in zip(columns, types, strict=True)]

    def pandas(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.DataFrame]:
        for answer in function(arrays(one) for one in batches):
            yield pa.RecordBatch.from_struct_array(answer).to_pandas()

    made = _functions.pandas_udf(pandas, returns).asNondeterministic()
    return cast("Callable[..., Column]", made)


def route(frame: DataFrame, parts: int, column: str) -> DataFrame:
    """The rows whose integer `column` is p in partition p, of `parts`; adaptive plans leave these partitions alone."""
    any_frame: Any = frame
    if hasattr(any_frame, "repartitionById"):  # Spark 4.1
        routed: DataFrame = any_frame.repartitionById(parts, F.col(column))
        return routed
    stand_ins = ", ".join(str(one) for one in _stand_ins(frame.sparkSession, parts))
    return frame.repartition(parts, F.expr(f"element_at(array({stand_ins}), `{column}` + 1)"))


def _stand_ins(spark: SparkSession, parts: int) -> list[int]:
    """For each partition an integer that Spark's own hash sends there."""
    if parts not in _found_stand_ins:
        hashed = spark.range(64 * parts).selectExpr("cast(id as int) one", f"pmod(hash(cast(id as int)), {parts}) p")
        first = {row.p: row.one for row in hashed.groupBy("p").agg(F.min("one").alias("one")).collect()}
        _found_stand_ins[parts] = [first[part] for part in range(parts)]
    return _found_stand_ins[parts]


_found_stand_ins: dict[int, list[int]] = {}


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
