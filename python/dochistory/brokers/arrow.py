"""Brokers' counts as Arrow columns."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory.brokers.columns import LARGEST, NUMBER, UNKNOWN


class ArrowColumns:
    """Columns of Arrow, or of anything that Arrow can read."""

    def ordinal(self, values: Any, first: int, absent: int) -> Any:
        """As `Columns`."""
        column = _column(values)
        number = _numbers(column)
        above = pc.min_element_wise(pc.subtract(number, first), LARGEST)
        known = pc.fill_null(pc.greater_equal(number, first), False)
        counted = pc.if_else(known, above, UNKNOWN)
        return pc.if_else(pc.is_null(column, nan_is_null=True), absent, counted).cast(pa.int32())

    def flag(self, values: Any) -> Any:
        """As `Columns`."""
        return _flags(_column(values)).cast(pa.int32()).fill_null(UNKNOWN)

    def constant(self, values: Any, constant: int) -> Any:
        """As `Columns`."""
        column = _column(values)
        same = pa.repeat(pa.scalar(constant, pa.int32()), len(column))
        return pa.chunked_array([same]) if isinstance(column, pa.ChunkedArray) else same

    def largest(self, *counts: Any) -> Any:
        """As `Columns`."""
        if len({len(one) for one in counts}) > 1:
            lengths = ", ".join(str(len(one)) for one in counts)
            raise dh.SchemaError(f"[DH-SCHEMA] the columns have {lengths} rows: give columns of the same documents")
        return pc.max_element_wise(*counts)

    def combined(self, counts: list[Any], flag: Any) -> Any:
        """As `Columns`."""
        largest = self.largest(*counts) if flag is None else self.largest(*counts, flag)
        unreadable = pc.and_(pc.equal(pc.min_element_wise(*counts), UNKNOWN), pc.equal(largest, 0))
        return pc.if_else(unreadable, pa.scalar(UNKNOWN, pa.int32()), largest)


def _column(values: Any) -> Any:
    """The values as an Arrow array or chunked array."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        column = values
    elif hasattr(values, "__arrow_c_array__"):
        column = pa.array(values)
    elif hasattr(values, "__arrow_c_stream__"):
        column = pa.chunked_array(values)
    else:
        try:
            column = pa.array(values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
            raise dh.SchemaError(
                f"[DH-SCHEMA] {type(values).__name__} is not a column of counts ({error}): give an Arrow "
                "column or a list"
            ) from error
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def _is_text(type_: Any) -> bool:
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
    )


def _numbers(column: Any) -> Any:
    """The column as int64; null where it holds no whole number."""
    type_ = column.type
    if pa.types.is_null(type_) or pa.types.is_signed_integer(type_):
        return column.cast(pa.int64())
    if pa.types.is_unsigned_integer(type_):
        return pc.min_element_wise(column.cast(pa.uint64()), pa.scalar(LARGEST + 1, pa.uint64())).cast(pa.int64())
    if _is_text(type_):
        text = _text(column)
        matched = pc.fill_null(pc.match_substring_regex(text, NUMBER), False)
        readable = pc.if_else(matched, text, pa.scalar(None, pa.string()))
        # An exponent does not match, and Arrow does not read a plus sign.
        return _numbers(pc.replace_substring(pc.utf8_trim_whitespace(readable), "+", "").cast(pa.float64()))
    if pa.types.is_floating(type_):
        column = column.cast(pa.float64())
        whole = pc.fill_null(pc.equal(pc.floor(column), column), False)
        within = pc.max_element_wise(pc.min_element_wise(column, float(LARGEST + 1)), -1.0)
        return pc.if_else(whole, within, pa.scalar(None, pa.float64())).cast(pa.int64())
    raise dh.SchemaError(f"[DH-SCHEMA] a column of type {type_} holds no counts: give integers, or their text")


def _flags(column: Any) -> Any:
    """The column as booleans; null where it holds none."""
    type_ = column.type
    if pa.types.is_null(type_) or pa.types.is_boolean(type_):
        return column.cast(pa.bool_())
    if _is_text(type_):
        text = pc.utf8_lower(pc.utf8_trim_whitespace(_text(column)))
        yes = pc.is_in(text, value_set=pa.array(["true", "1"]))
        no = pc.is_in(text, value_set=pa.array(["false", "0"]))
    elif pa.types.is_integer(type_):
        yes, no = pc.equal(column, 1), pc.equal(column, 0)
    else:
        raise dh.SchemaError(f"[DH-SCHEMA] a column of type {type_} holds no flags: give booleans, or their text")
    return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, pa.bool_()))


def _text(column: Any) -> Any:
    """The column as utf8; null where its bytes are no text."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:  # bytes that are no text: only in damaged headers, so rarely
        readable = [None if value is None else value.decode("ascii", "replace") for value in column.to_pylist()]
        made = pa.array(readable, pa.string())
        return pa.chunked_array([made]) if isinstance(column, pa.ChunkedArray) else made
