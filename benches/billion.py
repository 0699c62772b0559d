"""Build W(1e9, 30) and measure every job on it: `python -m benches.billion`. Takes long, and 60 GB of disk.

Interrupted while it fills the history, it goes on from there when it is started again. What is
measured is a copy of that history, whose large files are links, so that one that is kept can be
measured again.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benches.machine import machine
from benches.measure import write_batch
from benches.peers.own import Own
from benches.stores import fill, linked_copy
from benches.table import OWN, listing
from benches.timing import Sample, seconds_of
from benches.workload import BATCH_ROWS, Workload
from dochistory.progress import Bar

BYTES_AN_ID = 60  # on disk while it is built: segments, what they are merged into, and room to spare
RUNS, BUDGET_S = 7, 60.0


def measure(peer: Own) -> dict[str, Any]:
    """Fill the history if it is not there yet, then every job."""
    path, workload = peer.directory / "history", peer.workload
    found: dict[str, Any] = {"version": peer.version(), "note": peer.note}
    if not path.exists():
        unfinished = peer.directory / "unfinished"
        peer.directory.mkdir(parents=True, exist_ok=True)
        _check_disk(peer.directory, workload)
        with Bar(f"filling W({workload.n:,}, {workload.p})", workload.n) as bar:
            found["build"] = Sample.of([seconds_of(lambda: fill(unfinished, workload, bar))]).as_dict()
        unfinished.rename(path)
    found["bytes_an_id"] = peer.bytes_on_disk() / workload.n
    with tempfile.TemporaryDirectory(dir=peer.directory.parent) as scratch:
        linked_copy(path, Path(scratch) / "history")
        copy = Own(Path(scratch), workload)
        write_batch(copy, BATCH_ROWS)
        found["open"] = Sample.of([_apart(copy, "open")["seconds"] for _ in range(RUNS)]).as_dict()
        return found | _apart(copy, "memory") | _apart(copy, "run")


def _apart(peer: Own, job: str) -> dict[str, Any]:
    """Do a job in a process of its own: this one has filled the history, and its memory tells nothing any more."""
    workload = {"n": peer.workload.n, "p": peer.workload.p, "rows": BATCH_ROWS, "runs": RUNS, "budget": BUDGET_S}
    options = [text for name, value in workload.items() for text in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "benches.measure", OWN, job, "--directory", str(peer.directory), *options]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def _check_disk(directory: Path, workload: Workload) -> None:
    there = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())  # of an interrupted run
    needed, free = workload.n * BYTES_AN_ID - there, shutil.disk_usage(directory).free
    if free < needed:
        raise SystemExit(f"{directory} has {free / 1e9:.0f} GB free, and {needed / 1e9:.0f} GB are needed")


def main() -> None:
    """Print every figure, write them to out/billion.json, and keep nothing else unless told to."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--n", type=lambda text: int(float(text)), default=1_000_000_000, help="ids in the history")
    arguments.add_argument("--p", type=int, default=30, help="day partitions")
    arguments.add_argument("--directory", type=Path, default=Path("out/bench-billion"))
    arguments.add_argument("--keep", action="store_true", help="leave the history, to be measured again")
    given = arguments.parse_args()
    peer = Own(given.directory, Workload(given.n, given.p))
    result = {
        "command": f"python -m benches.billion {' '.join(sys.argv[1:])}".strip(),
        "machine": machine(),
        "workload": {"n": given.n, "p": given.p, "rows": BATCH_ROWS},
        "peers": {OWN: measure(peer)},
        "left_out": {},
    }
    Path("out/billion.json").write_text(json.dumps(result, indent=2) + "\n")
    print(listing(result))
    if not given.keep:
        shutil.rmtree(given.directory)


if __name__ == "__main__":
    main()
