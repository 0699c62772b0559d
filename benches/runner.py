"""Measure dochistory and its peers on the reference workload: `python -m benches.runner --n 1e7 --p 30`.

Each peer runs in processes of its own, one at a time. Prints a table, and writes out/bench.json and
out/bench.md.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benches.machine import busy_cores, machine
from benches.peers import MODULES, missing
from benches.table import listing, markdown
from benches.timing import Sample

OUT = Path("out")
OPENINGS = 5
QUIET_CORES = 0.3
QUICK = {"n": 100_000, "p": 10, "rows": 20_000, "runs": 3, "budget": 5.0}


def measure(peer: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything about one peer."""
    directory = OUT / "bench-peers" / peer
    try:
        found = _process(peer, "build", directory, arguments)
        openings = [_process(peer, "open", directory, arguments)["seconds"] for _ in range(OPENINGS)]
        found |= {"open": Sample.of(openings).as_dict()} | _process(peer, "memory", directory, arguments)
        return found | _process(peer, "run", directory, arguments)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _process(peer: str, job: str, directory: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    given = {name: str(getattr(arguments, name)) for name in QUICK}
    options = [text for name, value in given.items() for text in (f"--{name}", value)]
    command = [sys.executable, "-m", "benches.measure", peer, job, "--directory", str(directory), *options]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def wait_for_quiet(patience_s: float) -> float:
    """Wait until the machine has nothing else to do, but not for ever; answers how many cores others keep busy."""
    until = time.monotonic() + patience_s
    while (busy := busy_cores()) > QUIET_CORES and time.monotonic() < until:
        pass
    if busy > QUIET_CORES:
        print(f"others keep {busy:.1f} cores busy; measuring all the same", file=sys.stderr)
    return busy


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=lambda text: int(float(text)), default=10_000_000, help="ids in the history")
    parser.add_argument("--p", type=int, default=30, help="day partitions")
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=1_000_000, help="documents in a batch")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument(
        "--budget", type=float, default=60.0, help="seconds for one job of one peer, from its second run on"
    )
    parser.add_argument("--peers", nargs="+", choices=MODULES, default=list(MODULES), metavar="PEER")
    parser.add_argument("--quick", action="store_true", help="a small history, few runs: only to see that it works")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait at most for the machine to be quiet")
    parser.add_argument(
        "--add", action="store_true", help="keep what the last run of this workload found of other peers"
    )
    given = parser.parse_args()
    if given.quick:
        vars(given).update(QUICK)
    return given


def main() -> None:
    """Measure, print, write."""
    given = arguments()
    OUT.mkdir(exist_ok=True)
    command = f"python -m benches.runner {' '.join(sys.argv[1:])}".strip()
    result: dict[str, Any] = {
        "machine": machine(),
        "workload": {name: getattr(given, name) for name in ("n", "p", "rows")},
        "peers": {},
        "left_out": {},
    }
    if given.add:
        last = json.loads((OUT / "bench.json").read_text())
        result["peers"] = last["peers"] if last["workload"] == result["workload"] else {}
    for peer in given.peers:
        if why := missing(peer):
            result["left_out"][peer] = why
            continue
        busy = wait_for_quiet(given.wait)
        print(f"measuring {peer} …", file=sys.stderr)
        result["peers"][peer] = measure(peer, given) | {"command": command, "others_busy_cores": round(busy, 2)}
        (OUT / "bench.json").write_text(json.dumps(result, indent=2) + "\n")
    result["peers"] = {peer: result["peers"][peer] for peer in MODULES if peer in result["peers"]}
    (OUT / "bench.md").write_text(markdown(result))
    print(listing(result))


if __name__ == "__main__":
    main()
