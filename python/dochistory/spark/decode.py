"""From the numbers in which verdicts come back from Python to words: expressions that stay in the JVM.

Once as columns, for a verdict that is a column itself, and once as SQL, for a number that has a
name: each call of a function on columns is a few round trips to the JVM, and to plan a small
DataFrame is mostly these.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import BinaryType, DataType, StringType

import dochistory as dh

if TYPE_CHECKING:
    from pyspark.sql import Column


def verdict_words(code: "Column", ids: "Sequence[Column]") -> "list[Column]":
    """The six words of a verdict.

    Args:
        code: what `History.classify_codes` answered.
        ids: the id columns that it was given, in the order of the key chain; text, or UUIDs as 16
            bytes.
    """
    # A negative number is the complement of the code of a row without a key.
    row = F.greatest(code, F.bitwise_not(code)).bitwiseAND(127)
    words = {name: _word(name, row.cast("int")) for name in ("status", "action", "acknowledge", "rule", "message")}
    key = F.lit(None).cast("string")
    for place, one in reversed(list(enumerate(ids))):
        key = F.when((code >= 128 * place) & (code < 128 * (place + 1)), id_text(one)).otherwise(key)
    return [words["status"], words["action"], words["acknowledge"], words["rule"], key, words["message"]]


def verdict_sql(code: str, ids: "Sequence[tuple[str, DataType]]") -> list[str]:
    """The same six words as SQL.

    Args:
        code: the name of the column with what `History.classify_codes` answered.
        ids: the id columns that it was given, in the order of the key chain: names, quoted where
            they need it, and types.
    """
    row = f"greatest({code}, ~{code}) & 127"
    words = {name: _word_sql(name, row) for name in ("status", "action", "acknowledge", "rule", "message")}
    chosen = " ".join(
        f"WHEN {code} >= {128 * place} AND {code} < {128 * (place + 1)} THEN {_id_sql(*one)}"
        for place, one in enumerate(ids)
    )
    key = f"CASE {chosen} ELSE CAST(NULL AS STRING) END"
    return [words["status"], words["action"], words["acknowledge"], words["rule"], key, words["message"]]


def quoted(name: str) -> str:
    """The name of a column as SQL takes it, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def id_text(one: "Column") -> "Column":
    """An id as the text that it is known by: text as it is, 16 bytes of binary as a UUID."""
    # The cast keeps the bytes, and lets a column of any other type through the plan: the worker says what is wrong.
    as_text = F.regexp_replace(
        F.lower(F.hex(one.cast("string"))), "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5"
    )
    # Spark knows the type when it plans, and keeps one of the two.
    return F.when(F.typeof(one) == "binary", as_text).otherwise(one.cast("string"))


def _word(name: str, row: "Column") -> "Column":
    """One of the words of a row. Its table is one literal, which Spark takes apart once, when it plans."""
    text, nulls = _words(name)
    there = F.when(row.isin(*nulls), _NOWHERE).otherwise(row) if nulls else row
    return F.get(F.split(F.lit(text), _BETWEEN), there)


def _word_sql(name: str, row: str) -> str:
    text, nulls = _words(name)
    there = f"CASE WHEN {row} IN ({', '.join(map(str, nulls))}) THEN {_NOWHERE} ELSE {row} END" if nulls else row
    # As bytes: how quotes within text are written depends on settings.
    return f"get(split(CAST(X'{text.encode().hex()}' AS STRING), '{_BETWEEN}'), {there})"


def _id_sql(name: str, type_: DataType) -> str:
    if isinstance(type_, StringType):
        return name
    if not isinstance(type_, BinaryType):
        return f"CAST({name} AS STRING)"
    parts = "'^(.{8})(.{4})(.{4})(.{4})(.{12})$', '$1-$2-$3-$4-$5'"
    return f"regexp_replace(lower(hex({name})), {parts})"


_BETWEEN = "\x1f"

_NOWHERE = -1
"""A place where `get` finds null."""


@cache
def _words(name: str) -> tuple[str, tuple[int, ...]]:
    """The words of all codes in their order, and the codes whose word is null.

    As text it is one expression for Spark to analyse. Split, each word is an object of its own that
    every task of a plan is sent, so each stands in a plan once.
    """
    found = dh.verdict_words().column(name).to_pylist()
    if name == "rule":
        found = [word.replace("+batch", "") for word in found]
    nulls = tuple(place for place, word in enumerate(found) if word is None)
    return _BETWEEN.join(word or "" for word in found), nulls
