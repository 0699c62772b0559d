"""Claims of Spark's tasks in a bucket beside a directory: `python -m benches.objects_spark`.

Spark's stand-alone master and two workers (`local-cluster`), each executor a process of its own in
a directory of its own. moto on loopback, by a proxy that adds a latency to each request and counts
them. Driver and executors share the bucket and nothing else. In turns on the same histories: claim
and complete new documents in a directory; in a bucket with the history kept open, as `exactly_once`
keeps it; and in a bucket by its URL.
"""

import argparse
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from tests.servers.fault_proxy import FaultProxy, fault_proxy
from tests.servers.objects import Server, moto

import dochistory as dh
from benches.machine import machine
from benches.object_costs import counted
from benches.objects import dollars
from benches.objects_history import TRIGGER, timed, uuids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESULT = Path("out/objects-spark.json")
WAYS = ("directory", "bucket", "bucket by its URL")
_LOADED = 1 << 20


def session(home: Path, workers: int, parts: int) -> "SparkSession":
    """A driver, a master, and workers with one core each."""
    config = {
        "spark.executor.memory": "768m",
        "spark.sql.shuffle.partitions": str(parts),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.local.dir": str(home / "local"),
        "spark.ui.enabled": "false",
    }
    return dh.spark.session("benches", master=f"local-cluster[{workers},1,1024]", config=config)


def documents(spark: "SparkSession", turn: int, rows: int) -> "DataFrame":
    """Documents with ids that no other turn has, whoever evaluates them."""
    id_ = F.format_string("%08x-0000-4000-8000-%012x", F.lit(turn), F.col("id"))
    return spark.range(rows).select(id_.alias("uuid"), F.lit(0).alias("redelivery_count"))


def fill(history: dh.History, entries: int) -> None:
    """Load completed ids."""
    for at in range(0, entries, _LOADED):
        history.load(pa.record_batch({"uuid": uuids(min(_LOADED, entries - at), at)}), TRIGGER)
    history.maintain(TRIGGER, all=True)


def claimed(frame: "DataFrame", history: Any, rows: int, **given: Any) -> None:
    """Claim what is new, and complete it."""
    with dh.spark.claim(frame, history, TRIGGER, **given) as claim:
        if len(claim) != rows:
            raise RuntimeError(f"{len(claim)} of {rows} documents were begun")
        claim.complete()


class Turns:
    """The ways, each on its own history, at one latency."""

    def __init__(self, spark: "SparkSession", server: Server, proxy: FaultProxy, home: Path, rows: int) -> None:
        self.spark, self.proxy, self.rows = spark, proxy, rows
        self.turn = 0
        self.directory = home / f"{uuid.uuid4()}.history"
        self.given = {"storage_options": server.through(proxy.port), "cache": Path(f"cache-{uuid.uuid4()}")}
        self.urls = {way: f"{server.url}/{uuid.uuid4()}/orders.history" for way in WAYS[1:]}
        self.seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        self.requests: dict[str, list[dict[str, int]]] = {way: [] for way in WAYS}
        self.bytes: dict[str, list[tuple[int, int]]] = {way: [] for way in WAYS}

    def fill(self, server: Server, entries: int) -> None:
        """The same entries in each history, past the proxy."""
        with dh.open(self.directory, create=True) as history:
            fill(history, entries)
        for url in self.urls.values():
            with dh.open(url, create=True, storage_options=dict(server.options)) as history:
                fill(history, entries)

    def run(self, runs: int) -> None:
        """So many turns of each, after one to warm up."""
        with ExitStack() as opened:
            kept = opened.enter_context(dh.open(self.directory))
            far = opened.enter_context(dh.open(self.urls["bucket"], **self.given))
            jobs: Mapping[str, tuple[Any, dict[str, Any]]] = {
                "directory": (kept, {}),
                "bucket": (far, self.given),
                "bucket by its URL": (self.urls["bucket by its URL"], self.given),
            }
            for number in range(runs + 1):
                for way, (history, given) in jobs.items():
                    self.once(way, history, given, is_counted=number > 0)

    def once(self, way: str, history: Any, given: dict[str, Any], *, is_counted: bool) -> None:
        """One turn of one way."""
        self.turn += 1
        frame = documents(self.spark, self.turn, self.rows)
        self.proxy.reset()
        seconds = timed(lambda: claimed(frame, history, self.rows, **given))
        if is_counted:
            self.seconds[way].append(seconds)
            self.requests[way].append(dict(self.proxy.counts))
            self.bytes[way].append((self.proxy.bytes_in, self.proxy.bytes_out))

    def found(self) -> dict[str, Any]:
        """Medians, and what the requests of a million documents cost."""
        return {way: self._of(way) for way in WAYS}

    def _of(self, way: str) -> dict[str, Any]:
        seconds, kinds = self.seconds[way], self.requests[way]
        median = {
            kind: statistics.median(one.get(kind, 0) for one in kinds)
            for kind in sorted({kind for one in kinds for kind in one})
        }
        sent, fetched = (sum(one[at] for one in self.bytes[way]) for at in (0, 1))
        total = {kind: sum(one.get(kind, 0) for one in kinds) for kind in median}
        return {
            "seconds": statistics.median(seconds),
            "each": seconds,
            "requests": median,
            "bytes_sent": sent / len(seconds),
            "bytes_fetched": fetched / len(seconds),
            "dollars_a_million_documents": dollars(counted(total, sent, fetched), self.rows * len(seconds)),
        }


def shown(results: Mapping[str, Mapping[str, Any]], rows: int, workers: int) -> Iterator[str]:
    """The figures as Markdown."""
    yield f"claim and complete of {rows:,} on {workers} workers, medians (least … most):"
    yield "| added to each request | way | s | aim, s | PUT | GET, HEAD | DELETE | dollars a million, S3 |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for latency, found in results.items():
        aim = 1.3 * found["directory"]["seconds"] + 0.5
        for way, one in found.items():
            kinds = one["requests"]
            puts = sum(kinds.get(kind, 0) for kind in ("create", "put", "post", "list"))
            gets = sum(kinds.get(kind, 0) for kind in ("get", "head"))
            took = f"{one['seconds']:.2f} ({min(one['each']):.2f} … {max(one['each']):.2f})"
            wanted = "" if way == "directory" else f"{aim:.2f}"
            price = f"{one['dollars_a_million_documents']['S3']:.4f}"
            counts = f"{puts:g} | {gets:g} | {kinds.get('delete', 0):g}"
            yield f"| {latency} | {way} | {took} | {wanted} | {counts} | {price} |"


def main() -> None:
    """Measure, print and keep."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--latencies", type=float, nargs="+", default=[0.0, 20.0, 60.0], help="ms added")
    options.add_argument("--rows", type=int, default=200_000)
    options.add_argument("--entries", type=int, default=1_000_000, help="ids in each history before the first turn")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--parts", type=int, help="tasks of a claim; as many as workers, if absent")
    options.add_argument("--runs", type=int, default=7)
    given = options.parse_args()
    results: dict[str, Any] = {}
    began = time.perf_counter()
    # Each process has its cache in the directory that it works in.
    with moto() as server, tempfile.TemporaryDirectory() as home, chdir(home):
        spark = session(Path(home), given.workers, given.parts or given.workers)
        for latency_ms in given.latencies:
            with fault_proxy(server.port, latency=latency_ms / 1000) as proxy:
                turns = Turns(spark, server, proxy, Path(home), given.rows)
                turns.fill(server, given.entries)
                turns.run(given.runs)
                results[f"{latency_ms:g} ms"] = turns.found()
        spark.stop()
    print("\n".join(shown(results, given.rows, given.workers)))
    RESULT.parent.mkdir(exist_ok=True)
    settings = {"rows": given.rows, "entries": given.entries, "workers": given.workers, "runs": given.runs}
    took = time.perf_counter() - began
    RESULT.write_text(json.dumps({"machine": machine(), **settings, "took": took, "results": results}, indent=1))


if __name__ == "__main__":
    main()
