"""Columns of verdicts and documents, of any kind of table. Only Arrow's own loops run here."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh

VERDICTS = ("status", "action", "acknowledge", "rule", "key", "message")
"""The columns of verdicts."""


def table_of(documents: Any) -> pa.Table:
    """Anything that Arrow can read, as a table.

    Raises:
        SchemaError: [DH-SCHEMA] it is no table.
    """
    if isinstance(documents, pa.Table):
        return documents
    if isinstance(documents, pa.RecordBatch):
        return pa.Table.from_batches([documents])
    try:
        return pa.table(documents)
    except (TypeError, ValueError, pa.ArrowException) as error:
        kind = type(documents).__name__
        raise dh.SchemaError(f"[DH-SCHEMA] a {kind} is not a table: pass an Arrow, Polars or pandas table") from error


def verdicts_of(verdicts: Any, needed: tuple[str, ...] = VERDICTS) -> pa.Table:
    """Verdicts as a table with the columns that are needed.

    Raises:
        SchemaError: [DH-SCHEMA] a column is missing.
    """
    table = table_of(verdicts)
    if missing := [name for name in needed if name not in table.column_names]:
        raise dh.SchemaError(
            f"[DH-SCHEMA] verdicts have no column {', '.join(missing)}: pass the result of classify or claim.verdicts"
        )
    return without_views(table)


def without_views(table: pa.Table) -> pa.Table:
    """Convert columns of views to the plain layout: Arrow's functions and Parquet's readers hardly support views."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    for at, field in enumerate(table.schema):
        if field.type in plain:
            table = table.set_column(at, field.name, table.column(at).cast(plain[field.type]))
    return table


def rows_where(column: pa.ChunkedArray, *words: str) -> pa.Array:
    """The numbers of the rows that hold one of these words."""
    wanted = pa.array(words, pa.string())
    if not pa.types.is_dictionary(column.type):
        return _numbers(pc.indices_nonzero(pc.is_in(column.cast(pa.string()), value_set=wanted)))
    found, first = [], 0
    for chunk in column.chunks:
        # In a dictionary only the words are compared; the rows are compared by number.
        codes = pc.indices_nonzero(pc.is_in(chunk.dictionary.cast(pa.string()), value_set=wanted))
        codes = codes.cast(chunk.indices.type)
        is_one = pc.equal(chunk.indices, codes[0]) if len(codes) == 1 else pc.is_in(chunk.indices, value_set=codes)
        found.append(pc.add(pc.indices_nonzero(is_one).cast(pa.int64()), first))
        first += len(chunk)
    return pa.concat_arrays(found) if found else pa.array([], pa.int64())


def text(column: Any) -> Any:
    """A column of text as plain text."""
    return column.cast(pa.string())


def same_rows(documents: pa.Table, verdicts: pa.Table) -> None:
    """Check that documents and verdicts belong to one batch.

    Raises:
        SchemaError: [DH-SCHEMA] they have different numbers of rows.
    """
    if documents.num_rows != verdicts.num_rows:
        raise dh.SchemaError(
            f"[DH-SCHEMA] there are {documents.num_rows} documents and {verdicts.num_rows} verdicts: "
            "give those of one batch"
        )


def _numbers(rows: Any) -> pa.Array:
    rows = rows.cast(pa.int64())
    return pa.concat_arrays(rows.chunks) if isinstance(rows, pa.ChunkedArray) else rows
