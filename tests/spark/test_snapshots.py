"""What plans pin: it is let go when their process ends, and otherwise when its time is over."""

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dochistory as dh
from dochistory.spark.snapshots import Snapshot
from tests.spark.support import orders, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PLANS = """
import os, signal, sys
from dochistory.spark.snapshots import Snapshot
for _ in range(3):
    Snapshot.of(sys.argv[1], "orders")
if sys.argv[2] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def history(history_path: Path) -> Path:
    with dh.open(history_path, create=True) as opened:
        opened.begin(rows(["a"]), orders()).complete()
    return history_path


def pins(path: Path) -> list[dt.timedelta]:
    """For how long each state is pinned."""
    with dh.open(path, read_only=True) as opened:
        return [one["ends_at"] - one["pinned_at"] for one in opened.pins("orders")]


def test_what_a_process_pinned_ends_with_it(history: Path) -> None:
    subprocess.run([sys.executable, "-c", PLANS, str(history), "end"], check=True)
    assert pins(history) == []


def test_what_a_killed_process_pinned_is_left_once_for_a_week(history: Path) -> None:
    subprocess.run([sys.executable, "-c", PLANS, str(history), "die"], check=False)
    assert pins(history) == [dt.timedelta(days=7)]


def test_released_snapshot_is_pinned_again(history: Path) -> None:
    first = Snapshot.of(history, "orders")
    assert Snapshot.of(history, "orders") == first
    with dh.open(history) as opened:
        opened.unpin("orders", first.token)
    second = Snapshot.of(history, "orders")
    assert second != first
    with second.open() as reader:
        assert reader.classify(rows(["a"]), orders())["rule"].to_pylist() == ["R9"]


@pytest.mark.slow
def test_what_a_read_pins_is_kept_for_a_day(spark: "SparkSession", history: Path) -> None:
    pytest.importorskip("pyspark.sql.datasource", reason="data sources of Python came with Spark 4.0: test_older.py")
    reader = spark.read.format("dochistory").option("path", str(history)).option("trigger", "orders")
    assert [row.key for row in reader.load().collect()] == ["a"]
    assert set(pins(history)) == {dt.timedelta(days=1)}
