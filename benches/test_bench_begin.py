"""Begin and complete: each durable on return, by one, by threads, by processes."""

import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from benches.conftest import Measure, Writer
from benches.stores import TRIGGER
from benches.workload import Workload

pytestmark = pytest.mark.benchmark

REFERENCE = Workload(10_000_000, 30)
ONE_EACH = 100  # documents that a thread begins and completes, one at a time
IN_TURN = 200  # documents, with two bare syncs before each
TOGETHER = {1: 800, 10_000: 160}  # batches of so many rows that all processes do together


@pytest.mark.parametrize(("rows", "threads"), [(1_000_000, 1), (1_000_000, 2), (10_000, 1), (1, 1)])
def test_begin_and_complete_a_batch(measure: Measure, scratch: Writer, rows: int, threads: int) -> None:
    numbers = count()
    with dh.open(scratch(REFERENCE)) as history:

        def next_batch() -> tuple[tuple[Any], dict[str, Any]]:
            return (REFERENCE.batch(rows, run=next(numbers)).documents,), {}

        def job(documents: Any) -> None:
            history.begin(documents, TRIGGER, now=REFERENCE.now, threads=threads).complete()

        measure(job, rows, rounds=7 if rows > 10_000 else 50, setup=next_batch)


def test_one_document_beside_two_syncs(benchmark: Any, scratch: Writer, tmp_disk: Path) -> None:
    """What a document costs beyond two syncs of the same disk; in turn with them, as the disk's mood changes.

    A file that grows with each write, and one whose length stays, as that of the history's log
    does.
    """
    ids = iter(REFERENCE.fresh(2 * IN_TURN, run=1000).ids.to_pylist())
    alone, with_room, whole = list[float](), list[float](), list[float]()
    with (
        dh.open(scratch(REFERENCE)) as history,
        (tmp_disk / "log").open("wb", buffering=0) as growing,
        (tmp_disk / "room").open("wb", buffering=0) as roomy,
    ):
        roomy.truncate(2 * 2 * 2 * IN_TURN * 112)
        os.fsync(roomy.fileno())

        def two_syncs(file: FileIO) -> None:
            for _ in range(2):
                file.write(bytes(112))
                os.fdatasync(file.fileno())

        def one_document(uuid: str) -> None:
            history.begin_one(uuid=uuid, trigger=TRIGGER, now=REFERENCE.now).complete()

        def job() -> None:
            for _ in range(IN_TURN):
                started = time.perf_counter()
                two_syncs(growing)
                between = time.perf_counter()
                two_syncs(roomy)
                before = time.perf_counter()
                one_document(next(ids))
                whole.append(time.perf_counter() - before)
                with_room.append(before - between)
                alone.append(between - started)

        benchmark.pedantic(job, rounds=2, iterations=1)
    syncs, kept, document = (statistics.median(times) * 1e6 for times in (alone, with_room, whole))
    benchmark.extra_info.update(two_syncs_us=syncs, two_syncs_with_room_us=kept, document_us=document)
    benchmark.extra_info.update(beyond_us=document - syncs, beyond_with_room_us=document - kept)


@pytest.mark.parametrize("threads", [1, 8])
def test_begin_and_complete_one_document_at_a_time(measure: Measure, scratch: Writer, threads: int) -> None:
    runs = count()
    with dh.open(scratch(REFERENCE)) as history, ThreadPoolExecutor(threads) as pool:

        def one_after_another(ids: list[str]) -> None:
            for uuid in ids:
                history.begin_one(uuid=uuid, trigger=TRIGGER, now=REFERENCE.now).complete()

        def next_ids() -> tuple[tuple[Any], dict[str, Any]]:
            ids = REFERENCE.fresh(ONE_EACH * threads, run=next(runs)).ids.to_pylist()
            return ([ids[thread::threads] for thread in range(threads)],), {}

        def job(shares: list[list[str]]) -> None:
            list(pool.map(one_after_another, shares))

        measure(job, ONE_EACH * threads, setup=next_ids)


@pytest.mark.parametrize("rows", [1, 10_000])
@pytest.mark.parametrize("processes", [1, 4])
def test_processes_on_one_trigger(benchmark: Any, scratch: Writer, processes: int, rows: int) -> None:
    """What all of them do in a second together, from when the first starts to when the last has done its share.

    However many they are, they do the same together: the log is put into segments equally often.
    """
    path, runs = scratch(REFERENCE), count(start=1)
    rates: list[float] = []

    def job() -> None:
        rates.append(_together(path, processes, next(runs), rows))

    benchmark.pedantic(job, rounds=5, iterations=1)
    benchmark.extra_info["documents_per_s"] = round(sorted(rates)[len(rates) // 2])


def _together(path: Path, processes: int, run: int, rows: int) -> float:
    batches = TOGETHER[rows] // processes
    command = [sys.executable, "-m", "benches.consumer", str(path)]
    consumers = [
        subprocess.Popen(
            [*command, str(run * 100 + number), str(rows), str(batches)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    for consumer in consumers:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == "ready\n"
    answers = []
    for consumer in consumers:
        assert consumer.stdin is not None
        consumer.stdin.write("go\n")
        consumer.stdin.flush()
    for consumer in consumers:
        answer, _ = consumer.communicate()
        assert consumer.returncode == 0
        answers.append([float(text) for text in answer.split()])
    documents = sum(answer[0] for answer in answers)
    return documents / (max(answer[2] for answer in answers) - min(answer[1] for answer in answers))
