"""The guide to delivery: its snippets run and print what they say, and its commands run."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dochistory.cli import main
from tests.ops.test_docs import blocks, printed, promised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_snippets_print_what_they_say_and_commands_run(capsys: pytest.CaptureFixture[str]) -> None:
    said = promised("delivery.md")
    assert len(said) > 8
    assert [line for line in printed("delivery.md", capsys) if line.startswith("[")] == said
    commands = [line for block in blocks("delivery.md", "sh") for line in block.splitlines()]
    assert commands
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, command


@pytest.mark.slow
@pytest.mark.spark
def test_the_snippet_of_spark_runs(spark: "SparkSession", tmp_path: Path) -> None:
    (block,) = blocks("delivery.md", "python spark")
    # Spark takes names from where its Java was started.
    applied = str(tmp_path / "applied.parquet")
    block = block.replace("applied.parquet", applied)
    exec("import dochistory as dh\n" + block, {})
    found = spark.read.parquet(applied).collect()
    assert sorted(int(row["dh_commit"]) for row in found) == [10, 20]
