"""A writer that dies with a full log: `python -m benches.killed PATH`."""

import os
import signal
import sys

import dochistory as dh
from benches.stores import TRIGGER
from benches.workload import Workload

ROWS = 10_000
BATCHES = 75  # a log is sealed soon after so many


def main() -> None:
    """Fill the log, then die without closing anything."""
    workload = Workload(1_000_000, 30)
    history = dh.open(sys.argv[1])
    for run in range(BATCHES):
        history.begin(workload.fresh(ROWS, run=run).documents, TRIGGER, now=workload.now)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
