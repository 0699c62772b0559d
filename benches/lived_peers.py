"""Peers that live the same life as dochistory, each in a process of its own and for a limited time."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benches.peers import missing, peer_class
from benches.workload import Workload

NAMES = ("rocksdict", "lmdb", "sqlite", "duckdb", "postgresql")


def of_peer(name: str, directory: Path, batches: Any, budget_s: float) -> dict[str, Any]:
    """Begin and complete batch after batch, until all are done or the time is over."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    peer = peer_class(name)(directory, Workload(0, 30))
    peer.build()
    peer.open()
    seconds, rows = [], 0
    until = time.monotonic() + budget_s
    for documents in batches:
        before = time.perf_counter()
        peer.complete(peer.begin(documents))
        seconds.append(time.perf_counter() - before)
        rows += documents.num_rows
        if time.monotonic() > until:
            break
    peer.close()
    at = np.percentile(np.array(seconds) * 1e3, [50, 99, 100])
    shutil.rmtree(directory, ignore_errors=True)
    return {
        "ids": rows,
        "ids_a_second": rows / sum(seconds),
        **dict(zip(("p50_ms", "p99_ms", "worst_ms"), map(float, at), strict=True)),
    }


def of_peers(n: int, batch: int, budget_s: float) -> dict[str, Any]:
    """All peers that can run here."""
    found: dict[str, Any] = {}
    for name in NAMES:
        if why := missing(name):
            print(f"{name} is left out: {why}", file=sys.stderr)
            continue
        command = [sys.executable, "-m", "benches.lived", "--peer", name, "--n", str(n), "--batch", str(batch)]
        answer = subprocess.run([*command, "--budget", str(budget_s)], check=True, stdout=subprocess.PIPE, text=True)
        found[name] = json.loads(answer.stdout)
    return found
