"""Everything that differs from one Spark to the next, in one place. Nothing else asks for a version."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from inspect import signature
from threading import Thread
from typing import Any, cast

import pyarrow as pa

try:
    import pyspark
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "[DH-SPARK] dochistory.spark needs PySpark: pip install 'dochistory[spark]'", name=error.name
    ) from error
from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

import dochistory as dh
from dochistory.spark.shipped import Shipped

_functions: Any = F  # which of them there are depends on the version

ArrowFunction = Callable[[Sequence[pa.Array]], pa.Array]
"""Columns in, one column of the same length out."""


class UnsupportedError(RuntimeError):
    """What was asked is more than this Spark has; the text says what it takes."""


def needs(what: str, version: str) -> UnsupportedError:
    """The error that says so.

    Args:
        what: what was asked for, as the subject of a sentence.
        version: the first Spark that has it.
    """
    return UnsupportedError(f"[DH-SPARK] {what} needs Spark {version} or later; this is Spark {pyspark.__version__}")


OLDEST = (3, 5)


def check_version() -> None:
    """Refuse a Spark that lacks what all of this rests on.

    Raises:
        UnsupportedError: it does.
    """
    if _version() < OLDEST:
        raise needs("dochistory.spark", ".".join(map(str, OLDEST)))


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in pyspark.__version__.split(".")[:2])


def newest_java() -> int | None:
    """The newest Java that this Spark runs on; None where no limit is known.

    Java 24 removed what the Hadoop of Spark up to 4.1 needs to start.
    """
    return 23 if _version() < (4, 2) else None


def check_connect() -> None:
    """Refuse Spark Connect where what it needs is not installed.

    Raises:
        UnsupportedError: there is no grpcio.
    """
    if find_spec("grpc") is None:
        raise UnsupportedError("[DH-SPARK] Spark Connect needs grpcio: pip install 'dochistory[connect]'")


def check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse what is not among the allowed.

    Raises:
        ConfigError: [DH-CONFIG] it is not.
    """
    if value not in allowed:
        *others, last = (repr(one) for one in allowed)
        raise dh.ConfigError(f"[DH-CONFIG] {name} is {', '.join(others)} or {last}, not {value!r}")


def columnar_udf(function: ArrowFunction, takes: Sequence[pa.DataType | None], returns: DataType) -> Any:
    """Make `function` a scalar function of Spark.

    Where Spark has `arrow_udf` (4.1 and later) the columns go to and fro as Arrow; else through
    pandas.

    Args:
        function: what runs in the workers.
        takes: the Arrow types of its arguments, as far as pandas might lose them.
        returns: the type of its result.
    """
    function = Shipped(function)
    if hasattr(_functions, "arrow_udf"):

        def arrow(*columns: pa.Array) -> pa.Array:
            return function(columns)

        return _functions.arrow_udf(arrow, returns)

    import pandas as pd  # here, because later Sparks do without

    def array_of(column: pd.Series | pd.DataFrame) -> pa.Array:
        if isinstance(column, pd.DataFrame):  # a struct
            return pa.RecordBatch.from_pandas(column, preserve_index=False).to_struct_array()
        return pa.Array.from_pandas(column)

    def arrays_of(columns: Sequence[pd.Series]) -> list[pa.Array]:
        # In pandas, integers with a null among them are floats.
        arrays = [array_of(one) for one in columns]
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
    function = Shipped(function)

    class Table:
        """What Spark makes one of for each partition."""

        def eval(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
            yield from function(batch)

    return _functions.arrow_udtf(Table, returnType=returns)


def has_data_sources() -> bool:
    """Whether this Spark has data sources in Python, and so the format `dochistory`."""
    return find_spec("pyspark.sql.datasource") is not None


def check_data_sources() -> None:
    """Refuse a Spark without data sources in Python.

    Raises:
        UnsupportedError: before Spark 4.0.
    """
    if not has_data_sources():
        raise needs('the format "dochistory"', "4.0")


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


PartitionFunction = Callable[[Iterator[Sequence[pa.Array]]], Iterator[pa.StructArray]]
"""The columns of a whole partition in batches, one struct column of the same length out for each batch."""


def partition_udf(function: PartitionFunction, takes: StructType, returns: StructType) -> Callable[..., Column]:
    """Make `function` a function of Spark over argument columns of these types, called once for each partition.

    It may read all batches before it answers: Spark keeps the other columns of the rows meanwhile,
    on disk if they are many. What it answers is not a function of the row alone, so Spark never
    moves it or evaluates it twice in one plan.
    """
    made: Any
    function = Shipped(function)
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

    made = _functions.pandas_udf(pandas, _nullable(returns)).asNondeterministic()
    return cast("Callable[..., Column]", made)


def _nullable(schema: StructType) -> StructType:
    """The same columns, any of which may be null: what comes from pandas says so, and Spark 3.5 compares it."""
    return StructType([StructField(one.name, one.dataType) for one in schema.fields])


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


def arrow_schema_in_utc(schema: StructType) -> pa.Schema:
    """The Arrow schema in which Spark takes rows of this schema from a data source."""
    any_types: Any = to_arrow_schema
    try:
        return any_types(schema, timezone="UTC")
    except TypeError:  # Before Spark 4.1 there is no other.
        return any_types(schema)


def shuffle_partitions(spark: SparkSession) -> int:
    """How many parts a shuffle makes; what is usual, where the platform chooses (`auto`)."""
    set_to = spark.conf.get("spark.sql.shuffle.partitions", "200") or "200"
    return max(1, int(set_to)) if set_to.isdecimal() else 200


def parallelism(spark: SparkSession) -> int:
    """How many tasks run side by side; on Spark Connect, which does not say, how many parts a shuffle makes."""
    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - Connect's own error type cannot be imported where Connect is not installed
        return shuffle_partitions(spark)


def planning_thread(spark: SparkSession) -> Callable[..., Thread]:
    """What makes a thread in which this session plans."""
    if "session" in signature(InheritableThread.__init__).parameters:
        return partial(InheritableThread, session=spark)
    return InheritableThread  # before Spark 4.0


def is_one_machine(spark: SparkSession) -> bool:
    """Whether Spark runs its tasks within the process of its driver, and nowhere else."""
    return re.fullmatch(r"local(\[.*\])?", spark.conf.get("spark.master", "") or "") is not None


def make_active(spark: SparkSession) -> None:
    """Let the settings of a session count for what this thread plans; those of Spark's defaults would, else."""
    java = getattr(spark, "_jsparkSession", None)
    if java is None:
        return  # Spark Connect plans nothing here
    any_spark: Any = spark
    class_of = getattr(SparkSession, "_get_j_spark_session_class", lambda jvm: jvm.SparkSession)
    class_of(any_spark._jvm).setActiveSession(java)  # noqa: SLF001 - as Spark's own Python does


def stores_here(frame: DataFrame) -> bool:
    """Whether `stored` keeps rows in the driver's own process, where each has one place and one version."""
    return is_one_machine(frame.sparkSession) and hasattr(frame, "_jdf")  # Spark Connect has none


def stored(frame: DataFrame) -> DataFrame:
    """The rows of a DataFrame, evaluated now and stored; where they are lost, reading them is an error."""
    return frame.localCheckpoint(eager=True)


_LOST = (
    "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND",
    "Checkpoint block rdd_",  # before Spark 4.1
    "with indeterminate output was failed and retried",
)


def has_lost_rows(error: Exception) -> bool:
    """Whether a job failed as an executor was lost with rows of it, which Spark itself does not compute again.

    They were kept there alone; or computed again they differ, as the numbers of rows do that come
    from a shuffle, and other tasks have used them already.
    """
    return any(text in str(error) for text in _LOST)


def let_go(frame: DataFrame) -> None:
    """Free what `stored` keeps. Where that fails, Spark does it when Java has collected the plan."""
    any_frame: Any = frame
    if not hasattr(any_frame, "_jdf"):
        return  # Spark Connect frees it when Python has collected the frame
    with suppress(Py4JError):
        plan = any_frame._jdf.queryExecution().logical()  # noqa: SLF001
        if plan.getClass().getSimpleName() == "LogicalRDD":
            plan.rdd().unpersist(False)


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
        ConfigError: [DH-CONFIG] none does.
    """
    found = SparkSession.getActiveSession()
    if found is None:
        raise dh.ConfigError("[DH-CONFIG] no Spark session: start one, or pass it as spark=…")
    return found


def query_id(spark: SparkSession) -> str | None:
    """The id of the streaming query whose batch this thread handles; it outlives restarts from one checkpoint.

    None outside a stream and on Spark Connect, which shows no such thing.
    """
    try:
        context = spark.sparkContext
    except Exception:  # noqa: BLE001 - Connect's own error type cannot be imported where Connect is not installed
        return None
    found: str | None = context.getLocalProperty("sql.streaming.queryId")
    return found


def application_of(given: str | None, frame: DataFrame, function: str) -> str:
    """The application whose batch this is: the one given, or the streaming query.

    Args:
        given: the application's name.
        frame: the batch.
        function: who needs it, in an error.

    Raises:
        ConfigError: [DH-CONFIG] neither is there.
    """
    application = given or query_id(frame.sparkSession)
    if application is None:
        raise dh.ConfigError(
            f"[DH-CONFIG] {function} needs application=…, a name that stays the same over restarts: "
            "outside a stream and on Spark Connect there is no query id to use"
        )
    return application


check_version()
