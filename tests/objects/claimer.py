"""A consumer in a process of its own: `python -m tests.objects.claimer URL OPTIONS SEED IDS OUT`.

Begins ids that others begin too, and completes them; now and then it collects garbage that is a
second old. Writes down what it was told, after it was told. May be killed at any time.
"""

import json
import random
import sys
from pathlib import Path
from typing import TextIO

import dochistory as dh
from tests.support import documents, statuses, trigger


def opened(url: str, options: dict[str, str]) -> dh.History:
    """The history, however often the store fails."""
    while True:
        try:
            return dh.open(url, storage_options=options, auto_maintain=False)
        except dh.ObjectStoreError:
            pass


def main(url: str, options: dict[str, str], seed: int, ids: int, out: Path) -> None:
    """Work until every id was offered twice."""
    chance = random.Random(seed)
    orders = trigger()
    history = opened(url, options)
    with out.open("a", buffering=1) as told:
        for _ in range(2):
            numbers = chance.sample(range(ids), ids)
            for start in range(0, ids, 5):
                batch = [f"document-{number}" for number in numbers[start : start + 5]]
                try:
                    claim = history.begin(documents(batch), orders)
                except dh.DocHistoryError as error:
                    told.write(f"error {str(error).split(']')[0]}]\n")
                    continue
                fresh = [one for one, status in zip(batch, statuses(claim.verdicts), strict=True) if status == "NEW"]
                told.write("".join(f"new {one}\n" for one in fresh))
                if fresh:
                    end(claim, told, fresh)
                if chance.random() < 0.1:
                    collect(history, told)


def end(claim: dh.Claim, told: TextIO, fresh: list[str]) -> None:
    """Complete the claim, and say so."""
    try:
        claim.complete()
    except dh.DocHistoryError as error:
        told.write(f"error {str(error).split(']')[0]}]\n")
    else:
        told.write("".join(f"completed {one}\n" for one in fresh))


def collect(history: dh.History, told: TextIO) -> None:
    """Maintain the trigger, and collect what is a second old."""
    try:
        history.maintain("orders", grace="1 s")
    except dh.DocHistoryError as error:
        told.write(f"error {str(error).split(']')[0]}]\n")
    else:
        told.write("collected\n")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
