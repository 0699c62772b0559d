"""What an older Spark lacks is said by a clear error, and looked for in one module alone."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

import dochistory as dh
from dochistory.spark import compat
from tests.spark.support import orders, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

PACKAGE = Path(dh.__file__).parent


@pytest.mark.slow
def test_the_format_is_there_or_refused(spark: "SparkSession", history_path: Path) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(rows(["a"]), orders())
    reader = spark.read.format("dochistory").option("path", str(history_path))
    if compat.has_data_sources():
        assert [row.key for row in reader.load().collect()] == ["a"]
        return
    # Spark looks for it before anything of ours runs, and says that it knows no such format.
    with pytest.raises(Exception, match="dochistory"):
        reader.load()
    with pytest.raises(Exception, match="dochistory"):
        spark.createDataFrame(rows(["b"]).to_pandas()).write.format("dochistory").mode("append").save(str(history_path))
    for name in ("pyspark_dochistory", "dochistory.spark.source", "dochistory.spark.sink"):
        imported = subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, text=True, check=False)
        assert '[DH-SPARK] the format "dochistory" needs Spark 4.0 or later' in imported.stderr


def test_one_module_knows_versions_of_spark() -> None:
    asks = re.compile(
        r"pyspark\.__version__|hasattr\((F|functions|_functions|spark|df|frame|any_\w+),|find_spec\(.pyspark\.sql\."
    )
    found = [one.name for one in PACKAGE.rglob("*.py") if asks.search(one.read_text(encoding="utf-8"))]
    assert found == ["compat.py"]


@pytest.mark.parametrize(("said", "parts"), [("2", 2), ("auto", 200), ("", 200)])
def test_how_many_parts_a_shuffle_makes_may_be_left_to_spark(said: str, parts: int) -> None:
    session = SimpleNamespace(conf={"spark.sql.shuffle.partitions": said})
    assert compat.shuffle_partitions(cast("SparkSession", session)) == parts
