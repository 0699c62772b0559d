"""A reader beside killed writers: it classifies all the time, and holds what it sees against what was acknowledged.

On standard input, one line each: `acknowledged N` (batch N is begun, durable) and `stop`. On
standard output: `checked C`, how many classifications it made; or a line that begins with `wrong`.
Once acknowledged, a batch is never NEW again, and it is never half there.
"""

from __future__ import annotations

import os
import select
import sys

import dochistory as dh
from tests.store.crash_writer import BATCH, ids_of
from tests.support import status_of, trigger


def main(directory: str) -> None:
    """Classifies until told to stop."""
    orders = trigger(history_time_to_live="1 day")
    acknowledged: list[int] = []
    checks, heard = 0, b""
    with dh.open(directory, read_only=True) as lasting:
        while True:
            while select.select([0], [], [], 0)[0]:
                # Not `sys.stdin`: lines that it has taken in already are not seen by `select`.
                said = os.read(0, 1 << 16)
                heard += said
                if not said or b"stop" in heard:
                    print(f"checked {checks}", flush=True)
                    return
            *lines, heard = heard.split(b"\n")
            acknowledged += [int(line.split()[1]) for line in lines]
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
