"""Repeated measurements and what is said of them."""

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

LEAST_S = 0.02
"""A run lasts so many seconds at least: what a single small call takes is mostly what the collection before it left."""


@dataclass(frozen=True)
class Sample:
    """Seconds that one job took, over several runs."""

    median: float
    least: float
    most: float
    runs: int

    @classmethod
    def of(cls, seconds: list[float]) -> "Sample":
        """What is said of these runs."""
        return cls(statistics.median(seconds), min(seconds), max(seconds), len(seconds))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@contextmanager
def collected() -> Iterator[None]:
    """Garbage is collected before, and not within."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def timed(job: Callable[[], object], times: int = 1) -> float:
    """Seconds of one run; with `times`, on average over so many runs in a row."""
    started = time.perf_counter()
    for _ in range(times):
        job()
    return (time.perf_counter() - started) / times


def seconds_of(job: Callable[[], object], times: int = 1) -> float:
    """The same, garbage collection apart."""
    with collected():
        return timed(job, times)


def repeated(job: Callable[[], object], runs: int, budget_s: float) -> Sample:
    """Measure the same job again and again, after one to warm up; fewer times if the budget does not allow it.

    What takes less than `LEAST_S` is done so often in a row that a run lasts as long, for every
    peer alike.
    """
    times = 1
    while (seconds := seconds_of(job, times)) * times < LEAST_S:
        # The first calls take longer than those that follow.
        times = max(2 * times, math.ceil(LEAST_S / seconds))
    return in_turn(lambda _: job, runs, budget_s, times)


def in_turn(jobs: Callable[[int], Callable[[], object]], runs: int, budget_s: float, times: int = 1) -> Sample:
    """Measure `jobs(0)`, `jobs(1)`, …; each is made before its run, and that is not measured."""
    seconds: list[float] = []
    while len(seconds) < runs and (len(seconds) < 2 or sum(seconds) * times < budget_s):
        seconds.append(seconds_of(jobs(len(seconds)), times))
    return Sample.of(seconds)
