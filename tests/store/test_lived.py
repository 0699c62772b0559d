"""A history that lived is read and written within bounds, whatever its age; nothing here is timed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dochistory as dh

pytestmark = pytest.mark.slow

ORDERS = dh.Trigger(
    "orders",
    detect_duplicates=True,
    use_history=True,
    history_time_to_live=timedelta(days=365),
    processing_mode="serial",
)
START = datetime(2026, 1, 1, tzinfo=UTC)
BATCH, BATCHES, DAYS = 10_000, 140, 10


def ids(first: int, rows: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    text = [f"{number:016x}" for number in numbers.tolist()]
    return pa.record_batch({"uuid": [f"{t[:8]}-{t[8:12]}-4{t[1:4]}-8{t[5:8]}-{t[4:]}" for t in text]})


def io() -> dict[str, int]:
    lines = (line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {name: int(value) for name, value in lines}


def size(root: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file())


def ask(history: dh.History, call: int) -> tuple[int, int]:
    """Of a look-up of 200,000 new ids: calls that read, and ids that pass a filter by chance."""
    fresh = ids((1 << 40) + call * 200_000, 200_000)
    before, reads = history.stats(ORDERS)["filter_positives"], io()["syscr"]
    verdicts = history.classify(fresh, ORDERS)
    reads = io()["syscr"] - reads
    assert verdicts.column("status").unique().to_pylist() == ["NEW"]
    return reads, int(history.stats(ORDERS)["filter_positives"] - before)


def test_life_of_a_history_stays_within_bounds(tmp_path: Path) -> None:
    root = tmp_path / "history"
    with dh.open(root, create=True) as history:
        batches = [ids(number * BATCH, BATCH) for number in range(BATCHES)]
        rows = [row for row in range(BATCH) if row % 500 != 7]
        before, calls, most = io(), [], 0.0
        for number, documents in enumerate(batches):
            started = io()
            claim = history.begin(documents, ORDERS, now=START + timedelta(days=DAYS * number / BATCHES))
            claim.complete(rows=rows if number % 2 else None)
            calls.append(io()["syscw"] - started["syscw"])
            if number >= BATCHES // 2:
                most = max(most, size(root) / ((number + 1) * BATCH))
        written = (io()["wchar"] - before["wchar"]) / (BATCH * BATCHES)
        assert written <= 70, "bytes written an id"
        assert most <= 40, "bytes on disk an id, at any time"
        # Two appends and what the lock needs; other threads of the process write meanwhile.
        assert np.median(calls) <= 16
        found = history.stats(ORDERS)
        assert found["filters"] <= 1
        # Beyond 64 `begin` waits for maintenance, the longer the more there are.
        assert found["segments_uncovered"] <= 72
        # Each of two logs: where sealing is slow, writers put one of this size into segments.
        assert found["log_entries"] <= 2 * 2 * 262_144
        # Segments that compaction made just now join the filter in memory after the first look-ups, and threads of
        # maintenance read meanwhile.
        asked = [ask(history, call) for call in range(6)]
        assert min(reads for reads, _ in asked) <= 16, "files touched by a call"
        assert min(passed for _, passed in asked) <= 200_000 * 0.03, "rows that pass a filter by chance"
        known = history.classify(ids(0, BATCH * BATCHES), ORDERS).column("status").value_counts().to_pylist()
        open_rows = BATCHES // 2 * (BATCH - len(rows))
        assert {entry["values"]: entry["counts"] for entry in known} == {
            "DUPLICATE": BATCH * BATCHES - open_rows,
            "IN_DOUBT": open_rows,
        }
