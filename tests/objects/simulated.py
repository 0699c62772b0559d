"""A store in memory whose requests fail, come late and come twice, and actors that take turns at every request."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import dochistory as dh
from dochistory.objects import Stored

Request = Callable[[], object]


class Turns:
    """Lets one actor run at a time, from one request to the next, in an order that a seed decides."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._may_run: dict[threading.Thread, threading.Semaphore] = {}
        self._is_back = threading.Semaphore(0)
        self._ended: set[threading.Thread] = set()
        self.failures: list[BaseException] = []

    def run(self, actors: Sequence[Callable[[], None]]) -> None:
        """Run all actors to their ends; raises what the first of them raised."""
        threads = [threading.Thread(target=self._act, args=(actor,), daemon=True) for actor in actors]
        self._may_run = {thread: threading.Semaphore(0) for thread in threads}
        # Some sleep for long, while others pass by.
        weights = {thread: self._chance.choice([0.02, 0.3, 1.0, 3.0]) for thread in threads}
        for thread in threads:
            thread.start()
        while left := [thread for thread in threads if thread not in self._ended]:
            if self._chance.random() < 0.05:
                weights[self._chance.choice(left)] = self._chance.choice([0.02, 0.3, 1.0, 3.0])
            chosen = self._chance.choices(left, [weights[one] for one in left])[0]
            self._may_run[chosen].release()
            self._is_back.acquire()
        for failure in self.failures:
            raise failure

    def _act(self, actor: Callable[[], None]) -> None:
        self._may_run[threading.current_thread()].acquire()
        try:
            actor()
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self.failures.append(error)
        self._ended.add(threading.current_thread())
        self._is_back.release()

    def step(self) -> None:
        """Let others run, before a request."""
        mine = self._may_run.get(threading.current_thread())
        if mine is not None:
            self._is_back.release()
            mine.acquire()


@dataclass
class Objects:
    """What is stored, and what is on its way."""

    chance: random.Random
    turns: Turns
    faults: float = 0.2
    stored: dict[str, bytes] = field(default_factory=dict)
    late: list[Request] = field(default_factory=list)

    def deliver(self, *, everything: bool = False) -> None:
        """Let requests arrive that are late."""
        while self.late and (everything or self.chance.random() < 0.1):
            self.late.pop(self.chance.randrange(len(self.late)))()

    def send(self, request: Request) -> Any:
        """What a changing request answers; `_LostError` if nothing is heard of it."""
        self.turns.step()
        self.deliver()
        if self.chance.random() >= self.faults:
            return request()
        fate = self.chance.choice(["lost", "late", "twice", "unheard", "late again"])
        if fate in ("late", "late again"):
            self.late += [request] * (2 if fate == "late again" else 1)
        if fate == "twice":
            self.late.append(request)
            return request()
        if fate == "unheard":
            request()
        raise _LostError

    def read(self, request: Callable[[], Any]) -> Any:
        """What a read answers."""
        self.turns.step()
        self.deliver()
        return request()


class _LostError(Exception):
    pass


class SimulatedClient:
    """The requests of `dochistory.objects.ObjectClient`, with its ways of repeating them."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.location = SimpleNamespace(url="s3://simulated/orders.history")
        self.audit: Any = None

    def put_new(self, name: str, content: bytes) -> str:
        stored = self.objects.stored

        def create() -> str:
            if name in stored:
                return "exists"
            stored[name] = content
            return "created"

        is_first = True
        for _ in range(3):
            try:
                outcome: str = self.objects.send(create)
                if outcome == "created" or is_first:
                    return outcome
                there = self.get(name)
                if there is not None:
                    return "created" if there == content else "exists"
            except _LostError:
                there = self.get(name)
                if there is not None:
                    return "created" if there == content else "exists"
            is_first = False
        raise _failed(name)

    def put(self, name: str, content: bytes) -> None:
        self._repeated(name, lambda: self.objects.stored.update({name: content}))

    def delete(self, name: str) -> None:
        self._repeated(name, lambda: self.objects.stored.pop(name, None))

    def _repeated(self, name: str, request: Request) -> None:
        for _ in range(3):
            try:
                self.objects.send(request)
            except _LostError:
                continue
            return
        raise _failed(name)

    def get(self, name: str) -> bytes | None:
        found: bytes | None = self.objects.read(lambda: self.objects.stored.get(name))
        return found

    def list(self, prefix: str = "", after: str | None = None) -> Sequence[Stored]:
        names = self.objects.read(lambda: sorted(self.objects.stored))
        return [Stored(one, 1, 0) for one in names if one.startswith(prefix) and (after is None or one > after)]


def _failed(name: str) -> dh.ObjectStoreError:
    return dh.ObjectStoreError(f"[DH-OBJECTS] {name}: nobody knows what became of it")
