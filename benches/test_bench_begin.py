"""Begin and complete: each durable on return, by one, by threads, by processes."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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


@pytest.mark.parametrize("rows", [1_000_000, 10_000, 1])
def test_begin_and_complete_a_batch(measure: Measure, scratch: Writer, rows: int) -> None:
    numbers = count()
    with dh.open(scratch(REFERENCE)) as history:

        def next_batch() -> tuple[tuple[Any], dict[str, Any]]:
            return (REFERENCE.batch(rows, run=next(numbers)).documents,), {}

        def job(documents: Any) -> None:
            history.begin(documents, TRIGGER, now=REFERENCE.now).complete()

        measure(job, rows, rounds=7 if rows > 10_000 else 50, setup=next_batch)


def test_two_syncs_alone(measure: Measure, tmp_disk: Path) -> None:
    """What the disk takes for one document at a time, whoever writes."""
    with (tmp_disk / "log").open("wb", buffering=0) as file:

        def job() -> None:
            for _ in range(2 * ONE_EACH):
                file.write(bytes(128))
                os.fdatasync(file.fileno())

        measure(job, ONE_EACH)


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


@pytest.mark.parametrize("processes", [1, 4])
def test_processes_on_one_trigger(benchmark: Any, scratch: Writer, processes: int) -> None:
    """What all of them do in a second together, from when the first starts to when the last has done its share."""
    path, runs = scratch(REFERENCE), count(start=1)
    rates: list[float] = []

    def job() -> None:
        rates.append(_together(path, processes, next(runs)))

    benchmark.pedantic(job, rounds=5, iterations=1)
    benchmark.extra_info["documents_per_s"] = round(sorted(rates)[len(rates) // 2])


def _together(path: Path, processes: int, run: int) -> float:
    command = [sys.executable, "-m", "benches.consumer", str(path)]
    consumers = [
        subprocess.Popen([*command, str(run * 100 + number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
