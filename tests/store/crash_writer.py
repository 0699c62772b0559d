"""A writer that is killed: it begins, completes and releases documents, and says each step before and after.

Lines on standard output, each in one write: `offer N`, `begun N`, `completing N`, `completed N`,
`releasing N`, `released N`, where batch N holds the ids `crash N 0` to `crash N 9`.
"""

from __future__ import annotations

import itertools
import os
import sys

import dochistory as dh
from tests.support import documents, trigger

BATCH = 10


def ids_of(number: int) -> list[str]:
    """The ids of one batch."""
    return [f"crash {number} {row}" for row in range(BATCH)]


def say(word: str, number: int) -> None:
    """One line, in one write, so that a kill never tears it."""
    os.write(1, f"{word} {number}\n".encode())


def main(directory: str, first: int) -> None:
    """Works until it is killed. A third of the batches complete, a third are released, the rest stay begun."""
    with dh.open(directory) as history:
        orders = trigger(history_time_to_live="1 day")
        history.begin(documents([]), orders).complete()  # so that what is imported late is there before the clock runs
        say("open", 0)
        for number in itertools.count(first):
            say("offer", number)
            claim = history.begin(documents(ids_of(number)), orders)
            say("begun", number)
            if number % 3 == 0:
                say("completing", number)
                claim.complete()
                say("completed", number)
            elif number % 3 == 1:
                say("releasing", number)
                claim.release()
                say("released", number)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
