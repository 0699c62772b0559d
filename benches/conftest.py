"""Histories to measure on, and what is written beside each measurement."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from benches.stores import scratch_copy, store
from benches.workload import Workload

SCRATCH = Path("out/bench-scratch")
BIG = bool(os.environ.get("DOCHISTORY_BENCH_BIG"))

big = pytest.mark.skipif(not BIG, reason="needs 4 GB of disk and minutes: set DOCHISTORY_BENCH_BIG=1")
Measure = Callable[..., float]
Reader = Callable[[Workload], dh.History]
Writer = Callable[[Workload], Path]


@pytest.fixture
def reader() -> Iterator[Reader]:
    """Open the cached history of a workload for reading."""
    opened: list[dh.History] = []

    def open_store(workload: Workload) -> dh.History:
        opened.append(dh.open(store(workload), read_only=True))
        return opened[-1]

    yield open_store
    for history in opened:
        history.close()


@pytest.fixture
def scratch() -> Iterator[Writer]:
    """A copy of the cached history of a workload, to be written to, and on the same disk as the cache."""
    copies: list[Path] = []

    def copy(workload: Workload) -> Path:
        directory = SCRATCH / f"{os.getpid()}-{len(copies)}"
        directory.mkdir(parents=True)
        copies.append(directory)
        return scratch_copy(workload, directory)

    yield copy
    for directory in copies:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def tmp_disk() -> Iterator[Path]:
    """An empty directory on the disk of the histories, which that of temporary files need not be."""
    directory = SCRATCH / f"{os.getpid()}-empty"
    directory.mkdir(parents=True)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def measure(benchmark: Any) -> Measure:
    """Measure a job on so many documents; the median, in seconds, comes back and their rate is written down."""

    def run(job: Callable[..., Any], documents: int, *, rounds: int = 7, times: int = 1, setup: Any = None) -> float:
        warm = 0 if setup else 1
        benchmark.pedantic(job, setup=setup, rounds=rounds, iterations=times, warmup_rounds=warm)
        median: float = benchmark.stats.stats.median
        benchmark.extra_info.update(documents=documents, documents_per_s=round(documents / median))
        return median

    return run
