"""The page about Spark's further entrances: its snippets run, in order, and print what they say."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "spark-more.md"


def test_the_snippets_of_the_page_run(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(snippets) >= 6
    # Spark resolves paths by the directory that it was started in.
    snippets = [re.sub(r'"(orders\.\w+)"', lambda found: repr(str(tmp_path / found[1])), one) for one in snippets]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input").mkdir()
    pq.write_table(pa.table({"order_id": ["o-10", "o-11", "o-10"]}), tmp_path / "input" / "1.parquet")
    names: dict[str, object] = {
        "spark": spark,
        "stream": spark.readStream.schema("order_id string").parquet(str(tmp_path / "input")),
    }
    for number, snippet in enumerate(snippets, 1):
        exec(compile(snippet, f"{PAGE.name}, snippet {number}", "exec"), names)

    promised = re.findall(r"^print\(.*\)\s+# (\[.*\])$", text, re.MULTILINE)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("[")] == promised
    written = spark.read.parquet(str(tmp_path / "orders.parquet"))
    assert sorted(row.order_id for row in written.collect()) == ["o-10", "o-11"]
    after = spark.read.format("dochistory").option("path", str(tmp_path / "orders.history")).load()
    expected = dict.fromkeys(["o-1", "o-2", "o-3", "o-10", "o-11"], "completed")
    assert {row.key: row.status for row in after.collect()} == expected
