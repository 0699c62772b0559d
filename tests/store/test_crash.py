"""A writer is killed at random moments: nothing it acknowledged is forgotten, nothing is made up."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

import dochistory as dh
from tests.store.crash_writer import BATCH, ids_of
from tests.store.processes import ROOT
from tests.support import documents, fresh_ids, status_of, trigger

KILLS = 20


class Journal:
    """What the writers said, by batch."""

    def __init__(self) -> None:
        self.said: dict[int, set[str]] = defaultdict(set)

    def note(self, output: str) -> None:
        """Takes in what one writer printed until it was killed."""
        for line in output.splitlines():
            word, number = line.split()
            if word != "open":
                self.said[int(number)].add(word)

    @property
    def next_batch(self) -> int:
        """The first batch that nobody offered yet."""
        return max(self.said, default=-1) + 1

    def allowed(self, number: int) -> set[str]:
        """The states a batch may be in, by what was said about it."""
        said = self.said[number]
        if "completed" in said:
            return {"DUPLICATE"}
        if "released" in said:
            return {"NEW"}
        if "completing" in said:
            return {"IN_DOUBT", "DUPLICATE"}
        if "releasing" in said:
            return {"IN_DOUBT", "NEW"}
        if "begun" in said:
            return {"IN_DOUBT"}
        return {"IN_DOUBT", "NEW"}


def write_and_kill(directory: Path, first: int, chance: random.Random) -> str:
    """Lets a writer work for a moment, kills it, and returns what it said."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.store.crash_writer", str(directory), str(first)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        opened = writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.08))
        still_working = writer.poll() is None
        writer.kill()
        # Not `communicate`: it would pass over what `readline` has taken in already.
        output = writer.stdout.read()
        assert still_working, writer.stderr.read()
    return opened + output


def check(history: dh.History, journal: Journal) -> None:
    """Compares every batch ever offered with what was acknowledged."""
    numbers = sorted(journal.said)
    ids = [one for number in numbers for one in ids_of(number)]
    seen = status_of(history, ids, trigger(history_time_to_live="1 day"))
    for place, number in enumerate(numbers):
        states = set(seen[place * BATCH : (place + 1) * BATCH])
        assert len(states) == 1, f"batch {number} is torn: {states}"
        assert states <= journal.allowed(number), f"batch {number}, {journal.said[number]}: {states}"


@pytest.mark.crash
def test_killed_writer_forgets_nothing_acknowledged(directory: Path) -> None:
    chance = random.Random()
    journal = Journal()
    never_offered = [*fresh_ids(100), *(f"crash {number} {BATCH}" for number in range(100))]
    dh.open(directory, create=True).close()
    with dh.open(directory, read_only=True) as lasting_reader:
        for kill in range(KILLS):
            journal.note(write_and_kill(directory, journal.next_batch, chance))
            with dh.open(directory) as history:
                check(history, journal)
                assert set(status_of(history, never_offered)) == {"NEW"}
                if kill % 5 == 4:
                    history.verify()
            check(lasting_reader, journal)
    assert sum("completed" in said for said in journal.said.values()) > KILLS


@pytest.mark.crash
def test_killing_one_of_two_writers_leaves_the_other_working(directory: Path) -> None:
    chance = random.Random()
    journal = Journal()
    mine: list[str] = []
    with dh.open(directory, create=True) as history:
        for _ in range(KILLS // 4):
            journal.note(write_and_kill(directory, journal.next_batch, chance))
            ids = fresh_ids(10)
            history.begin(documents(ids), trigger(history_time_to_live="1 day")).complete()
            mine += ids
            check(history, journal)
            assert set(status_of(history, mine)) == {"DUPLICATE"}
