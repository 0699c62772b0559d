"""A reader beside killed writers: it classifies all the time, and holds what it sees against what was acknowledged.

On standard input, one line each: `acknowledged N` (batch N is begun, durable) and `stop`. On standard output:
`checked C`, how many classifications it made; or a line that begins with `wrong`. Once acknowledged, a batch is never
NEW again, and it is never half there.
"""

from __future__ import annotations

import select
import sys

import dochistory as dh
from tests.store.crash_writer import BATCH, ids_of
from tests.support import status_of, trigger


def main(directory: str) -> None:
    """Classifies until told to stop."""
    orders = trigger(history_time_to_live="1 day")
    acknowledged: list[int] = []
    checks = 0
    with dh.open(directory, read_only=True) as lasting:
        while True:
            while select.select([sys.stdin], [], [], 0)[0]:
                word, _, number = sys.stdin.readline().strip().partition(" ")
                if word != "acknowledged":
                    print(f"checked {checks}", flush=True)
                    return
                acknowledged.append(int(number))
            with dh.open(directory, read_only=True) as fresh:
                for reader in (lasting, fresh):
                    checks += 1
                    for number in acknowledged[-20:]:
                        seen = set(status_of(reader, ids_of(number), orders))
                        if len(seen) != 1 or "NEW" in seen:
                            print(f"wrong: batch {number} of {BATCH} is {seen}", flush=True)
                            return


if __name__ == "__main__":
    main(sys.argv[1])
