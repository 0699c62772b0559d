"""The pages about Spark: their snippets run, in order, and print what they say; their table names tests."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.support import states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[2] / "docs"
TESTS = Path(__file__).parents[1]


@pytest.fixture
def home(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Iterator[Path]":
    """An empty directory, and afterwards no tables."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for table in spark.catalog.listTables():
        if not table.isTemporary:
            spark.sql(f"DROP TABLE {table.name}")


def run(page: str, names: dict[str, Any], home: Path) -> list[str]:
    """Run a page's snippets, one after the other; what they promise to print, which they have to."""
    text = (DOCS / page).read_text(encoding="utf-8")
    kind = "python spark" if page == "../README.md" else "python"
    snippets = re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert snippets
    # Spark resolves paths by the directory that it was started in.
    snippets = [
        re.sub(r'"(orders\.\w+|incoming|shipped|checkpoint)"', lambda found: repr(str(home / found[1])), one)
        for one in snippets
    ]
    for number, snippet in enumerate(snippets, 1):
        exec(compile(snippet, f"{page}, snippet {number}", "exec"), names)
    return re.findall(r"^ *print\(.*\)\s+# (\[.*\])$", text, re.MULTILINE)


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("[")]


@pytest.mark.slow
def test_the_snippets_of_the_first_page_run(
    spark: "SparkSession", home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    promised = run("spark.md", names, home)
    assert len(promised) == 2
    assert printed(capsys) == promised
    query: Any = names["query"]
    query.processAllAvailable()
    query.stop()
    assert sorted(row.order_id for row in spark.table("processed").collect()) == ["o-10", "o-11"]
    assert sorted(row.uuid for row in spark.table("orders").collect()) == ["o-2", "o-3"]
    assert states(home / "orders.history", "completed") == {"o-1", "o-2", "o-10", "o-11"}
    assert states(home / "orders.history", "processing") == set()


def test_the_stream_of_the_readme_runs(spark: "SparkSession", home: Path) -> None:
    names: dict[str, Any] = {}
    run("../README.md", names, home)
    names["query"].processAllAvailable()
    names["query"].stop()
    shipped = spark.read.parquet(str(home / "shipped"))
    assert sorted(row.uuid for row in shipped.collect()) == ["o-10", "o-11"]


@pytest.mark.slow
def test_the_snippets_of_the_second_page_run(
    spark: "SparkSession", home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promised = run("spark-more.md", {}, home)
    assert len(promised) >= 6
    assert printed(capsys) == promised
    written = spark.read.parquet(str(home / "orders.parquet"))
    assert sorted(row.order_id for row in written.collect()) == ["o-10", "o-11"]
    after = spark.read.format("dochistory").option("path", str(home / "orders.history")).load()
    expected = dict.fromkeys(["o-1", "o-2", "o-3", "o-10", "o-11"], "completed")
    assert {row.key: row.status for row in after.collect()} == expected


def test_every_failure_that_the_page_lists_names_its_tests() -> None:
    listed = (DOCS / "spark.md").read_text(encoding="utf-8").split("## Failure tests")[1]
    failures = re.split(r"^- ", listed, flags=re.MULTILINE)[1:]
    assert len(failures) >= 13
    file = Path()
    for failure in failures:
        named = re.findall(r"`([\w/]+\.py|…)(?:::(test_\w+)`|`: all)", failure)
        assert named, f"a failure without a test: {failure}"
        for place, test in named:
            file = file if place == "…" else TESTS / place
            assert re.search(rf"^def {test or 'test_'}", file.read_text(encoding="utf-8"), re.MULTILINE), test
