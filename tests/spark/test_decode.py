"""Words of verdicts from their numbers, in the JVM: as columns and as SQL."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import BinaryType, StringType

import dochistory as dh
from dochistory.spark.decider import VERDICT_COLUMNS
from dochistory.spark.decode import quoted, verdict_sql, verdict_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

WORDS = dh.verdict_words().to_pylist()
IDS = ["track", "the `order` id", "packed"]
PACKED = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def expected(code: int, places: int) -> tuple[Any, ...]:
    """What `History.classify_codes` says of its numbers."""
    word = WORDS[-1 - code if code < 0 else code % 128]
    keys = ["a track", "it's an \\id", str(PACKED)][-places:]
    key = None if code < 0 else keys[code // 128]
    return (
        word["status"],
        word["action"],
        word["acknowledge"],
        word["rule"].replace("+batch", ""),
        key,
        word["message"],
    )


@contextmanager
def configured(spark: "SparkSession", name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    yield
    spark.conf.set(name, str(before))


@pytest.mark.parametrize("places", [1, 3])
@pytest.mark.parametrize("how", ["columns", "sql"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.ansi.enabled", "true"),
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.parser.escapedStringLiterals", "true"),
    ],
)
def test_every_verdict_number_becomes_its_words(
    spark: "SparkSession", places: int, how: str, name: str, value: str
) -> None:
    known = range(len(WORDS))
    codes = [*(128 * place + n for place in range(places) for n in known), *(-1 - n for n in known)]
    ids = IDS[-places:]
    types = [StringType(), StringType(), BinaryType()][-places:]
    with configured(spark, name, value):
        frame = spark.createDataFrame(
            [(code, "a track", "it's an \\id", bytearray(PACKED.bytes)) for code in codes],
            f"code int, {quoted(IDS[0])} string, {quoted(IDS[1])} string, {quoted(IDS[2])} binary",
        ).withColumn("code", F.col("code").cast("byte" if places == 1 else "short"))
        if how == "columns":
            words = verdict_words(frame["code"], [frame[quoted(one)] for one in ids])
            made = frame.select("code", *(word.alias(of) for word, of in zip(words, VERDICT_COLUMNS, strict=True)))
        else:
            named = [(quoted(one), type_) for one, type_ in zip(ids, types, strict=True)]
            sql = verdict_sql("code", named)
            made = frame.selectExpr("code", *(f"{one} AS {of}" for one, of in zip(sql, VERDICT_COLUMNS, strict=True)))
        found = {row["code"]: tuple(row)[1:] for row in made.collect()}

    assert found == {code: expected(code, places) for code in codes}
