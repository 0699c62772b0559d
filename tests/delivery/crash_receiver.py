"""A receiver that is killed: it applies the messages of one stream to a file of its own, one line a transaction.

Arguments: the history, the file, `own` if the file's length is its log_received in one transaction,
else `recorded`, and a seed. The publisher's log is the numbers 1, 2, 3, …; each call of `receive`
gets the next few messages, shuffled, some twice, split or not. Lines on standard output: `confirmed
N`.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import dochistory as dh
from tests.delivery.support import column, header, messages


def parts_of(end: int) -> int:
    """Messages that a transaction takes; it depends on the transaction only."""
    return 3 if end % 4 == 0 else 1


def headers(after: int, count: int, epoch: int) -> list[str]:
    """The messages of `count` transactions after an offset."""
    return [
        header(end - 1, end if part == parts_of(end) - 1 else end - 1, part, epoch)
        for end in range(after + 1, after + 1 + count)
        for part in range(parts_of(end))
    ]


def reached(file: Path) -> int:
    """How far the file goes: whole lines only."""
    return file.read_bytes().count(b"\n") if file.exists() else 0


def main(directory: str, name: str, mode: str, seed: int) -> None:
    """Works until it is killed."""
    chance, file = random.Random(seed), Path(name)
    with dh.open(directory) as history:
        inbox = history.delivery("s", own_transaction=mode == "own", log_received=reached(file), patience=1000)
        epoch = column(inbox.status(), "rereceive_count")[0]
        warm = inbox.receive(messages([]))  # so that what is imported late is there before the clock runs
        warm.messages.to_pylist()
        warm.commit()
        os.write(1, b"open\n")
        with file.open("ab", buffering=0) as out:
            while True:
                arrivals = headers(column(inbox.status(), "log_received")[0], 5, epoch)
                arrivals += chance.choices(arrivals, k=2)
                chance.shuffle(arrivals)
                poll = inbox.receive(messages(arrivals))
                for row in poll.messages.to_pylist():
                    if row["header"].endswith(f"-{parts_of(row['dh_commit']) - 1})"):
                        out.write(f"{row['dh_commit']}\n".encode())
                poll.commit()
                for offset in column(poll.confirmations, "confirm"):
                    os.write(1, f"confirmed {offset}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
