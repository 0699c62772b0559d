"""Lives of a history: the reference workload L(N, B), and what one is asked beside a loaded one."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dochistory as dh
from benches.machine import memory_kib
from benches.peers.base import size_on_disk
from benches.timing import LEAST_S, seconds_of
from benches.workload import FIRST_DAY, FRESH, SEED, Numbers, urn_column, uuid_column
from dochistory.progress import Bar

DAYS = 30
TRIGGER = dh.Trigger(
    "orders",
    detect_duplicates=True,
    use_history=True,
    history_time_to_live=timedelta(days=365),
    processing_mode="serial",
)
DUPLICATES, OPEN_ONE_OF = 100, 500  # one row in 100 and in 500; half of the batches leave rows open
LOOKS = 100  # at the bytes on disk, over a life


class Life:
    """The batches of L(N, B)."""

    def __init__(self, n: int, batch: int, *, urns: bool = False, first: int = 0) -> None:
        self.column = urn_column if urns else uuid_column
        self.rows, self.first = batch, first
        self.repeated = batch // DUPLICATES
        self.new = batch - self.repeated
        self.batches = max(n // batch, 1)
        self.ids = self.batches * self.new

    def now(self, number: int) -> datetime:
        """When a batch begins."""
        return FIRST_DAY + timedelta(days=DAYS) * (number / self.batches)

    def numbers(self, number: int) -> Numbers:
        """The ids that a batch begins."""
        start = self.first + number * self.new
        return np.arange(start, start + self.new, dtype=np.uint64)

    def stays_open(self, numbers: Numbers) -> Any:
        """Which of these ids are never completed: some of every second batch."""
        batch = (numbers - np.uint64(self.first)) // np.uint64(self.new)
        return (batch % np.uint64(2) == 1) & (numbers % np.uint64(OPEN_ONE_OF) == 7)

    def documents(self, number: int) -> tuple[pa.RecordBatch, Any]:
        """A batch, and the rows that it completes; none for all."""
        day = self.batches * (number * DAYS // self.batches) // DAYS
        random = np.random.default_rng([SEED, number])
        known = np.zeros(0, dtype=np.uint64)
        if day:
            known = random.integers(self.first, self.first + day * self.new, self.repeated, dtype=np.uint64)
            known = known[~self.stays_open(known)]
        numbers = np.concatenate((self.numbers(number), known))
        rows = None
        if number % 2:
            rows = np.flatnonzero(~self.stays_open(self.numbers(number)))
        return pa.record_batch({"uuid": self.column(numbers)}), rows

    def question(self, rows: int, run: int) -> pa.RecordBatch:
        """1 % completed ids, 0.1 % open ones, the rest new."""
        random = np.random.default_rng([SEED, rows, run, 1])
        some = np.unique(random.integers(self.first, self.first + self.ids, rows // 100 or 1, dtype=np.uint64))
        new = np.arange(rows - len(some), dtype=np.uint64) + np.uint64(FRESH + (run << 24))
        return pa.record_batch({"uuid": self.column(random.permutation(np.concatenate((some, new))))})

    def hits(self, rows: int) -> pa.RecordBatch:
        """Known ids only, in any order."""
        random = np.random.default_rng([SEED, rows, 2])
        numbers = np.unique(random.integers(self.first, self.first + self.ids, rows, dtype=np.uint64))
        return pa.record_batch({"uuid": self.column(random.permutation(numbers))})


def load(path: Path, life: Life) -> None:
    """The same ids, loaded."""

    def parts() -> Iterator[pa.RecordBatch]:
        step = max(500_000 // life.rows, 1)
        for start in range(0, life.batches, step):
            some = range(start, min(start + step, life.batches))
            numbers = np.concatenate([life.numbers(number) for number in some])
            times = np.repeat(
                np.array([life.now(n).replace(tzinfo=None) for n in some], dtype="datetime64[us]"), life.new
            )
            status = pa.DictionaryArray.from_arrays(
                life.stays_open(numbers).astype(np.int8), ["completed", "processing"]
            )
            started_at = pa.array(times).cast(pa.timestamp("us", "UTC"))
            yield pa.record_batch({"uuid": life.column(numbers), "started_at": started_at, "status": status})

    with dh.open(path, create=True) as history:
        history.load(parts(), TRIGGER)
        history.maintain(TRIGGER, all=True)


def written() -> int:
    """Bytes that this process has handed to the system."""
    lines = (line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {name: int(value) for name, value in lines}["wchar"]


def spread(seconds: list[float]) -> dict[str, float]:
    """Percentiles in milliseconds."""
    at = np.percentile(np.array(seconds) * 1e3, [50, 99, 99.9, 100])
    return dict(zip(("p50_ms", "p99_ms", "p999_ms", "worst_ms"), map(float, at), strict=True))


def live(history: dh.History, life: Life, path: Path) -> dict[str, Any]:
    """Begin and complete everything; what it took. The batches are made before."""
    batches = [life.documents(number) for number in range(life.batches)]
    begins: list[float] = []
    ends: list[list[float]] = [[], []]
    most = 0.0
    memory = peak = memory_kib()
    bytes_before, every = written(), max(life.batches // LOOKS, 1)
    looking = 0.0
    started = time.perf_counter()
    with Bar(f"living, batches of {life.rows:,}", life.ids) as bar:
        for number, (documents, rows) in enumerate(batches):
            before = time.perf_counter()
            claim = history.begin(documents, TRIGGER, now=life.now(number))
            between = time.perf_counter()
            if rows is None:
                claim.complete()
            else:
                claim.complete(rows=rows)
            after = time.perf_counter()
            begins.append(between - before)
            ends[number % 2].append(after - between)
            if number % every == every - 1:
                ids = (number + 1) * life.new
                if ids >= 1_000_000:
                    most = max(most, size_on_disk(path) / ids)
                peak = max(peak, memory_kib())
                bar(ids)
                looking += time.perf_counter() - after
    seconds = time.perf_counter() - started - looking
    both = [
        begin + end for begin, end in zip(begins, (e for pair in zip(*ends, strict=False) for e in pair), strict=False)
    ]
    return {
        "ids_a_second": life.batches * life.rows / seconds,
        "begin_and_complete": spread(both),
        "begin": spread(begins),
        "complete_whole": spread(ends[0]),
        "complete_rows": spread(ends[1]) if ends[1] else None,
        "bytes_written_an_id": (written() - bytes_before) / life.ids,
        "bytes_an_id": size_on_disk(path) / life.ids,
        "most_bytes_an_id": most,
        "memory_mib": (peak - memory) / 1024,
    }


def in_turns(jobs: Mapping[str, Callable[[], object]], runs: int) -> tuple[dict[str, float], dict[str, float]]:
    """What the first call of each took, and medians of jobs that take turns, each often enough in a row.

    The first small look-up after large batches puts them into the log's index.
    """
    first = {name: seconds_of(job) for name, job in jobs.items()}
    times = {name: max(round(LEAST_S / seconds_of(job)), 1) for name, job in jobs.items()}
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs):
        for name, job in jobs.items():
            found[name].append(seconds_of(job, times[name]))
    return first, {name: statistics.median(seconds) for name, seconds in found.items()}


def asked(lived: dh.History, loaded: dh.History, life: Life, runs: int, rows: int) -> dict[str, Any]:
    """The questions, to both in turns: `ratio` is how fast the lived one is beside the loaded one."""
    found = {}
    questions = {
        f"classify {rows:,}": life.question(rows, 1),
        "all hits": life.hits(rows),
        "classify 1,000": life.question(1000, 2),
        "classify 1": life.question(1, 3),
    }
    for name, documents in questions.items():
        histories = {"lived": lived, "loaded": loaded}
        jobs = {which: partial(history.classify, documents, TRIGGER) for which, history in histories.items()}
        first, seconds = in_turns(jobs, runs)
        found[name] = {
            "ratio": seconds["loaded"] / seconds["lived"],
            "lived_first_us": first["lived"] * 1e6,
            **{f"{which}_us": value * 1e6 for which, value in seconds.items()},
            **{f"{which}_rows_a_second": len(documents) / value for which, value in seconds.items()},
        }
    return found
