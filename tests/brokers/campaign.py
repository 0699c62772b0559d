"""What every broker is put through: duplicates, kills, restarts, poison; and what must be true afterwards."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import dochistory as dh
from tests.brokers.receiver_process import POISON
from tests.servers.running import Server
from tests.support import trigger

Published = tuple[str, bytes]
"""An id and a body."""


class Campaign:
    """Receivers of one broker, and the effects of their service."""

    _in_a_group = False
    """Whether a receiver starts processes of its own, and is the leader of their group."""

    def __init__(self, directory: Path, broker: str, where: str, more: dict[str, Any] | None = None) -> None:
        self.history = directory / "orders.history"
        self.effects = directory / "effects"
        self._log = directory / "log"
        self._environment = {**os.environ, "DOCHISTORY_STATE": str(directory / "state")}
        self._command = [sys.executable, "-m", "tests.brokers.receiver_process"]
        self.settings: dict[str, Any] = {
            "broker": broker,
            "history": str(self.history),
            "effects": str(self.effects),
            "where": where,
            "more": more or {},
        }

    def start(self, **settings: Any) -> subprocess.Popen[bytes]:
        """A receiver in a process of its own."""
        given = json.dumps({**self.settings, **settings})
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*self._command, given],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=self._in_a_group,
            )

    def killing(self, kills: int, between: tuple[float, float], receivers: int = 1, **settings: Any) -> None:
        """Kill receivers at random moments, and start others."""
        chance = random.Random(kills)
        running = [self.start(**settings) for _ in range(receivers)]
        for kill in range(kills):
            time.sleep(chance.uniform(*between))
            running[kill % receivers].kill()
            running[kill % receivers].wait()
            running[kill % receivers] = self.start(**settings)
        for one in running:
            one.kill()
            one.wait()

    def endure(
        self,
        broker: Server,
        publish: Callable[[Sequence[Published]], None],
        count: int,
        between: tuple[float, float],
        **settings: Any,
    ) -> Sequence[Published]:
        """Fifteen kills of two receivers, a crash and a restart of the broker, and a message that kills.

        Answers all messages that were published.
        """
        published = messages(count)
        published[700:700] = [("the-poison", POISON)]
        early = count * 2 // 3
        publish(published[:early])
        self.killing(9, between, receivers=2, **settings)
        broker.stop(signal.SIGKILL)
        broker.start()
        publish(published[early:])
        self.killing(6, between, receivers=2, **settings)
        another = self.start(**settings)
        time.sleep(between[0])
        broker.stop()
        broker.start()
        self.finish(ids_of(published), **settings)
        if another.poll() is None:
            self.terminate(another)
        return published

    def finish(self, expected: set[str], timeout: float = 120, **settings: Any) -> None:
        """Receive until every id has run or is in doubt; then SIGTERM, which must end the receiver cleanly."""
        end = time.monotonic() + timeout
        one = self.start(**settings)
        try:
            while missing := expected - set(self.ran()) - set(self.in_doubt()):
                assert time.monotonic() < end, f"{len(missing)} are missing, {sorted(missing)[:3]}\n{self.log()}"
                if one.poll() is not None:  # poison
                    one = self.start(**settings)
                time.sleep(0.1)
            self.terminate(one)
        finally:
            one.kill()
            one.wait()

    def empty(self, depth: Callable[[], int], **settings: Any) -> None:
        """Receive until the queue holds nothing, copies and what an ended receiver gave back included."""
        end = time.monotonic() + 120
        while depth():
            assert time.monotonic() < end, f"{depth()} are left in the queue\n{self.log()}"
            one = self.start(**settings)
            try:
                eventually(lambda: depth() == 0, "a receiver holds the rest")
                self.terminate(one)
            finally:
                one.kill()
                one.wait()

    def terminate(self, one: subprocess.Popen[bytes]) -> None:
        """SIGTERM, which must end it cleanly once it is up."""
        eventually(lambda: f"receiving {one.pid}\n" in self._log.read_text(), "the receiver is up")
        time.sleep(0.5)  # until it hears signals
        one.send_signal(signal.SIGTERM)
        assert one.wait(30) == 0, self.log()

    def log(self) -> str:
        """What the receivers said."""
        return self._log.read_text()[-3000:] if self._log.exists() else ""

    def ran(self) -> list[str]:
        """The ids that the service processed, each time."""
        return self.effects.read_text().split() if self.effects.exists() else []

    def in_doubt(self, state: Any = ("open",)) -> list[str]:
        """The ids in the audit log."""
        try:
            with self.opened(read_only=True) as history:
                keys: list[str] = history.audit.list(state=state)["key"].to_pylist()
        except dh.OpenError:
            return []
        return keys

    def opened(self, **how: Any) -> dh.History:
        """The history."""
        return dh.open(self.history, **how)

    def check(self, expected: set[str]) -> None:
        """Each ran at most once, the rest is in doubt; resubmission brings all to exactly once."""
        ran = Counter(self.ran())
        assert {key: times for key, times in ran.items() if times > 1} == {}
        assert expected - set(ran) <= set(self.in_doubt())
        with self.opened() as history:
            history.audit.reconcile()
            left = history.audit.list(state="open")
            by = dict(zip(left["number"].to_pylist(), left["key"].to_pylist(), strict=True))
            done = [number for number, key in by.items() if key in ran]
            history.audit.resolve(done, "duplicate")
            rest = [number for number, key in by.items() if key not in ran]
            with history.audit.resubmit(trigger(), rest) as again, self.effects.open("a") as effects:
                effects.writelines(f"{key}\n" for key in again.entries["key"].to_pylist())
            states = set(history.audit.list()["state"].to_pylist())
            assert states <= {"duplicate", "resubmitted"}
            verdicts = history.classify(pa.table({"uuid": sorted(expected)}), trigger())
            assert set(verdicts["rule"].to_pylist()) == {"R9"}
        assert Counter(self.ran()) == dict.fromkeys(expected, 1)


def messages(count: int, duplicates: float = 0.1, seed: int = 0) -> list[Published]:
    """Messages, some of them twice: at once, or much later."""
    chance = random.Random(seed)
    once = [(f"order-{seed}-{number:06}", b"x" * 64) for number in range(count)]
    copies = chance.sample(once, int(count * duplicates))
    all_ = [*once]
    for at, copy in enumerate(copies):
        all_.insert(all_.index(copy) + 1 if at % 2 else len(all_), copy)
    return all_


def kept_in_audit(directory: Path) -> int:
    """The number of documents in the audit log of a test's history, which the first batch makes."""
    if not (directory / "orders.history").exists():
        return 0
    with dh.open(directory / "orders.history", read_only=True) as history:
        rows: int = history.audit.list().num_rows
        return rows


def ids_of(published: Sequence[Published]) -> set[str]:
    """Their ids."""
    return {one for one, _ in published}


def eventually(holds: Callable[[], bool], what: str, timeout: float = 60) -> None:
    """Wait until it holds."""
    end = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < end, f"not within {timeout} s: {what}"
        time.sleep(0.05)


class BucketCampaign(Campaign):
    """The same with a history in a bucket."""

    def __init__(
        self, directory: Path, broker: str, where: str, history: str, options: Mapping[str, str], **more: Any
    ) -> None:
        super().__init__(directory, broker, where, {**more, "storage_options": dict(options)})
        self.url = history
        self.options = dict(options)
        self.settings["history"] = history

    def opened(self, **how: Any) -> dh.History:
        """The history."""
        return dh.open(self.url, storage_options=self.options, **how)
