"""The driver's part of a claim that tasks staged: one commit, whatever Spark is."""

import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

import dochistory as dh
from benches.spark import data
from benches.stores import TRIGGER, scratch_copy
from benches.timing import seconds_of
from benches.workload import Workload
from dochistory import _native

PARTS = 64


def staged(path: Path, job: _native.Job, rows: int, seed: int) -> list[bytes]:
    """The receipts of all parts of a job, each of which has as many rows."""
    with dh.open(path, read_only=True, snapshot=job.snapshot) as tasks:
        return [
            tasks._shards.stage(
                pa.table({"uuid": [f"{seed:08x}-{part:04x}-4000-8000-{row:012x}" for row in range(rows)]}),
                TRIGGER,
                job=job.token,
                part=part,
                attempt=f"p{part}",
            ).receipt
            for part in range(PARTS)
        ]


def commit(_spark: Any, workload: Workload, rows: int, runs: int) -> dict[str, list[float]]:
    """Commit so many documents in 64 staged segments, one a task, on a history that nobody else writes to."""
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        path, seeds = scratch_copy(workload, Path(home)), count(1)
        found = []
        with dh.open(path, auto_maintain=False) as history:
            for number in range(runs + 1):
                job = history._shards.reserve(TRIGGER, PARTS)
                receipts = staged(path, job, rows // PARTS, next(seeds))
                seconds = seconds_of(lambda job=job, receipts=receipts: job.commit(receipts))  # type: ignore[misc]
                if number:
                    found.append(seconds)
        return {"own": found}
