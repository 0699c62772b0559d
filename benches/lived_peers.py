"""dochistory and its peers live the same life, each in a process of its own and for a limited time."""

import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benches.lives import DAYS, Life
from benches.peers import missing, peer_class
from benches.timing import seconds_of
from benches.workload import Workload

NAMES = ("dochistory", "rocksdict", "lmdb", "sqlite", "duckdb", "postgresql")
ASKS = 3


def of_peer(name: str, directory: Path, life: Life, rows: int, budget_s: float) -> dict[str, Any]:
    """Begin and complete batch after batch, until all are done or the time is over; then classify, and purge a day.

    All batches complete whole: some peers can do nothing else.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    peer = peer_class(name)(directory, Workload(DAYS, DAYS))  # not all can be built empty
    peer.build()
    peer.open()
    batches = [life.documents(number)[0] for number in range(life.batches)]
    seconds: list[float] = []
    until = time.monotonic() + budget_s
    for number, documents in enumerate(batches):
        peer.workload = Workload(0, number * DAYS // life.batches)  # the present day
        before = time.perf_counter()
        peer.complete(peer.begin(documents))
        seconds.append(time.perf_counter() - before)
        if time.monotonic() > until:
            break
    ids = len(seconds) * life.new
    asked = Life(len(seconds) * life.rows, life.rows).question(rows, 1)
    classify = statistics.median(seconds_of(lambda: peer.classify(asked)) for _ in range(ASKS))
    found = {"bytes_an_id": peer.bytes_on_disk() / ids, "purge_a_day_ms": seconds_of(lambda: peer.purge(0)) * 1e3}
    peer.close()
    shutil.rmtree(directory, ignore_errors=True)
    at = np.percentile(np.array(seconds) * 1e3, [50, 99, 100])
    return {
        "ids": ids,
        "ids_a_second": len(seconds) * life.rows / sum(seconds),
        **dict(zip(("p50_ms", "p99_ms", "worst_ms"), map(float, at), strict=True)),
        "classify_rows_a_second": rows / classify,
        **found,
    }


def of_peers(n: int, batch: int, rows: int, budget_s: float) -> dict[str, Any]:
    """dochistory, and all peers that can run here."""
    found: dict[str, Any] = {}
    for name in NAMES:
        if why := missing(name):
            print(f"{name} is left out: {why}", file=sys.stderr)
            continue
        command = [sys.executable, "-m", "benches.lived", "--peer", name, "--n", str(n), "--batch", str(batch)]
        command += ["--rows", str(rows), "--budget", str(budget_s)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found[name] = json.loads(answer.stdout)
    return found
