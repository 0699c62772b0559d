"""From the numbers in which verdicts come back from Python to words: expressions that stay in the JVM."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

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
    # A negative number is the complement of the code of a row without a key; of a byte, the upper half says so too.
    row = code.bitwiseAND(255) if len(ids) == 1 else F.when(code < 0, -1 - code).otherwise(code.bitwiseAND(127))
    words = {name: _word(name, row.cast("int")) for name in ("status", "action", "acknowledge", "rule", "message")}
    key = F.lit(None).cast("string")
    for place, one in reversed(list(enumerate(ids))):
        key = F.when((code >= 128 * place) & (code < 128 * (place + 1)), id_text(one)).otherwise(key)
    return [words["status"], words["action"], words["acknowledge"], words["rule"], key, words["message"]]


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
    text, has_nulls = _words(name)
    found = F.get(F.split(F.lit(text), _BETWEEN), row)
    return F.when(found != "", found) if has_nulls else found


_BETWEEN = "\x1f"


@cache
def _words(name: str) -> tuple[str, bool]:
    """The words of all codes, in which elements n and 255 - n are the word of code n; and whether some are null.

    As text it is one expression for Spark to analyse; as an array of literals it is 256, and a
    third of the time that it takes to plan a small DataFrame.
    """
    known = dh.verdict_words().column(name).to_pylist()
    half = known + [None] * (128 - len(known))
    found = half + half[::-1]
    if name == "rule":
        found = [word and word.replace("+batch", "") for word in found]
    return _BETWEEN.join(word or "" for word in found), any(word is None for word in known)
