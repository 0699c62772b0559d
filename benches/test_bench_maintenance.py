"""Opening, purging, filling."""

import shutil
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from benches.conftest import Measure, Writer, big
from benches.stores import TRIGGER, batches, fill, store
from benches.workload import Workload

pytestmark = pytest.mark.benchmark

SIZES = [1_000_000, 10_000_000, pytest.param(100_000_000, marks=big)]


@pytest.mark.parametrize("n", SIZES)
def test_open_and_first_look_up(measure: Measure, n: int) -> None:
    workload = Workload(n, 30)
    path, document = store(workload), workload.batch(1).documents

    def job() -> None:
        with dh.open(path, read_only=True) as history:
            history.classify(document, TRIGGER, now=workload.now)

    measure(job, 1, rounds=15)


def test_open_after_a_kill_with_a_full_log(measure: Measure, scratch: Writer) -> None:
    workload = Workload(1_000_000, 30)
    document = workload.batch(1).documents

    def killed() -> tuple[tuple[Any], dict[str, Any]]:
        path = scratch(workload)
        died = subprocess.run([sys.executable, "-m", "benches.killed", str(path)], check=False)
        assert died.returncode == -signal.SIGKILL
        return (path,), {}

    def job(path: Path) -> None:
        with dh.open(path) as history:
            history.classify(document, TRIGGER, now=workload.now)

    measure(job, 1, setup=killed)


@pytest.mark.parametrize("n", SIZES)
def test_purge_one_partition_of_90(measure: Measure, scratch: Writer, n: int) -> None:
    workload, days = Workload(n, 90), count()
    with dh.open(scratch(workload)) as history:

        def next_day() -> tuple[tuple[Any], dict[str, Any]]:
            return (workload.day(next(days)) + TRIGGER.history_time_to_live,), {}

        def job(now: Any) -> None:
            assert history.purge(TRIGGER, now=now)[TRIGGER.name]["entries"] == pytest.approx(n / 90, abs=1)

        measure(job, 1, rounds=15, setup=next_day)


@pytest.mark.parametrize("order", ["sorted", "unsorted"])
def test_load(measure: Measure, tmp_disk: Path, order: str) -> None:
    """`history.load` of what is in memory: ids in the order of time, or of 30 days mixed."""
    workload, path = Workload(16_000_000, 30), tmp_disk / "history"
    given = list(batches(workload))
    if order == "unsorted":
        days = [batch.column("started_at")[0] for batch in given]
        rows = max(batch.num_rows for batch in given)
        mixed = pa.array([days[row % len(days)].value for row in range(rows)], pa.timestamp("us", "UTC"))
        given = [batch.set_column(1, "started_at", mixed.slice(0, batch.num_rows)) for batch in given]

    def emptied() -> None:
        shutil.rmtree(path, ignore_errors=True)

    def job() -> None:
        with dh.open(path, create=True, auto_maintain=False) as history:
            assert history.load(given, TRIGGER) == workload.n

    measure(job, workload.n, rounds=3, setup=emptied)


def test_fill_a_history(measure: Measure, tmp_disk: Path) -> None:
    """Loading and full upkeep, with the making of the ids."""
    workload, path = Workload(2_000_000, 30), tmp_disk / "history"

    def emptied() -> None:
        shutil.rmtree(path, ignore_errors=True)

    measure(lambda: fill(path, workload), workload.n, rounds=5, setup=emptied)
