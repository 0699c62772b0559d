"""How many shards, bytes and cores so many ids take: `python -m benches.capacity`.

A shard is a history of its own that holds the ids of one part of the key space, as one would spread
a very large history over several directories. The costs of one shard are measured, then many are
opened side by side on this machine to see whether they add up, then the costs are multiplied.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dochistory as dh
from benches.machine import PeakMemory, machine
from benches.stores import TRIGGER
from benches.timing import in_turn, repeated
from benches.workload import FRESH, Numbers, Workload

RESULT = Path("out/capacity.json")
MOST_IN_A_SHARD = 1_000_000_000
"""So many ids in one directory are measured elsewhere (`benches.billion`); beyond that, take more directories."""

STREAM_PER_CORE = 295_000
"""Documents a second that one core claims and completes in a stream on a history of 1e8 ids, Spark included: 339 ms a
batch of 200,000 on two cores. What `benches.spark` has measured on this machine is taken instead, if it has."""

STREAMS = Path("out/spark.json")


def stream_per_core() -> float:
    """The same, as measured last; of the larger history, where both were measured."""
    jobs = json.loads(STREAMS.read_text())["jobs"] if STREAMS.exists() else {}
    for name in ("stream, 1e8 ids", "stream"):
        if seconds := jobs.get(name, {}).get("seconds", {}).get("batch"):
            return float(jobs[name]["rows"] / statistics.median(seconds) / 2)
    return STREAM_PER_CORE


class Shards:
    """Histories of equal size side by side."""

    def __init__(self, home: Path, count: int, ids: int) -> None:
        self.workload = Workload(count * ids, 1)
        self.paths = [home / f"{number:04d}.history" for number in range(count)]
        self.ids = ids

    def build(self) -> None:
        """Every shard gets every count-th id."""
        for number, path in enumerate(self.paths):
            with dh.open(path, create=True) as history:
                numbers = np.arange(number, len(self.paths) * self.ids, len(self.paths), dtype=np.uint64)
                history.load(self._documents(numbers), TRIGGER)
                history.maintain(TRIGGER, all=True)

    def bytes_an_id(self) -> float:
        """On disk, everything included."""
        files = (one for path in self.paths for one in path.rglob("*") if one.is_file())
        return sum(one.stat().st_size for one in files) / self.workload.n

    def parts(self, rows: int, run: int = 0) -> list[pa.RecordBatch]:
        """A batch in which 1 % is known, as each shard gets it."""
        count = len(self.paths)
        each = rows // count
        random = np.random.default_rng([rows, run])
        parts = []
        for number in range(count):
            known = random.integers(0, self.ids, max(each // 100, 1), dtype=np.uint64)
            known = known * np.uint64(count) + np.uint64(number)
            start = FRESH + (run * count + number) * each
            new = np.arange(start, start + each - len(known), dtype=np.uint64)
            parts.append(self._documents(random.permutation(np.concatenate((known, new)))))
        return parts

    def _documents(self, numbers: Numbers) -> pa.RecordBatch:
        return pa.record_batch({"uuid": self.workload.column(numbers)})


def measure(home: Path, count: int, ids: int, rows: int) -> dict[str, Any]:
    """What `count` shards of `ids` ids each cost, asked about `rows` documents."""
    shards = Shards(home, count, ids)
    started = time.perf_counter()
    shards.build()
    built = time.perf_counter() - started
    bytes_an_id = shards.bytes_an_id()
    with PeakMemory() as memory:
        started = time.perf_counter()
        histories = [dh.open(path) for path in shards.paths]
        first = shards.parts(count * 10)
        for history, part in zip(histories, first, strict=True):
            history.classify(part, TRIGGER)
        opened = time.perf_counter() - started
        parts = shards.parts(rows)
        asked = repeated(
            lambda: [history.classify(part, TRIGGER) for history, part in zip(histories, parts, strict=True)], 5, 60
        )
    claimed = in_turn(lambda run: _claims(histories, shards.parts(rows, 1 + run)), 3, 60)
    for history in histories:
        history.close()
    return {
        "shards": count,
        "ids": count * ids,
        "bytes_an_id": bytes_an_id,
        "build_ns_an_id": built / (count * ids) * 1e9,
        "open_ms_a_shard": opened / count * 1e3,
        "memory_kib_a_shard": (memory.peak - memory.before) / count,
        "classify_ns_a_document": asked.median / rows * 1e9,
        "claim_ns_a_document": claimed.median / rows * 1e9,
    }


def _claims(histories: list[dh.History], parts: list[pa.RecordBatch]) -> Any:
    def job() -> None:
        for history, part in zip(histories, parts, strict=True):
            history.begin(part, TRIGGER).complete()

    return job


def table(costs: dict[str, Any], per_core: float) -> str:
    """Shards, bytes and cores for histories of three sizes and documents at three rates."""
    head = "| ids | shards | on disk | in memory, to be fast | cores at 10,000/s | at 100,000/s | at 1,000,000/s |"
    lines = [head, f"|{'---:|' * 7}"]
    for exponent in (9, 10, 11):
        ids = 10**exponent
        filters = ids * 1.5  # 12 bits an id: the one line that a miss reads
        cores = (_text(rate / per_core) for rate in (10**4, 10**5, 10**6))
        cells = [f"1e{exponent}", f"{-(-ids // MOST_IN_A_SHARD):,}", _bytes(ids * costs["bytes_an_id"])]
        lines.append(f"| {' | '.join([*cells, _bytes(filters), *cores])} |")
    return "\n".join(lines)


def _text(cores: float) -> str:
    return f"{cores:.2f}" if cores < 1 else f"{cores:.1f}"


def _bytes(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count < 1e12 else f"{count / 1e12:,.2f} TB"


def main() -> None:
    """Measure one shard, then many of the same size; say whether they add up, then multiply."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--shards", type=int, default=64)
    arguments.add_argument("--ids", type=int, default=500_000, help="ids a shard")
    arguments.add_argument("--rows", type=int, default=640_000, help="documents to ask about")
    given = arguments.parse_args()
    Path("out").mkdir(exist_ok=True)
    found = []
    for count, ids in ((1, given.ids), (1, given.shards * given.ids), (given.shards, given.ids)):
        home = Path(tempfile.mkdtemp(prefix="capacity-", dir="out"))
        try:
            found.append(measure(home, count, ids, given.rows))
        finally:
            shutil.rmtree(home)
        print(json.dumps(found[-1]), flush=True)
    RESULT.write_text(json.dumps({"machine": machine(), "measured": found}, indent=1))
    print(table(found[1], stream_per_core()))
    print(f"A core claims and completes {stream_per_core():,.0f} documents a second of a stream, Spark included.")


if __name__ == "__main__":
    main()
