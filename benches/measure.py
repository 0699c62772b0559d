"""Measure one peer in this process, and print what was found as JSON: `python -m benches.measure PEER run`."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benches.machine import PeakMemory
from benches.peers import MODULES, peer_class
from benches.peers.base import Peer
from benches.timing import Sample, in_turn, repeated, seconds_of
from benches.workload import Batch, Workload

MEMORY_RUNS = 3
SMALL_ROWS = 1000
JOBS = ("build", "open", "memory", "run")


def build(peer: Peer, rows: int) -> dict[str, Any]:
    """Make its history, and the batch for `memory`."""
    shutil.rmtree(peer.directory, ignore_errors=True)
    peer.directory.mkdir(parents=True)
    seconds = seconds_of(peer.build)
    found = {"build": Sample.of([seconds]).as_dict(), "bytes_an_id": peer.bytes_on_disk() / peer.workload.n}
    write_batch(peer, rows)
    return found


def write_batch(peer: Peer, rows: int) -> None:
    """Put a batch into a file that `memory` maps."""
    documents = peer.workload.batch(rows).documents
    with pa.OSFile(str(_batch_path(peer)), "wb") as file, pa.ipc.new_file(file, documents.schema) as writer:
        writer.write(documents)


def _batch_path(peer: Peer) -> Path:
    return peer.directory / "batch.arrow"


def memory(peer: Peer) -> dict[str, Any]:
    """What opening and classifying need in a process that has done nothing else; the batch is mapped."""
    documents = pa.ipc.open_file(pa.memory_map(str(_batch_path(peer)))).get_batch(0)
    with PeakMemory() as watched:
        peer.open()
        for _ in range(MEMORY_RUNS):
            peer.classify(documents)
    peer.close()
    return {"memory_mib": (watched.peak - watched.before) / 1024}


def open_once(peer: Peer) -> dict[str, Any]:
    """Open it and look up one document: once in the life of a process."""
    document = peer.workload.batch(1).documents
    started = time.perf_counter()
    peer.open()
    peer.classify(document)
    seconds = time.perf_counter() - started
    peer.close()
    return {"seconds": seconds}


def run(peer: Peer, rows: int, runs: int, budget_s: float) -> dict[str, Any]:
    """All other jobs on the history that `build` made."""
    large, small = peer.workload.batch(rows), peer.workload.batch(SMALL_ROWS)
    documents, few = large.documents, small.documents
    found: dict[str, Any] = {}
    peer.open()
    _check(peer, large)
    found["classify"] = repeated(lambda: peer.classify(documents), runs, budget_s).as_dict()
    if peer.takes_threads:
        peer.threads = 2
        found["classify_two_threads"] = repeated(lambda: peer.classify(documents), runs, budget_s).as_dict()
        peer.threads = 1
    replay = peer.workload.replay(rows)
    _check(peer, replay)
    found["replay"] = repeated(lambda: peer.classify(replay.documents), runs, budget_s).as_dict()
    _check(peer, small)
    found["classify_small"] = repeated(lambda: peer.classify(few), runs, budget_s).as_dict()
    found["classify_small_bytes"] = repeated(lambda: peer.classify_as_bytes(few), runs, budget_s).as_dict()
    found["begin_complete"] = _begin_complete(peer, rows, runs, budget_s)
    if peer.takes_threads:
        peer.threads = 2
        found["begin_complete_two_threads"] = _begin_complete(peer, rows, runs, budget_s, first=1000)
        peer.threads = 1
    days = min(runs, peer.workload.p)
    found["purge"] = in_turn(lambda day: lambda: peer.purge(day), days, budget_s).as_dict()
    peer.close()
    return found


def _check(peer: Peer, batch: Batch) -> None:
    codes = peer.codes(peer.classify(batch.documents))
    if not np.array_equal(codes, batch.codes):
        wrong = int((codes != batch.codes).sum()) if len(codes) == len(batch.codes) else len(codes)
        raise SystemExit(f"{type(peer).__name__} answers {wrong} of {len(batch.codes)} documents wrongly")


def _begin_complete(peer: Peer, rows: int, runs: int, budget_s: float, first: int = 1) -> dict[str, Any]:
    def job(number: int) -> Any:
        documents = peer.workload.batch(rows, run=first + number).documents
        return lambda: peer.complete(peer.begin(documents))

    return in_turn(job, runs, budget_s).as_dict()


def main() -> None:
    """What the runner starts."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("peer", choices=MODULES)
    arguments.add_argument("job", choices=JOBS)
    arguments.add_argument("--directory", type=Path, required=True)
    arguments.add_argument("--n", type=int, required=True)
    arguments.add_argument("--p", type=int, required=True)
    arguments.add_argument("--rows", type=int, required=True)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--budget", type=float, default=60.0, help="seconds for one job, from the second run on")
    given = arguments.parse_args()
    kind = peer_class(given.peer)
    peer = kind(given.directory, Workload(given.n, given.p))
    jobs: dict[str, Callable[[], dict[str, Any]]] = {
        "build": lambda: build(peer, given.rows),
        "open": lambda: open_once(peer),
        "memory": lambda: memory(peer),
        "run": lambda: run(peer, given.rows, given.runs, given.budget),
    }
    found = jobs[given.job]()
    json.dump(found | {"version": kind.version(), "note": kind.note}, sys.stdout)


if __name__ == "__main__":
    main()
