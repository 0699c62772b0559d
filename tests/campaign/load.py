"""Load: threads and processes offer the same documents, over and over, and each document is processed exactly once.

`python -m tests.campaign.load --seconds 600` runs it by itself and prints its figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import dochistory as dh
from tests.store.processes import ROOT
from tests.support import documents, status_of, trigger

BATCH = 200
ROUND = 50
"""Batches that all workers offer at about the same time."""
ORDERS = trigger(history_time_to_live="1 day")


def ids_of(batch: int) -> list[str]:
    """The ids of one batch: half of them UUIDs, half other text."""
    return [
        f"{batch:08x}-{row:04x}-4000-8000-{batch:06x}{row:06x}" if row % 2 else f"urn:order:{batch}:{row}"
        for row in range(BATCH)
    ]


def work(history: dh.History, worker: int, workers: int, stop: float, done: list[dict[str, Any]]) -> None:
    """Offer every batch of a round, from a place of its own, and complete what is new; round after round."""
    claimed: list[str] = []
    offered, errors, number = 0, 0, 0
    while time.time() < stop:
        for step in range(ROUND):
            batch = number * ROUND + (step + worker * ROUND // workers) % ROUND
            try:
                claim = history.begin(documents(ids_of(batch)), ORDERS)
                offered += BATCH
                mine = claim.new.column("uuid").to_pylist()
                claim.complete()
                claimed += mine
            except dh.DocHistoryError as error:
                errors += 1
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
        number += 1
    done.append({"offered": offered, "claimed": claimed, "errors": errors, "rounds": number})


def process(directory: str, first: int, threads: int, workers: int, stop: float, told: Path) -> None:
    """One of the processes: its threads share a handle. What they did goes into a file.

    A pipe would not do: where output is unbuffered, Python loses the rest of a long write that a
    signal cuts short.
    """
    done: list[dict[str, Any]] = []
    with dh.open(directory, lock_timeout="5 minutes") as history:
        jobs = [
            threading.Thread(target=work, args=(history, first + number, workers, stop, done))
            for number in range(threads)
        ]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
    told.write_text(json.dumps(done))


def run(directory: Path, seconds: float, threads: int = 8, processes: int = 4) -> dict[str, Any]:
    """Run the load; its figures.

    Args:
        directory: where the history is made.
        seconds: how long new rounds are begun.
        threads: threads of each process; they share a handle.
        processes: processes.

    Returns:
        `seconds`, `documents` (distinct ids offered), `offered` (documents in all), `claims`
            (documents that were new
        to somebody), `duplicates` (documents claimed twice: must be 0), `missing` (claimed by
            nobody, or not completed:
        must be 0), `errors` (must be 0) and `offered_per_second`.
    """
    dh.open(directory, create=True).close()
    begun = time.time()
    words = [sys.executable, "-m", "tests.campaign.load", "--process", str(directory)]
    told = [directory.with_name(f"{directory.name}-{number}.json") for number in range(processes)]
    shares = [str(threads), str(threads * processes), str(begun + seconds)]
    running = [
        subprocess.Popen([*words, str(number * threads), *shares, str(told[number])], cwd=ROOT)
        for number in range(processes)
    ]
    assert all(one.wait() == 0 for one in running), "a process of the load failed"
    took = time.time() - begun
    done = [worker for file in told for worker in json.loads(file.read_text())]
    claims = Counter(one for worker in done for one in worker["claimed"])
    # Every worker finishes the rounds it begins; so what the fastest began was offered whole by it.
    batches = max(worker["rounds"] for worker in done) * ROUND
    offered = sum(worker["offered"] for worker in done)
    everything = [one for batch in range(batches) for one in ids_of(batch)]
    with dh.open(directory, read_only=True) as history:
        unseen = Counter(status_of(history, everything, ORDERS))
        history.verify()
    return {
        "seconds": round(took, 1),
        "threads": threads,
        "processes": processes,
        "documents": len(everything),
        "offered": offered,
        "claims": sum(claims.values()),
        "duplicates": sum(count - 1 for count in claims.values()),
        "missing": sum(one not in claims for one in everything) + len(everything) - unseen["DUPLICATE"],
        "errors": sum(worker["errors"] for worker in done),
        "offered_per_second": round(offered / took),
    }


def main() -> None:
    """The load by itself, or one of its processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long (600)")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--process", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        directory, first, threads, workers, stop, told = options.process
        process(directory, int(first), int(threads), int(workers), float(stop), Path(told))
        return
    with tempfile.TemporaryDirectory() as home:
        figures = run(Path(home) / "load.history", options.seconds, options.threads, options.processes)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
