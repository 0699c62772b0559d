"""What a consumer costs: batches, single documents, duplicates. `python -m benches.consumers`."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
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


def rate_of_threads(consumer: dh.Consumer, threads: int, seconds: float = 3) -> float:
    """Documents a second, each begun and completed, by this number of threads."""
    counts, end = [0] * threads, time.perf_counter() + seconds

    def work(at: int) -> None:
        while time.perf_counter() < end:
            with consumer.one(uuid.uuid4()):
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
        while time.perf_counter() < end:
            async with consumer.one(uuid.uuid4()):
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
    start = time.perf_counter()
    for _ in range(runs):
        with consumer.one(uuid.uuid4()):
            pass
    return (time.perf_counter() - start) / runs * 1e6


def main() -> None:
    """Measure, and print."""
    measured: list[tuple[str, Callable[[dh.Consumer], float]]] = [
        ("a batch of 500, all NEW: ms CPU", cpu_of_batches),
        ("one, NEW: us", per_document),
        ("one, DUPLICATE: us", per_duplicate),
        ("one, 64 threads: documents/s", lambda consumer: rate_of_threads(consumer, 64)),
        ("one, 1,000 coroutines: documents/s", lambda consumer: rate_of_tasks(consumer, 1_000)),
    ]
    with tempfile.TemporaryDirectory() as directory:
        for number, (name, measure) in enumerate(measured):
            with dh.Consumer(
                Path(directory) / f"{number}.history", dh.Trigger("orders", detect_duplicates=True, use_history=True)
            ) as consumer:
                print(f"{name:40} {measure(consumer):12,.2f}", flush=True)


if __name__ == "__main__":
    main()
