"""The manifests of an audit log in a bucket: what was acknowledged stays, whatever requests fail, come late or twice.

Schedules on a simulated store: writers, readers and collectors take turns at every request, and
some sleep past collections. The same schedules find the loss where a step of the protocol is left
out.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

import dochistory as dh
from dochistory.audit import bucket, chain
from dochistory.audit.files import KEPT, taking_in
from dochistory.audit.manifest import Named
from tests.objects.simulated import Objects, SimulatedClient, Turns

SCHEDULES = int(os.environ.get("DOCHISTORY_SCHEDULES", "300"))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two manifests, so that much is collected, and no pauses."""
    monkeypatch.setattr(chain, "_BLOCK", 2)
    for module in (chain, bucket):
        monkeypatch.setattr(module, "pause", lambda _round: None)


class Schedule:
    """Writers, a reader and a collector on one log, by a seed."""

    def __init__(self, seed: int, faults: float = 0.2) -> None:
        self.chance = random.Random(seed)
        self.turns = Turns(self.chance)
        self.objects = Objects(self.chance, self.turns, faults)
        self.acknowledged: set[int] = set()
        self.dropping: set[int] = set()
        self.unknown = 0

    def log(self) -> bucket.Bucket:
        """The log as a process of its own has it."""
        client: Any = SimulatedClient(self.objects)
        return bucket.Bucket(client, lock_timeout=60.0)

    def run(self) -> None:
        """Run it, and check what is there in the end."""
        self.turns.run([self.writer(1), self.writer(2), self.writer(3), self.reader, self.collector])
        self.objects.deliver(everything=True)
        self.objects.faults = 0.0
        log = self.log()
        self.check(log, self.acknowledged - self.dropping)
        log.collect()
        self.check(log, self.acknowledged - self.dropping)

    def writer(self, which: int) -> Callable[[], None]:
        def write() -> None:
            log = self.log()
            for number in range(4):
                token = which * 100 + number
                try:
                    log.alone(lambda token=token: add(log, token))  # type: ignore[misc]
                    self.acknowledged.add(token)
                    if self.chance.random() < 0.3:
                        self.dropping.add(token)
                        log.alone(lambda token=token: drop(log, token))  # type: ignore[misc]
                except dh.ObjectStoreError:
                    self.unknown += 1

        return write

    def reader(self) -> None:
        log = self.log()
        for _ in range(6):
            expected = set(self.acknowledged)
            found = tokens(log)
            assert expected - self.dropping <= found

    def collector(self) -> None:
        log = self.log()
        for _ in range(3):
            try:
                log.collect()
            except dh.ObjectStoreError:
                self.unknown += 1

    def check(self, log: bucket.Bucket, expected: set[int]) -> None:
        names = log.names()
        assert expected <= tokens(log)
        firsts = [match[1] for name in names if (match := KEPT.fullmatch(name))]
        assert len(set(firsts)) == len(firsts), "a number was given twice"
        assert {f"audit/{name}" for name in names} <= set(self.objects.stored), "a file is gone"


def add(log: bucket.Bucket, token: int) -> None:
    before = log.current()
    first = before.next_number
    name = log.add(before, f"kept-{first:016}-00000001-{token:016x}", b"document")
    log.publish(taking_in(before, [Named(name, 8, ((first, first),))]))


def drop(log: bucket.Bucket, token: int) -> None:
    before = log.current()
    gone = [file.name for file in before.files if token_of(file.name) == token]
    log.publish(before.without(gone))
    log.remove(gone)


def token_of(name: str) -> int:
    match = KEPT.fullmatch(name)
    assert match is not None
    return int(match[3], 16)


def tokens(log: bucket.Bucket) -> set[int]:
    return {token_of(name) for name in log.names()}


def test_schedules_lose_nothing_that_was_acknowledged() -> None:
    acknowledged = unknown = 0
    for seed in range(SCHEDULES):
        schedule = Schedule(seed)
        try:
            schedule.run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}") from error
        acknowledged += len(schedule.acknowledged)
        unknown += schedule.unknown
    assert acknowledged > 8 * SCHEDULES
    assert unknown > 0


def is_broken(schedules: int) -> bool:
    """Whether one of this number of schedules loses something."""
    for seed in range(schedules):
        try:
            Schedule(seed, faults=0.3).run()
        except (AssertionError, dh.CorruptError, dh.StateError):
            return True
    return False


def test_without_a_mistake_schedules_find_none() -> None:
    assert not is_broken(50)


def test_without_a_look_at_gates_schedules_find_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain.Chain, "_is_genuine", lambda _self, _number: True)
    assert is_broken(300)


def test_with_gates_left_open_schedules_find_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain.Chain, "_close", lambda _self, _block: None)
    assert is_broken(300)


def test_with_early_collection_schedules_find_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "_is_decided", lambda _number, _newest: True)
    assert is_broken(300)
