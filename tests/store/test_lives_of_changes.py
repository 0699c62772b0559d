"""Random lives in which the time to live changes, logs are sealed, and segments compacted, loaded and purged."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import T0, documents, status_of, trigger

KEYS = [*(f"urn:{number}" for number in range(5)), *(f"00000000-0000-0000-0000-00000000000{n}" for n in range(3))]
TIMES_TO_LIVE = ["30 minutes", "2 hours", "1 day", "30 days"]
WAITS = [timedelta(minutes=one) for one in (1, 7, 29, 30, 60, 120, 660)] + [timedelta(days=1), timedelta(days=29)]
STEPS = ["begin"] * 6 + ["end"] * 7 + ["wait"] * 5 + ["change", "seal", "load"] * 2 + ["maintain"] * 3
STEPS += ["purge", "reopen"]
OTHERS = int(os.environ.get("DOCHISTORY_LIVES", "0"))


@dataclass
class Entry:
    """An entry of a key. A purge drops whole files, so it is not sure at first whether it took this one."""

    started_at: datetime
    state: Literal["processing", "completed", "released"]
    place: Literal["there", "unsure", "gone"] = "there"


class Life:
    """A history and its model, to which a random number generator does things."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home, self.random, self.now = home / str(seed), random.Random(seed), T0
        self.expiry = self.random.choice(["exact", "until_purged"])
        self.model: dict[str, list[Entry]] = {key: [] for key in KEYS}
        self.claims: list[tuple[Any, dict[int, Entry]]] = []
        self.history = dh.open(self.home, create=True)
        self.use(self.random.choice(TIMES_TO_LIVE))
        self.history.begin(documents([]), self.trigger, now=T0)

    def use(self, time_to_live: str) -> None:
        self.trigger = trigger(history_time_to_live=time_to_live, expiry=self.expiry)

    def counts(self, entry: Entry) -> bool:
        is_over = self.expiry == "exact" and self.now >= entry.started_at + self.trigger.history_time_to_live
        return entry.state != "released" and entry.place != "gone" and not is_over

    def allowed(self, key: str) -> set[str]:
        """What the history may answer."""
        entries = [entry for entry in self.model[key] if self.counts(entry)]
        sure = {entry.state for entry in entries if entry.place == "there"}
        unsure = {entry.state for entry in entries if entry.place == "unsure"}
        if "completed" in sure:
            return {"DUPLICATE"}
        words = {"completed": "DUPLICATE", "processing": "IN_DOUBT"}
        return {"IN_DOUBT" if sure else "NEW"} | {words[state] for state in unsure}

    def begin(self) -> None:
        ids = self.random.sample(KEYS, self.random.randint(1, 6))
        claim = self.history.begin(documents(ids), self.trigger, now=self.now)
        begun = {}
        for row, (key, status) in enumerate(zip(ids, claim.verdicts["status"].to_pylist(), strict=True)):
            assert status in self.allowed(key)
            if status == "NEW":
                for entry in filter(self.counts, self.model[key]):
                    entry.place = "gone"
                begun[row] = Entry(self.now, "processing")
                self.model[key].append(begun[row])
        self.claims.append((claim, begun))

    def end(self) -> None:
        if not self.claims:
            return
        claim, begun = self.random.choice(self.claims)
        rows = [row for row, entry in begun.items() if entry.state == "processing" and self.random.random() < 0.6]
        is_completed = self.random.random() < 0.7
        (claim.complete if is_completed else claim.release)(rows=rows)
        for row in rows:
            begun[row].state = "completed" if is_completed else "released"
            # What ends after the purge counts again.
            begun[row].place = "there" if is_completed else begun[row].place

    def wait(self) -> None:
        self.now += self.random.choice(WAITS)

    def change(self) -> None:
        self.use(self.random.choice(TIMES_TO_LIVE))
        self.history.change(self.trigger)

    def seal(self) -> None:
        self.history.unpin(self.trigger, self.history.pin(self.trigger))

    def load(self) -> None:
        ids, started_at = self.random.sample(KEYS, 2), self.now - self.random.choice(WAITS)
        times = pa.array([started_at] * len(ids), pa.timestamp("us", "UTC"))
        self.history.load(documents(ids).append_column("started_at", times), self.trigger, now=self.now)
        for key in ids:
            self.model[key].append(Entry(started_at, "completed"))

    def maintain(self) -> None:
        self.history.maintain(all=True)

    def purge(self) -> None:
        self.history.purge(now=self.now, force=True)
        for entry in (entry for entries in self.model.values() for entry in entries):
            if entry.place == "there" and self.now >= entry.started_at + self.trigger.history_time_to_live:
                entry.place = "unsure"

    def reopen(self) -> None:
        self.history.close()
        self.history, self.claims = dh.open(self.home), []

    def check(self) -> None:
        for key, status in zip(KEYS, status_of(self.history, KEYS, self.trigger, now=self.now), strict=True):
            assert status in self.allowed(key), f"{key} at {self.now}: {self.model[key]}"


def live(home: Path, seeds: range) -> None:
    for seed in seeds:
        life = Life(home, seed)
        steps: list[str] = []
        try:
            for step in life.random.choices(STEPS, k=40):
                steps.append(step)
                getattr(life, step)()
                life.check()
        except BaseException as error:
            error.add_note(f"life {seed}: {' '.join(steps)}")
            raise
        finally:
            life.history.close()


def test_no_change_of_the_time_to_live_gives_a_false_answer(tmp_path: Path) -> None:
    live(tmp_path, range(60))


@pytest.mark.slow
def test_no_change_in_longer_runs_gives_a_false_answer(tmp_path: Path) -> None:
    live(tmp_path, range(1000, 1000 + (OTHERS or 150)))
