"""One of several processes that begin and complete batches of one trigger: `python -m benches.consumer PATH RUN`."""

import sys
import time

import dochistory as dh
from benches.stores import TRIGGER
from benches.workload import Workload

BATCHES, ROWS = 20, 10_000


def main() -> None:
    """Prepare, say so, wait for the word, work; print the documents and from when to when."""
    path, run = sys.argv[1], int(sys.argv[2])
    workload = Workload(10_000_000, 30)
    batches = [workload.fresh(ROWS, run=run * BATCHES + number).documents for number in range(BATCHES)]
    with dh.open(path) as history:
        print("ready", flush=True)
        sys.stdin.readline()
        started = time.monotonic()
        for documents in batches:
            history.begin(documents, TRIGGER, now=workload.now).complete()
        print(BATCHES * ROWS, started, time.monotonic())


if __name__ == "__main__":
    main()
