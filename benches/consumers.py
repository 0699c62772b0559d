"""What a consumer costs: batches, single documents, duplicates. `python -m benches.consumers`."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

import dochistory as dh


def cpu_of_batches(consumer: dh.Consumer, rows: int = 500, runs: int = 200) -> float:
    """Milliseconds of processor time of a batch that is all NEW, begun."""
    batches = [pa.table({"uuid": [str(uuid.uuid4()) for _ in range(rows)]}) for _ in range(runs)]
    taken = []
    for batch in batches:
        start = time.process_time()
        claim = consumer.begin(batch)
        taken.append((time.process_time() - start) * 1000)
        claim.complete()
    return statistics.median(taken)


def ids() -> Iterator[str]:
    """Ids as messages have them. To draw one takes as long as a duplicate, and lets other threads in."""
    drawn = uuid.uuid4().hex
    return (f"{drawn[:24]}{number:012x}" for number in itertools.count())


def rate_of_threads(consumer: dh.Consumer, threads: int, seconds: float = 3) -> float:
    """Documents a second, each begun and completed, by this number of threads."""
    counts, end = [0] * threads, time.perf_counter() + seconds

    def work(at: int) -> None:
        drawn = ids()
        while time.perf_counter() < end:
            with consumer.one(next(drawn)):
                counts[at] += 1

    running = [threading.Thread(target=work, args=[at]) for at in range(threads)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    return sum(counts) / seconds


def rate_of_tasks(consumer: dh.Consumer, tasks: int, seconds: float = 3) -> float:
    """The same by coroutines."""
    count = 0

    async def work(end: float) -> None:
        nonlocal count
        drawn = ids()
        while time.perf_counter() < end:
            async with consumer.one(next(drawn)):
                count += 1

    async def main() -> None:
        end = time.perf_counter() + seconds
        await asyncio.gather(*(work(end) for _ in range(tasks)))

    start = time.perf_counter()
    asyncio.run(main())
    return count / (time.perf_counter() - start)


def per_duplicate(consumer: dh.Consumer, runs: int = 20_000) -> float:
    """Microseconds of a DUPLICATE, one by one."""
    with consumer.one("again"):
        pass
    start = time.perf_counter()
    for _ in range(runs):
        with consumer.one("again"):
            pass
    return (time.perf_counter() - start) / runs * 1e6


def per_document(consumer: dh.Consumer, runs: int = 500) -> float:
    """Microseconds of a NEW document, begun and completed, one by one."""
    drawn = ids()
    start = time.perf_counter()
    for _ in range(runs):
        with consumer.one(next(drawn)):
            pass
    return (time.perf_counter() - start) / runs * 1e6


def main() -> None:
    """Measure in turns, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of a rate, each turn")
    options = parser.parse_args()
    seconds: float = options.seconds
    measured: dict[str, Callable[[dh.Consumer], float]] = {
        "a batch of 500, all NEW: ms CPU": cpu_of_batches,
        "one, NEW: us": per_document,
        "one, DUPLICATE: us": per_duplicate,
        "one, 64 threads: documents/s": lambda consumer: rate_of_threads(consumer, 64, seconds),
        "one, 1,000 coroutines: documents/s": lambda consumer: rate_of_tasks(consumer, 1_000, seconds),
    }
    found: dict[str, list[float]] = {name: [] for name in measured}
    with tempfile.TemporaryDirectory() as directory:
        for turn in range(options.turns):
            for number, (name, measure) in enumerate(measured.items()):
                with dh.Consumer(Path(directory) / f"{turn}-{number}.history", dh.Trigger("orders")) as consumer:
                    found[name].append(measure(consumer))
    for name, figures in found.items():
        print(f"{name:40} {statistics.median(figures):12,.2f} {min(figures):12,.2f} … {max(figures):,.2f}")


if __name__ == "__main__":
    main()
