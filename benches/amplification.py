"""What is written, read and kept for each byte of id: `python -m benches.amplification --n 1e7 --p 30`.

A history comes to be in two ways: by `begin` and `complete` of batches, with upkeep every few of
them, and by `load`. Counted is what the process hands to the system (`wchar` and `rchar` of
/proc/self/io), beside 16 bytes an id. Upkeep reads its segments through mapped memory, which the
system does not count: the entries that it went through tell that.
"""

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import dochistory as dh
from benches.machine import machine
from benches.peers.base import size_on_disk
from benches.stores import TRIGGER, batches
from benches.workload import Workload

ID_BYTES = 16
UPKEEP_EVERY = 8  # batches


def counted() -> dict[str, int]:
    """Bytes that this process has read and written by calls to the system."""
    lines = (line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {name: int(value) for name, value in lines}


def begun(history: dh.History, workload: Workload, rows: int) -> int:
    """Begin and complete everything in batches; answers how many entries upkeep went through."""
    entries = 0
    for number, part in enumerate(workload.parts(rows)):
        documents = pa.record_batch({"uuid": workload.column(part.numbers)})
        history.begin(documents, TRIGGER, now=workload.day(part.day)).complete()
        if number % UPKEEP_EVERY == UPKEEP_EVERY - 1:
            entries += _gone_through(history, all_of_it=False)
    history.unpin(
        TRIGGER, history.pin(TRIGGER)
    )  # a pin seals the log: what is kept does not depend on when it was last sealed
    return entries + _gone_through(history, all_of_it=True)


def loaded(history: dh.History, workload: Workload, rows: int) -> int:
    """Load everything; answers how many entries upkeep went through."""
    del rows
    history.load(batches(workload), TRIGGER)
    return _gone_through(history, all_of_it=True)


def _gone_through(history: dh.History, *, all_of_it: bool) -> int:
    done = history.maintain(TRIGGER, all=all_of_it)[TRIGGER.name]
    return done["rewritten"] + done["rolled_up"]


def measure(
    make: Callable[[dh.History, Workload, int], int], path: Path, workload: Workload, rows: int
) -> dict[str, float]:
    """Make a history, and say what it took for each byte of id."""
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    before = counted()
    with dh.open(path, create=True, auto_maintain=False) as history:
        entries = make(history, workload, rows)
    after, ids = counted(), workload.n * ID_BYTES
    on_disk = size_on_disk(path)
    shutil.rmtree(path)
    through_calls = after["rchar"] - before["rchar"]
    return {
        "written": (after["wchar"] - before["wchar"]) / ids,
        "read": (through_calls + entries * on_disk / workload.n) / ids,
        "kept": on_disk / ids,
    }


def main() -> None:
    """Print the figures, and write them to out/amplification.json."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--n", type=lambda text: int(float(text)), default=10_000_000, help="ids in the history")
    arguments.add_argument("--p", type=int, default=30, help="day partitions")
    given = arguments.parse_args()
    path, workload = Path("out/bench-scratch/amplification"), Workload(given.n, given.p)
    ways = {
        "begin + complete, batches of 10,000": (begun, 10_000),
        "begin + complete, batches of 1,000,000": (begun, 1_000_000),
        "load": (loaded, 0),
    }
    found = {name: measure(make, path, workload, rows) for name, (make, rows) in ways.items()}
    result = {"machine": machine(), "n": given.n, "p": given.p, "id_bytes": ID_BYTES, "found": found}
    Path("out/amplification.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"bytes for each byte of id, N = {given.n:,}, P = {given.p}")
    for name, values in found.items():
        print(f"  {name:40}", *(f"{what} {value:6.2f}" for what, value in values.items()))


if __name__ == "__main__":
    main()
