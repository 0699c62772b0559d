"""Workers that each have a core to themselves: a Spark with one task slot, bound to it with its Python.

`python -m benches.spark.pinned CORE N P ROWS` starts one. It says `ready`; whenever it reads a line
it classifies ROWS documents and says `done`; it ends with its input.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benches.spark import data
from benches.stores import TRIGGER, scratch_copy, store
from benches.workload import Workload

_Worker = subprocess.Popen[str]
_WARM_UP = 4  # runs: a JVM with a single core compiles slowly


def workers(_spark: Any, workload: Workload, rows: int, runs: int) -> dict[str, list[float]]:
    """One worker alone, and two side by side, each with as many rows as the one, in turns.

    What two take is from their start until both are done, and is given by half: for as many rows as
    one has.
    """
    data.documents(workload, rows)  # before both of them would make it
    store(workload)
    with ExitStack() as ending:
        both = [ending.enter_context(_started(core, workload, rows)) for core in (0, 1)]
        for worker in both:
            _said(worker, "ready")
        found: dict[str, list[float]] = {"one": [], "two": []}
        for number in range(_WARM_UP + runs):
            # Now the one, now the other, so that both are as warm.
            alone, together = _seconds([both[number % 2]]), _seconds(both)
            if number >= _WARM_UP:
                found["one"].append(alone)
                found["two"].append(together / 2)
        for worker in both:
            worker.communicate(timeout=120)
        return found


def _started(core: int, workload: Workload, rows: int) -> _Worker:
    command = [sys.executable, "-m", "benches.spark.pinned", *map(str, (core, workload.n, workload.p, rows))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _seconds(of: list[_Worker]) -> float:
    started = time.perf_counter()
    for worker in of:
        if worker.stdin is None:
            raise SystemExit("a worker has no input")
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in of:
        _said(worker, "done")
    return time.perf_counter() - started


def _said(worker: _Worker, word: str) -> None:
    line = worker.stdout.readline() if worker.stdout is not None else ""
    if line.strip() != word:
        raise SystemExit(f"a worker said {line!r} instead of {word}")


def main(core: int, n: int, p: int, rows: int) -> None:
    """Be one."""
    # Before the JVM and Python's workers start, which inherit it.
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})
    import dochistory as dh
    from benches.spark import classify

    # The JVM would choose another collector where it sees a single core.
    config = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": "-XX:+UseG1GC"}
    spark = dh.spark.session("benches", master="local[1]", config=config)
    workload = Workload(n, p)
    with tempfile.TemporaryDirectory(dir=data.HOME) as home:
        df = spark.read.parquet(str(data.documents(workload, rows))).drop("payload")
        judged = dh.spark.classify(df, scratch_copy(workload, Path(home)), TRIGGER)
        classify.run(judged)
        print("ready", flush=True)
        for _ in sys.stdin:
            classify.run(judged)
            print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
