"""A history that lived, beside one that was loaded and beside its peers: `python -m benches.lived`.

The reference workload L(N, B): N ids through `begin` and `complete` in batches of B, while `now`
moves evenly over 30 days. 1 % of each batch are ids of earlier days, 0.1 % of all ids stay
`processing`, and every second batch completes by `rows=`. One process, default settings, no call of
`maintain` or `load`. Then, at once, the same questions to it and to a history of the same ids that
was loaded, in turns.

`--only` takes some of the jobs, `--add` keeps what earlier runs found, and `--quick` only shows
that all of it works. Prints the figures, and writes out/lived.json; `python -m benches.chart lived`
draws them.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dochistory as dh
from benches.lived_maps import of_delivery, of_mapper
from benches.lived_peers import of_peer, of_peers
from benches.lives import TRIGGER, Life, asked, live, load, spread
from benches.machine import machine, quietest_core
from benches.peers.base import size_on_disk
from benches.timing import collected, timed
from benches.workload import uuid_column

OUT, RESULT = Path("out/lived"), Path("out/lived.json")
JOBS = ("life", "ends", "reader", "writers", "single", "maps", "peers")
BATCHES = [1_000, 10_000, 100_000]
IN_TURN, FRAME = 100, 112  # documents, and as many bare syncs; bytes of what these write
LOOKS_ALONE = 30  # of a reader, once the writer has ended
QUICK = {"n": 200_000, "batch": [1_000, 10_000], "rows": 50_000, "runs": 2, "singles": 400, "budget": 1.0}


def of_life(given: argparse.Namespace, batch: int) -> dict[str, Any]:
    """One life, and the questions after it."""
    life = Life(given.n, batch, urns=given.urns)
    loaded_path, path = OUT / "loaded", OUT / "lived"
    load(loaded_path, life)
    with dh.open(loaded_path) as loaded, dh.open(path, create=True) as history:
        found = live(history, life, path)
        found["at_once"] = asked(history, loaded, life, given.runs, given.rows)
        if given.later:
            time.sleep(given.later)
            found["later"] = asked(history, loaded, life, given.runs, given.rows)
            found["later_bytes_an_id"] = size_on_disk(path) / life.ids
        found["loaded_bytes_an_id"] = size_on_disk(loaded_path) / life.ids
        found["stats"] = {name: value for name, value in history.stats(TRIGGER).items() if isinstance(value, int)}
    return found


def of_ends(given: argparse.Namespace, batch: int) -> dict[str, Any]:
    """The ways to complete a claim, in turns: ids a second of begin and complete, and beside whole claims."""
    numbers, seconds = count(), dict[str, list[float]]()
    with dh.open(OUT / "ends", create=True) as history:
        for _ in range(max(given.n // 10 // batch, 12)):
            for way in ("whole", "rows", "key"):
                ids = np.arange(batch, dtype=np.uint64) + np.uint64(next(numbers) * batch)
                documents, rows = {"uuid": uuid_column(ids)}, np.arange(batch)
                column = pa.record_batch(documents)
                before = time.perf_counter()
                claim = history.begin(column, TRIGGER)
                if way == "whole":
                    claim.complete()
                elif way == "rows":
                    claim.complete(rows=rows)
                else:
                    history.complete(documents["uuid"], TRIGGER)
                seconds.setdefault(way, []).append(time.perf_counter() - before)
    median = {way: statistics.median(found) for way, found in seconds.items()}
    return {
        **{f"{way}_ids_a_second": batch / value for way, value in median.items()},
        **{f"{way}_ratio": median["whole"] / median[way] for way in ("rows", "key")},
    }


def of_reader(given: argparse.Namespace, batch: int) -> dict[str, Any]:
    """What another handle reads beside a writer at full speed: a process of its own, on a core of its own.

    That core is not the one that the disk interrupts for the writer: on some machines it is always
    the same. The reader reads all the time: garbage is collected before, for what comes in
    meanwhile is read later.
    """
    life = Life(given.n, batch, urns=given.urns)
    path, loaded_path = OUT / "beside", OUT / "loaded"
    load(loaded_path, life)
    command = [sys.executable, "-m", "benches.lived", "--writer", str(path), "--first", "0"]
    command += ["--n", str(given.n), "--batch", str(batch)]
    dh.open(path, create=True).close()
    documents = life.question(given.rows, 1)
    cores = os.sched_getaffinity(0)
    quiet = quietest_core(cores)
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    os.sched_setaffinity(writer.pid, cores - {quiet} or cores)
    os.sched_setaffinity(0, {quiet})
    beside: list[float] = []
    with dh.open(path) as history, dh.open(loaded_path) as loaded, collected():
        while not history.triggers():
            time.sleep(0.001)
        while writer.poll() is None:
            beside.append(timed(lambda: history.classify(documents, TRIGGER)))
        alone = [timed(lambda: loaded.classify(documents, TRIGGER)) for _ in range(LOOKS_ALONE)]
    os.sched_setaffinity(0, cores)
    assert writer.stdout is not None
    beside = beside[3:] or beside
    return {
        "loaded_rows_a_second": given.rows / statistics.median(alone),
        "beside_rows_a_second": given.rows / statistics.median(beside),
        "ratio": statistics.median(alone) / statistics.median(beside),
        "looks": spread(beside),
        "writer": json.loads(writer.stdout.read()),
    }


def of_writers(given: argparse.Namespace, batch: int) -> dict[str, Any]:
    """Four processes that write to one trigger."""
    path = OUT / "shared"
    dh.open(path, create=True).close()
    command = [sys.executable, "-m", "benches.lived", "--writer", str(path), "--batch", str(batch)]
    command += ["--n", str(given.n // 4), "--first"]
    writers = [subprocess.Popen([*command, str(part << 32)], stdout=subprocess.PIPE, text=True) for part in range(4)]
    found = [json.loads(writer.communicate()[0]) for writer in writers]
    return {
        "ids_a_second": sum(one["ids_a_second"] for one in found),
        "begin_and_complete": found[0]["begin_and_complete"],
    }


def as_writer(given: argparse.Namespace) -> None:
    """A life in a history that others use too."""
    life = Life(given.n, given.batch[0], urns=given.urns, first=given.first)
    with dh.open(given.writer) as history:
        json.dump(live(history, life, given.writer), sys.stdout)


def of_single(given: argparse.Namespace) -> dict[str, Any]:
    """Single documents: `begin_one` and `complete`, by threads that share a history."""
    found = of_one_thread(given.singles)
    for threads in (8, 64):
        with dh.open(OUT / f"single-{threads}", create=True) as history:
            found[str(threads)] = singles(history, threads, max(given.singles // threads, 50))
    return found


def of_one_thread(documents: int) -> dict[str, Any]:
    """One thread, in turn with two bare syncs: what these take changes from minute to minute."""
    ids = uuid_column(np.arange(documents, dtype=np.uint64)).to_pylist()
    seconds, bare = list[float](), list[float]()
    with dh.open(OUT / "single-1", create=True) as history, (OUT / "bare").open("w+b", buffering=0) as file:
        file.write(bytes(2 * documents * FRAME))
        os.fsync(file.fileno())
        for start in range(0, documents, IN_TURN):
            some = ids[start : start + IN_TURN]
            seconds += [one_document(history, text) for text in some]
            bare += [two_syncs(file, number) for number in range(len(some))]
    found = {"two_syncs": spread(bare), "1": {"a_second": documents / sum(seconds), **spread(seconds)}}
    above = found["1"]["p50_ms"] - found["two_syncs"]["p50_ms"]
    return {**found, "one_document_above_two_syncs_ms": above}


def two_syncs(file: FileIO, number: int) -> float:
    """What two small writes with their syncs take, within a file that is long enough."""
    before = time.perf_counter()
    for place in (2 * number, 2 * number + 1):
        os.pwrite(file.fileno(), b"x" * FRAME, place * FRAME)
        os.fdatasync(file.fileno())
    return time.perf_counter() - before


def one_document(history: dh.History, text: str) -> float:
    """What a document takes."""
    before = time.perf_counter()
    history.begin_one(trigger=TRIGGER, uuid=text).complete()
    return time.perf_counter() - before


def singles(history: dh.History, threads: int, each: int) -> dict[str, float]:
    """Documents a second, and what one takes."""
    seconds = [list[float]() for _ in range(threads)]
    ids = uuid_column(np.arange(each * threads, dtype=np.uint64)).to_pylist()

    def work(which: int) -> None:
        mine = ids[which * each : (which + 1) * each]
        seconds[which] += [one_document(history, text) for text in mine]

    workers = [threading.Thread(target=work, args=(which,)) for which in range(threads)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took = time.perf_counter() - started
    return {"a_second": each * threads / took, **spread([value for one in seconds for value in one])}


def of_maps(given: argparse.Namespace) -> dict[str, Any]:
    """Maps with values."""
    n = given.n // 5
    return {
        "mapper": of_mapper(OUT / "mapper", n, 10_000, given.runs),
        "delivery": of_delivery(OUT / "delivery", n, 10_000),
    }


def arguments() -> argparse.Namespace:
    """The command line."""

    def number(text: str) -> int:
        return int(float(text))

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=number, default=10_000_000, help="documents of a life")
    parser.add_argument("--batch", type=number, nargs="+", default=BATCHES)
    parser.add_argument("--rows", type=number, default=1_000_000, help="documents of a question")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--later", type=float, default=0.0, help="seconds after which everything is asked again")
    parser.add_argument("--urns", action="store_true", help="ids that are no UUIDs")
    parser.add_argument("--singles", type=number, default=16_000, help="single documents for each number of threads")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for the life of a peer")
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--add", action="store_true", help="keep what earlier runs with this N found")
    parser.add_argument("--quick", action="store_true", help="short lives: only to see that it works")
    parser.add_argument("--writer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.quick:
        vars(given).update(QUICK)
    return given


def printed(found: dict[str, Any], indent: str = "") -> None:
    """A listing of nested figures."""
    for name, value in found.items():
        if isinstance(value, dict) and all(isinstance(one, float | int) for one in value.values()):
            print(f"{indent}{name:24}", "  ".join(f"{what} {one:,.4g}" for what, one in value.items()))
        elif isinstance(value, dict):
            print(f"{indent}{name}")
            printed(value, indent + "  ")
        elif isinstance(value, float | int):
            print(f"{indent}{name:24} {value:,.4g}")


def measured(job: str, given: argparse.Namespace) -> dict[str, Any]:
    """One job; those that live in batches, for each size of a batch."""
    match job:
        case "single":
            return of_single(given)
        case "maps":
            return of_maps(given)
        case "peers":
            return {str(batch): of_peers(given.n, batch, given.rows, given.budget) for batch in given.batch}
    found = {}
    jobs = {"life": of_life, "ends": of_ends, "reader": of_reader, "writers": of_writers}
    for batch in given.batch:
        fresh()
        found[str(batch)] = jobs[job](given, batch)
    return found


def fresh() -> None:
    """An empty directory for the histories."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)


def main() -> None:
    """Measure, print, write."""
    given = arguments()
    if given.writer:
        as_writer(given)
        return
    if given.peer:
        life = Life(given.n, given.batch[0])
        json.dump(of_peer(given.peer, OUT / given.peer, life, given.rows, given.budget), sys.stdout)
        return
    about = {"machine": machine(), "n": given.n, "urns": given.urns}
    result: dict[str, Any] = {**about, "jobs": {}}
    if given.add and RESULT.exists():
        last = json.loads(RESULT.read_text())
        if (last["n"], last["urns"]) == (given.n, given.urns):
            result["jobs"] = last["jobs"]
    for job in given.only:
        fresh()
        result["jobs"].setdefault(job, {}).update(measured(job, given))
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    shutil.rmtree(OUT, ignore_errors=True)
    printed({job: result["jobs"][job] for job in given.only})


if __name__ == "__main__":
    main()
