"""What the jobs read: documents as Parquet, made once and kept under out/bench-spark."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benches.workload import FRESH, Workload

HOME = Path("out/bench-spark")
FILES = 8
PAYLOAD_BYTES = 1024
FILLING_ROWS = 5_000_000
"""Large batches: after each, a peer looks through all that it has."""
_PAYLOADS = 997  # different ones; Parquet keeps each once, and Spark hands every row its own kilobyte


def documents(workload: Workload, rows: int) -> Path:
    """`rows` documents, of which 1 % are completed and 0.1 % processing: uuid, redelivery_count, payload of 1 KiB."""
    path = HOME / f"documents-{rows}-n{workload.n}"
    if not path.exists():
        batch = workload.batch(rows).documents
        _write(_with_payload(pa.table(batch)), path)
    return path


def _with_payload(table: Any) -> Any:
    pool = pa.array([f"{n:04d}" * (PAYLOAD_BYTES // 4) for n in range(_PAYLOADS)], pa.string())
    places = pa.array(np.arange(table.num_rows, dtype=np.int32) % _PAYLOADS)
    return table.append_column("payload", pa.DictionaryArray.from_arrays(places, pool))


def history_as_parquet(workload: Workload) -> Path:
    """The history's ids and states, for those who look them up in a table."""
    path = HOME / f"history-n{workload.n}"
    if not path.exists():
        parts = [
            pa.table({"uuid": workload.column(part.numbers), "status": pa.array(part.codes)})
            for part in workload.parts()
        ]
        _write(pa.concat_tables(parts), path)
    return path


def new_batches(workload: Workload, batches: int, rows: int, filled: bool = False, payload: bool = False) -> Path:
    """A directory with one file of new ids a batch, with the time at which each arrived, and maybe 1 KiB of payload.

    Where it is to be `filled`, the workload's own ids come first, for those who know only what has
    passed them.
    """
    name = f"arrivals-{batches}x{rows}" + ("-payload" if payload else "")
    path = HOME / (name + (f"-after-{workload.n}by{FILLING_ROWS}" if filled else ""))
    if not path.exists():
        draft = path.with_name(f"{path.name}.unfinished")
        draft.mkdir(parents=True, exist_ok=True)
        starts = range(0, workload.n, FILLING_ROWS) if filled else range(0)
        parts = [(start, min(FILLING_ROWS, workload.n - start)) for start in starts]
        parts += [(FRESH * 4 + number * rows, rows) for number in range(batches)]
        for number, (start, length) in enumerate(parts):
            _write_arrivals(draft / f"{number:05d}.parquet", workload, number, start, length, payload)
        draft.rename(path)
    return path


def filling_batches(workload: Workload) -> int:
    """How many files come before the new ids, where a stream is to be filled."""
    return -(-workload.n // FILLING_ROWS)


def _write_arrivals(file: Path, workload: Workload, number: int, start: int, rows: int, payload: bool) -> None:
    numbers = np.arange(rows, dtype=np.uint64) + np.uint64(start)
    arrived = np.full(rows, 1_760_000_000_000_000 + number * 1_000_000, dtype="datetime64[us]")
    table = pa.table(
        {
            "uuid": workload.column(numbers),
            "redelivery_count": pa.array(np.zeros(rows, dtype=np.int32)),
            "arrived": pa.array(arrived, pa.timestamp("us", "UTC")),
        }
    )
    table = _with_payload(table) if payload else table
    pq.write_table(table, file, row_group_size=max(rows // 4, 1))  # so that all cores can read a batch
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # the order of the batches


STREAM_SCHEMA = "uuid string, redelivery_count int, arrived timestamp"


def _write(table: Any, path: Path) -> None:
    draft = path.with_name(f"{path.name}.unfinished")
    draft.mkdir(parents=True, exist_ok=True)
    rows = -(-table.num_rows // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * rows, rows), draft / f"{number}.parquet", row_group_size=1 << 17)
    draft.rename(path)
