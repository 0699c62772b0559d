"""The demo: 6,046 real mails through Spark, a driver killed in the middle, a restart, and everything delivered again.

`python examples/demo [--policy in_doubt|rerun]` ends with a table, a picture and a check of every
figure. Its exit status is 0 only if every figure is what the rules demand. Its files stay under
`out/demo`.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from expected import check
from mails import ROWS, prepare
from picture import draw
from records import Run, records
from tables import show

HERE = Path(__file__).parent
BATCHES = 12
KILLED = 5
"""The batch in whose middle the driver is killed."""


def main() -> int:
    """Run the demo; the exit status."""
    options = arguments()
    work = options.work
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    started = time.monotonic()

    print(f"{ROWS:,} mails of 2002 in {BATCHES} batches; what is in doubt: {options.policy}", flush=True)
    prepare(work / "first", BATCHES, redelivery_count=0)
    prepare(work / "again", BATCHES, redelivery_count=1)

    say("1. The stream starts.")
    status = stream(work, "first", options.policy, "--kill-in-batch", str(KILLED))
    if status != -signal.SIGKILL:
        return failed(work, f"the driver should have died by SIGKILL and ended with {status}")
    print(f"   killed: driver, Java and workers died with SIGKILL half-way through batch {KILLED}", flush=True)

    say("2. It starts again from its checkpoint: Spark replays the killed batch.")
    if status := stream(work, "first", options.policy):
        return failed(work, f"the second run ended with {status}")

    say("3. The broker delivers everything again (redelivery count 1) to a new stream.")
    if status := stream(work, "again", options.policy):
        return failed(work, f"the redelivery ended with {status}")

    runs = records(work)
    show(runs)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    draw(runs, options.picture)
    print(f"\nPicture: {options.picture}    Everything the demo wrote: {work}")
    return verdict(work, runs, options.policy, time.monotonic() - started)


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--policy",
        choices=["in_doubt", "rerun"],
        default="in_doubt",
        help="for documents that the killed batch began: log them as in doubt, or run them again",
    )
    parser.add_argument("--work", type=Path, default=Path("out/demo"), help="a directory to create again")
    parser.add_argument("--picture", type=Path, default=Path("out/demo.png"), help="where to draw the picture")
    return parser.parse_args()


def stream(work: Path, phase: str, policy: str, *options: str) -> int:
    """Run one Spark driver to its end, in a process group of its own; its exit status."""
    command = [sys.executable, str(HERE / "stream.py"), str(work), phase, policy, *options]
    with (work / "spark.log").open("a") as log:
        return subprocess.run(command, stderr=log, start_new_session=True, check=False).returncode


def verdict(work: Path, runs: list[Run], policy: str, seconds: float) -> int:
    """Say whether every figure is right; the exit status."""
    wrong = check(work, runs, policy, BATCHES, KILLED)
    if wrong:
        print("\nWRONG:", *wrong, sep="\n  ")
        return 1
    print(f"Every figure is what the rules demand. {seconds:.0f} s.")
    return 0


def say(text: str) -> None:
    """One step of the story."""
    print(f"\n{text}", flush=True)


def failed(work: Path, reason: str) -> int:
    """Say why the demo cannot go on."""
    log = work / "spark.log"
    print(f"\nThe demo cannot go on: {reason}. The end of {log}:\n", *log.read_text().splitlines()[-30:], sep="\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
