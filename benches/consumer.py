"""One of several processes on one trigger: `python -m benches.consumer PATH RUN ROWS BATCHES`.

Of one row it takes documents one at a time.
"""

import sys
import time

import dochistory as dh
from benches.stores import TRIGGER
from benches.workload import Workload


def main() -> None:
    """Prepare, say so, wait for the word, work; print the documents and from when to when."""
    path, (run, rows, batches) = sys.argv[1], map(int, sys.argv[2:])
    workload = Workload(10_000_000, 30)
    given = [workload.fresh(rows, run=run * batches + number).documents for number in range(batches)]
    ids = [documents["uuid"][0].as_py() for documents in given] if rows == 1 else []
    with dh.open(path) as history:
        print("ready", flush=True)
        sys.stdin.readline()
        started = time.monotonic()
        for uuid in ids:
            history.begin_one(uuid=uuid, trigger=TRIGGER, now=workload.now).complete()
        for documents in [] if ids else given:
            history.begin(documents, TRIGGER, now=workload.now).complete()
        print(batches * rows, started, time.monotonic())


if __name__ == "__main__":
    main()
