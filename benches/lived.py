"""A history that lived beside one that was loaded: `python -m benches.lived --n 1e7 --batch 1e4`.

The reference workload L(N, B): N ids through `begin` and `complete` in batches of B, while `now`
moves evenly over 30 days. 1 % of each batch are ids of earlier days, 0.1 % of all ids stay
`processing`, and every second batch completes by `rows=`. One process, default settings, no call of
`maintain` or `load`. Then, at once, the same questions to it and to a history of the same ids that
was loaded, in turns. Prints a table and writes out/lived.json.
"""

import argparse
import json
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dochistory as dh
from benches.machine import machine, memory_kib
from benches.peers.base import size_on_disk
from benches.timing import LEAST_S, seconds_of
from benches.workload import FIRST_DAY, FRESH, SEED, Numbers, urn_column, uuid_column
from dochistory.progress import Bar

OUT = Path("out/lived")
DAYS = 30
TRIGGER = dh.Trigger(
    "orders",
    detect_duplicates=True,
    use_history=True,
    history_time_to_live=timedelta(days=365),
    processing_mode="serial",
)
DUPLICATES, OPEN_ONE_OF = 100, 500  # one row of so many; half of the batches leave rows open
JOBS = ("life", "reader", "writers", "single")
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
    begins, ends, most = [], [[], []], 0.0
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


def in_turns(jobs: dict[str, Callable[[], object]], runs: int) -> dict[str, float]:
    """Medians of jobs that take turns, each often enough in a row."""
    times = {name: max(round(LEAST_S / seconds_of(job)), 1) for name, job in jobs.items()}
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs):
        for name, job in jobs.items():
            found[name].append(seconds_of(job, times[name]))
    return {name: statistics.median(seconds) for name, seconds in found.items()}


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
        jobs = {which: (lambda h=history, d=documents: h.classify(d, TRIGGER)) for which, history in histories.items()}
        seconds = in_turns(jobs, runs)
        found[name] = {
            "ratio": seconds["loaded"] / seconds["lived"],
            **{f"{which}_us": value * 1e6 for which, value in seconds.items()},
            **{f"{which}_rows_a_second": len(documents) / value for which, value in seconds.items()},
        }
    return found


def of_life(given: argparse.Namespace) -> dict[str, Any]:
    """One life, and the questions after it."""
    life = Life(given.n, given.batch, urns=given.urns)
    loaded_path, path = OUT / "loaded", OUT / "lived"
    load(loaded_path, life)
    with dh.open(loaded_path) as loaded, dh.open(path, create=True) as history:
        found = live(history, life, path)
        found["at_once"] = asked(history, loaded, life, given.runs, given.rows)
        if given.later:
            time.sleep(given.later)
            found["later"] = asked(history, loaded, life, given.runs, given.rows)
            found["later_bytes_an_id"] = size_on_disk(path) / life.ids
        found["loaded_bytes_an_id"] = size_on_disk(loaded_path) / life.ids
        found["stats"] = {name: value for name, value in history.stats(TRIGGER).items() if isinstance(value, int)}
    return found


def of_reader(given: argparse.Namespace) -> dict[str, Any]:
    """What another handle reads beside a writer at full speed, which is a process of its own."""
    import subprocess

    life = Life(given.n, given.batch, urns=given.urns)
    path, loaded_path = OUT / "beside", OUT / "loaded"
    load(loaded_path, life)
    command = [sys.executable, "-m", "benches.lived", "--writer", str(path), "--first", "0"]
    command += ["--n", str(given.n), "--batch", str(given.batch)]
    dh.open(path, create=True).close()
    documents = life.question(given.rows, 1)
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    beside: list[float] = []
    with dh.open(path) as history, dh.open(loaded_path) as loaded:
        while writer.poll() is None:
            if history.triggers():
                beside.append(seconds_of(lambda: history.classify(documents, TRIGGER)))
        alone = [seconds_of(lambda: loaded.classify(documents, TRIGGER)) for _ in range(given.runs)]
    assert writer.stdout is not None
    return {
        "loaded_rows_a_second": given.rows / statistics.median(alone),
        "beside_rows_a_second": given.rows / statistics.median(beside[3:] or beside),
        "ratio": statistics.median(alone) / statistics.median(beside[3:] or beside),
        "writer": json.loads(writer.stdout.read()),
    }


def of_writers(given: argparse.Namespace) -> dict[str, Any]:
    """Four processes that write to one trigger."""
    import subprocess

    path = OUT / "shared"
    dh.open(path, create=True).close()
    command = [sys.executable, "-m", "benches.lived", "--writer", str(path), "--batch", str(given.batch)]
    command += ["--n", str(given.n // 4), "--first"]
    writers = [subprocess.Popen([*command, str(part << 32)], stdout=subprocess.PIPE, text=True) for part in range(4)]
    found = [json.loads(writer.communicate()[0]) for writer in writers]
    return {
        "ids_a_second": sum(one["ids_a_second"] for one in found),
        "begin_and_complete": found[0]["begin_and_complete"],
    }


def as_writer(given: argparse.Namespace) -> None:
    """A life in a history that others use too."""
    life = Life(given.n, given.batch, urns=given.urns, first=given.first)
    with dh.open(given.writer) as history:
        json.dump(live(history, life, given.writer), sys.stdout)


def of_single(given: argparse.Namespace) -> dict[str, Any]:
    """Single documents: `begin_one` and `complete`, by threads that share a history."""
    found = {}
    for threads in (1, 8, 64):
        with dh.open(OUT / f"single-{threads}", create=True) as history:
            found[str(threads)] = singles(history, threads, max(given.singles // threads, 50))
    return found


def singles(history: dh.History, threads: int, each: int) -> dict[str, float]:
    """Documents a second, and what one takes."""
    seconds = [list[float]() for _ in range(threads)]
    ids = uuid_column(np.arange(each * threads, dtype=np.uint64)).to_pylist()

    def work(which: int) -> None:
        for text in ids[which * each : (which + 1) * each]:
            before = time.perf_counter()
            history.begin_one(trigger=TRIGGER, uuid=text).complete()
            seconds[which].append(time.perf_counter() - before)

    workers = [threading.Thread(target=work, args=(which,)) for which in range(threads)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took = time.perf_counter() - started
    return {"a_second": each * threads / took, **spread([value for one in seconds for value in one])}


def arguments() -> argparse.Namespace:
    """The command line."""

    def number(text: str) -> int:
        return int(float(text))

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=number, default=10_000_000, help="documents of a life")
    parser.add_argument("--batch", type=number, default=10_000)
    parser.add_argument("--rows", type=number, default=1_000_000, help="documents of a question")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--later", type=float, default=0.0, help="seconds after which everything is asked again")
    parser.add_argument("--urns", action="store_true", help="ids that are no UUIDs")
    parser.add_argument("--singles", type=number, default=4000, help="single documents for each number of threads")
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--writer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def printed(found: dict[str, Any], indent: str = "") -> None:
    """A listing of nested figures."""
    for name, value in found.items():
        if isinstance(value, dict) and all(isinstance(one, float | int) for one in value.values()):
            print(f"{indent}{name:24}", "  ".join(f"{what} {one:,.4g}" for what, one in value.items()))
        elif isinstance(value, dict):
            print(f"{indent}{name}")
            printed(value, indent + "  ")
        elif isinstance(value, float | int):
            print(f"{indent}{name:24} {value:,.4g}")


def main() -> None:
    """Measure, print, write."""
    given = arguments()
    if given.writer:
        as_writer(given)
        return
    jobs = {"life": of_life, "reader": of_reader, "writers": of_writers, "single": of_single}
    result: dict[str, Any] = {"machine": machine(), "n": given.n, "batch": given.batch, "urns": given.urns}
    for name in given.only:
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir(parents=True)
        result[name] = jobs[name](given)
        Path("out/lived.json").write_text(json.dumps(result, indent=2) + "\n")
    shutil.rmtree(OUT, ignore_errors=True)
    printed({name: result[name] for name in given.only})


if __name__ == "__main__":
    main()
