"""Sources of the rows of an old history. Each can be read twice, because the comparison reads it again."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeAlias

import pyarrow as pa

import dochistory as dh

Source: TypeAlias = Callable[[], Iterable[pa.RecordBatch]]
"""Answers the rows from their beginning, each time it is called."""


def rows_of(table: Any) -> Source:
    """A table, a data set of files (`pyarrow.dataset.dataset(...)`), or anything else with the Arrow C interface.

    A Spark DataFrame, such as one that Spark reads over JDBC, is collected here each time; if it
    does not fit into memory, use `dochistory.spark.load`.

    Args:
        table: an object with the rows.

    Returns:
        Source: reads the rows with each call.

    Raises:
        TypeError: it can be read only once, as a stream can.
    """
    if isinstance(table, pa.RecordBatchReader):
        raise TypeError(
            "a stream can be read only once, and the check reads it again: give a table, a data set or a function"
        )
    if type(table).__module__.startswith("pyspark.sql."):
        from dochistory.spark.compat import collect_arrow  # here, because those without Spark have other tables

        return lambda: iter(collect_arrow(table).to_batches())
    if hasattr(table, "to_batches"):
        return lambda: iter(table.to_batches())
    return lambda: iter(pa.table(table).to_batches())


def dbapi(connect: Callable[[], Any], query: str, *, rows_at_once: int = 65_536) -> Source:
    """The rows of a query over a connection of any DB-API 2.0 driver: psycopg, oracledb, sqlite3, JayDeBeApi.

    Args:
        connect: makes a connection; called once a reading. If the driver has server-side cursors,
            as psycopg has, one is used, so that the rows need not fit into memory.
        query: names the columns as `import_history` expects them: `select topic as trigger, id as
            uuid, …`.
        rows_at_once: rows of one batch.

    Returns:
        Source: reads the rows with each call.
    """

    def read() -> Iterator[pa.RecordBatch]:
        with closing(connect()) as connection, closing(_cursor(connection)) as cursor:
            cursor.execute(query)
            schema: pa.Schema | None = None
            while rows := cursor.fetchmany(rows_at_once):
                names = [str(column[0]).lower() for column in cursor.description]
                batch = _batch(names, rows, schema)
                schema = batch.schema
                yield batch

    return read


def _cursor(connection: Any) -> Any:
    try:
        return connection.cursor("dochistory_import")
    except TypeError:
        return connection.cursor()


def _batch(names: list[str], rows: list[Any], schema: pa.Schema | None) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    types = schema.types if schema else [None] * len(names)
    return pa.record_batch(list(map(_array, names, columns, types)), names=names)


def _array(name: str, values: tuple[Any, ...], type_: Any) -> Any:
    """A column of a driver's objects. UUID objects become text; a column without values has no type yet."""
    if any(type(value).__name__ == "UUID" for value in values):
        values = tuple(None if value is None else str(value) for value in values)
    try:
        return pa.array(values, None if type_ is None or pa.types.is_null(type_) else type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise dh.SchemaError(
            f"[DH-SCHEMA] column {name!r} of the query has values of several types, or of one that nothing here holds "
            f"({error}): let the query cast it"
        ) from error
