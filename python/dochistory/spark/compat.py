"""Everything that differs from one Spark to the next, in one place. Nothing else asks for a version."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructType

import dochistory as dh

_functions: Any = F  # which of them there are depends on the version

ArrowFunction = Callable[[Sequence[pa.Array]], pa.Array]
"""Columns in, one column of the same length out."""


class UnsupportedError(RuntimeError):
    """This Spark is too old for what was asked; the text says what it takes."""


def needs(what: str, version: str) -> UnsupportedError:
    """The error that says so.

    Args:
        what: what was asked for, as the subject of a sentence.
        version: the first Spark that has it.
    """
    return UnsupportedError(f"[DH-SPARK] {what} needs Spark {version} or later; this is Spark {pyspark.__version__}")


def check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse what is not among the allowed.

    Raises:
        ConfigError: it is not.
    """
    if value not in allowed:
        *others, last = (repr(one) for one in allowed)
        raise dh.ConfigError(f"[DH-CONFIG] {name} is {', '.join(others)} or {last}, not {value!r}")


def columnar_udf(function: ArrowFunction, takes: Sequence[pa.DataType | None], returns: DataType) -> Any:
    """Make `function` a scalar function of Spark.

    Where Spark has `arrow_udf` (4.1 and later) the columns go to and fro as Arrow; else through pandas.

    Args:
        function: what runs in the workers.
        takes: the Arrow types of its arguments, as far as pandas might lose them.
        returns: the type of its result.
    """
    if hasattr(_functions, "arrow_udf"):

        def arrow(*columns: pa.Array) -> pa.Array:
            return function(columns)

        return _functions.arrow_udf(arrow, returns)

    import pandas as pd  # here, because later Sparks do without

    def arrays_of(columns: Sequence[pd.Series]) -> list[pa.Array]:
        # In pandas, integers with a null among them are floats.
        arrays = [pa.Array.from_pandas(one) for one in columns]
        return [one if type_ is None else one.cast(type_) for one, type_ in zip(arrays, takes, strict=True)]

    # Spark reads the hints of these two.
    def frame(*columns: pd.Series) -> pd.DataFrame:
        answered: pd.DataFrame = pa.RecordBatch.from_struct_array(function(arrays_of(columns))).to_pandas()
        return answered

    def series(*columns: pd.Series) -> pd.Series:
        return pd.Series(function(arrays_of(columns)).to_pandas())

    return _functions.pandas_udf(frame if isinstance(returns, StructType) else series, returns)


def has_table_functions() -> bool:
    """Whether this Spark has table functions of Arrow."""
    return hasattr(_functions, "arrow_udtf")


def table_function(function: Callable[[pa.RecordBatch], Iterator[pa.Table]], returns: StructType) -> Any:
    """Make `function` a table function of Spark: it is handed a table, batch by batch.

    Raises:
        UnsupportedError: before Spark 4.1.
    """
    if not has_table_functions():
        raise needs("a table function of Arrow", "4.1")

    class Table:
        """What Spark makes one of for each partition."""

        def eval(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
            yield from function(batch)

    return _functions.arrow_udtf(Table, returnType=returns)


def _stream_arrow_writer() -> type:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter
    except ImportError:
        return object
    return DataSourceStreamArrowWriter


DataSourceStreamArrowWriter: Any = _stream_arrow_writer()
"""What a sink for streams is made of; a mere object before Spark 4.1."""


def has_stream_sink() -> bool:
    """Whether this Spark hands a stream to a sink as Arrow."""
    return DataSourceStreamArrowWriter is not object


def check_stream_sink() -> None:
    """Refuse a Spark that cannot hand a stream to a sink as Arrow.

    Raises:
        UnsupportedError: before Spark 4.1.
    """
    if not has_stream_sink():
        raise needs('writeStream.format("dochistory")', "4.1")


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


def add_archive(spark: SparkSession, archive: str) -> None:
    """Have an archive unpacked on every executor.

    Args:
        spark: the session.
        archive: its path, `#`, and the name of the directory that it is unpacked into.
    """
    try:
        context = spark.sparkContext
    except Exception:  # noqa: BLE001 - Connect's own error type cannot be imported where Connect is not installed
        any_spark: Any = spark
        any_spark.addArtifacts(archive, archive=True)
    else:
        context.addArchive(archive)


def running_session() -> SparkSession:
    """The session that runs.

    Raises:
        ConfigError: none does.
    """
    found = SparkSession.getActiveSession()
    if found is None:
        raise dh.ConfigError("[DH-CONFIG] there is no Spark session: start one, or give it as spark=…")
    return found


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
