"""A history in a bucket beside one in a directory: `python -m benches.objects_history`.

Against moto on loopback, by a proxy that adds a latency to each request and counts them: classify
with warm files, the first classify of a fresh node, threads of one handle, writers of one trigger;
and how many bytes and requests a life of batches takes.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.servers.fault_proxy import FaultProxy, fault_proxy
from tests.servers.objects import Server, moto

import dochistory as dh
from benches import lives
from benches.machine import machine
from benches.stores import TRIGGER
from dochistory import objects

RESULT = Path("out/objects-history.json")


def uuids(count: int, seed: int) -> pa.Array:
    """New ids, as 16 bytes each."""
    drawn = np.random.default_rng(seed).bytes(16 * count)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, pa.py_buffer(drawn)])


def timed(job: Callable[[], Any]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def classify(server: Server, proxy: FaultProxy, home: Path, entries: int, rows: int, runs: int) -> dict[str, float]:
    """Warm: in turns, the same rows by a directory and by a bucket. Cold: the first answer of a fresh node."""
    where, options = f"{server.url}/{uuid.uuid4()}/orders.history", server.through(proxy.port)
    half = rows // 2
    known = uuids(entries, 1)
    asked = pa.record_batch({"uuid": pa.concat_arrays([known.slice(0, half), uuids(rows - half, 2)])})
    batches = [pa.record_batch({"uuid": known.slice(at, 1 << 20)}) for at in range(0, entries, 1 << 20)]
    found: dict[str, float] = {}
    with dh.open(home / "directory", create=True) as directory:
        found["load of a directory, s"] = timed(lambda: directory.load(batches, TRIGGER))
        directory.maintain(TRIGGER, all=True)
        with dh.open(where, create=True, storage_options=dict(server.options)) as bucket:
            found["load of a bucket, s"] = timed(lambda: bucket.load(batches, TRIGGER))
            bucket.maintain(TRIGGER, all=True)
        proxy.reset()
        cold = dh.open(where, read_only=True, storage_options=options)
        with cold as bucket:
            found["cold, s"] = timed(lambda: bucket.classify(asked.slice(0, 10_000), TRIGGER))
            fetched = proxy.bytes_out
            found["cold, bytes"], found["cold, requests"] = float(fetched), float(sum(proxy.counts.values()))
            found["transfer of as much, s"] = transfer(server, proxy, home, fetched)
            times: dict[str, list[float]] = {"directory": [], "bucket": []}
            for _ in range(runs):
                times["directory"].append(timed(lambda: directory.classify(asked, TRIGGER)))
                times["bucket"].append(timed(lambda: bucket.classify(asked, TRIGGER)))
    for name, seconds in times.items():
        found[f"classify {rows}, {name}, s"] = statistics.median(seconds)
    return found


def transfer(server: Server, proxy: FaultProxy, home: Path, size: int) -> float:
    """Seconds in which the client fetches one object of this size."""
    client = objects.open_client(f"{server.url}/{uuid.uuid4()}", server.through(proxy.port))
    (home / "as-much").write_bytes(b"x" * size)
    objects.open_client(client.location.url, dict(server.options)).put_file("x", home / "as-much")
    return timed(lambda: client.get_file("x", home / "back"))


def life(where: str, through: dict[str, Any], proxy: FaultProxy, ids: int, batch: int) -> dict[str, float]:
    """What a life over 30 days sends to the store, maintenance included: bytes an id, requests a batch."""
    lived = lives.Life(ids, batch)
    proxy.reset()
    with dh.open(where, create=True, storage_options=through) as history:
        for number in range(lived.batches):
            documents, rows = lived.documents(number)
            claim = history.begin(documents, lives.TRIGGER, now=lived.now(number))
            if rows is None:
                claim.complete()
            else:
                claim.complete(rows=rows)
    kinds = {f"{kind} a batch": count / lived.batches for kind, count in sorted(proxy.counts.items())}
    return {"ids": lived.ids, "bytes put an id": proxy.bytes_in / lived.ids, **kinds}


def threads(history: dh.History, count: int, batch: int, seconds: float) -> dict[str, float]:
    """Documents a second that threads of one handle begin and complete."""
    done = [0] * count
    end = time.perf_counter() + seconds

    def work(number: int) -> None:
        turn = 0
        while time.perf_counter() < end:
            turn += 1
            history.begin(pa.record_batch({"uuid": uuids(batch, number * 1_000_000 + turn)}), TRIGGER).complete()
            done[number] += batch

    began = time.perf_counter()
    side_by_side(work, count)
    return {"documents/s": sum(done) / (time.perf_counter() - began), "least of a thread": min(done) / batch}


def writers(opened: Callable[[], dh.History], count: int, seconds: float) -> dict[str, float]:
    """How long writers of one trigger wait, each with a handle of its own: of one document, begin and complete."""
    # The first text that pyarrow reads makes it import pandas, which takes longer than any wait.
    unknown = pa.record_batch({"uuid": [str(uuid.uuid4())]})
    waits: list[list[float]] = [[] for _ in range(count)]
    handles = [opened() for _ in range(count)]
    for handle in handles:
        handle.classify(unknown, TRIGGER)  # what opening takes is no wait for another writer
    end = time.perf_counter() + seconds

    def round_of(handle: dh.History) -> None:
        handle.begin(pa.record_batch({"uuid": [str(uuid.uuid4())]}), TRIGGER).complete()

    def work(number: int) -> None:
        while time.perf_counter() < end:
            waits[number].append(timed(lambda: round_of(handles[number])))

    side_by_side(work, count)
    for handle in handles:
        handle.close()
    every = sorted(wait for one in waits for wait in one)
    return {
        "rounds": len(every),
        "fewest of a writer": min(len(one) for one in waits),
        "median s": statistics.median(every),
        "worst s": every[-1],
    }


def side_by_side(work: Callable[[int], None], count: int) -> None:
    """Run the work in threads, and wait for all."""
    failed: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    running = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failed:
        raise failed[0]


def main() -> None:
    """Measure, print and keep."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--latencies", type=float, nargs="+", default=[0.0, 20.0, 60.0], help="ms added")
    options.add_argument("--entries", type=int, default=10_000_000)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--life", type=int, default=10_000_000, help="ids of a life; 0 for none")
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--seconds", type=float, default=10.0, help="of each run of threads and writers")
    given = options.parse_args()
    results: dict[str, Any] = {}
    with moto() as server, tempfile.TemporaryDirectory() as home:
        for number, latency_ms in enumerate(given.latencies):
            with fault_proxy(server.port, latency=latency_ms / 1000) as proxy:
                found: dict[str, Any] = {}
                if number == 0 and given.life:
                    where = f"{server.url}/{uuid.uuid4()}/orders.history"
                    found["a life"] = life(where, server.through(proxy.port), proxy, given.life, 10_000)
                if number == len(given.latencies) - 1:
                    found["classify"] = classify(server, proxy, Path(home), given.entries, given.rows, given.runs)
                place, through = f"{server.url}/{uuid.uuid4()}", server.through(proxy.port)

                def opened(name: str = "writers", place: str = place, through: dict[str, Any] = through) -> dh.History:
                    return dh.open(f"{place}/{name}.history", create=True, storage_options=through)

                with opened("threads") as history:
                    found["8 threads, batches of 10,000"] = threads(history, 8, 10_000, given.seconds)
                # With a history of their own: who meets a compaction fetches what it made.
                found["4 writers"] = writers(opened, 4, given.seconds)
                results[f"{latency_ms:g} ms"] = found
                print(json.dumps({f"{latency_ms:g} ms": found}, indent=1), flush=True)
        with dh.open(Path(home) / "threads", create=True) as history:
            results["directory"] = threads(history, 8, 10_000, given.seconds)
        print(json.dumps({"directory, 8 threads": results["directory"]}, indent=1), flush=True)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"machine": machine(), "entries": given.entries, "results": results}, indent=1))


if __name__ == "__main__":
    main()
