"""Maps with values after a life: a message id mapper, and the streams of guaranteed delivery."""

import shutil
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from benches.timing import seconds_of
from benches.workload import uuid_column

STEP, START = 150, 1_000_000_000
STREAMS = 10_000


def lookups(mapper: Any, wanted: dict[str, pa.Array], runs: int) -> dict[str, float]:
    """Ids looked up a second: found ones, and others."""
    found = {}
    for name, ids in wanted.items():
        mapper.lookup(ids)
        found[name] = len(ids) / statistics.median(seconds_of(partial(mapper.lookup, ids)) for _ in range(runs))
    return found


def of_mapper(directory: Path, n: int, batch: int, runs: int) -> dict[str, Any]:
    """A life of `begin_send` and `complete`; then look-ups, at once and after all maintenance."""
    shutil.rmtree(directory, ignore_errors=True)
    seconds = []
    random = np.random.default_rng(7)
    with dh.open(directory, create=True) as history:
        mapper = history.mapper("orders")
        for start in range(0, n, batch):
            ids = uuid_column(np.arange(start, start + batch, dtype=np.uint64))
            targets = pa.array([f"ID:414d5120{number:012d}" for number in range(start, start + batch)])
            messages = pa.record_batch({"id": ids})
            before = time.perf_counter()
            mapper.begin_send(messages).complete(targets)
            seconds.append(time.perf_counter() - before)
        rows = min(n, 1_000_000)
        wanted = {
            "found": uuid_column(random.permutation(n)[:rows].astype(np.uint64)),
            "not_found": uuid_column(np.arange(rows, dtype=np.uint64) + np.uint64(1 << 40)),
        }
        at_once = lookups(mapper, wanted, runs)
        history.maintain(all=True)
        maintained = lookups(mapper, wanted, runs)
    at = np.percentile(np.array(seconds) * 1e3, [50, 99, 100])
    return {
        "ids_a_second": n / sum(seconds),
        **dict(zip(("p50_ms", "p99_ms", "worst_ms"), map(float, at), strict=True)),
        **{f"{name}_a_second": value for name, value in at_once.items()},
        **{f"{name}_ratio": at_once[name] / value for name, value in maintained.items()},
    }


def poll(number: int, rows: int) -> pa.RecordBatch:
    """The next messages of all streams, dealt in turn."""
    numbers = np.arange(number * rows, (number + 1) * rows, dtype=np.uint64)
    stream = pa.array((numbers % STREAMS).astype(np.int32))
    names = pa.array([f"publisher-{one:05}" for one in range(STREAMS)])
    prev = START + (numbers // STREAMS) * STEP
    text = pc.binary_join_element_wise(
        "(0-", pc.utf8_lpad(pa.array(prev).cast(pa.string()), 10, "0"),
        "-", pc.utf8_lpad(pa.array(prev + STEP).cast(pa.string()), 10, "0"), "-0)", "",
    )  # fmt: skip
    return pa.record_batch({"stream": pa.DictionaryArray.from_arrays(stream, names), "header": text})


def of_delivery(directory: Path, n: int, batch: int) -> dict[str, Any]:
    """A life of polls, each received and committed: the first tenth beside the last one."""
    shutil.rmtree(directory, ignore_errors=True)
    seconds = []
    start = {f"publisher-{number:05}": START for number in range(STREAMS)}
    with dh.open(directory, create=True) as history:
        inbox = history.delivery(start=start)
        for number in range(n // batch):
            messages = poll(number, batch)
            before = time.perf_counter()
            inbox.receive(messages).commit()
            seconds.append(time.perf_counter() - before)
    tenth = max(len(seconds) // 10, 1)
    at = np.percentile(np.array(seconds) * 1e3, [50, 99, 100])
    return {
        "messages_a_second": n / sum(seconds),
        **dict(zip(("p50_ms", "p99_ms", "worst_ms"), map(float, at), strict=True)),
        "last_tenth_ratio": statistics.median(seconds[:tenth]) / statistics.median(seconds[-tenth:]),
    }
