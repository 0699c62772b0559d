"""Spark reads a real Kafka: each record runs exactly once, or is in doubt and in the audit log."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="wants Kafka's client, which older Sparks' environments have not")

from tests.brokers.campaign import Campaign, ids_of, messages
from tests.brokers.test_kafka import publish
from tests.servers import spark_kafka
from tests.servers.kafka import Kafka, server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.crash, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("DOCHISTORY_DRIVER_KILLS", "2"))
STARTS = 300
"""Seconds within which a driver on a busy machine processes something."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with server() as one:
        yield one


class Driver(Campaign):
    """A driver of Spark that reads a topic, and the effects of its service."""

    _in_a_group = True

    def __init__(self, directory: Path, broker: Kafka, topic: str, decide_on: str) -> None:
        super().__init__(directory, "spark", topic)
        self.settings = {
            "place": str(directory),
            "history": str(self.history),
            "effects": str(self.effects),
            "servers": broker.servers,
            "topic": topic,
            "decide_on": decide_on,
            "jars": spark_kafka.source_jars(),
            "checkpoint": "checkpoint",
            "takes": 0.001,
            "until_drained": False,
            "at_once": 150,
        }
        self._environment = {**spark_kafka.environment(), "DOCHISTORY_STATE": str(directory / "state")}
        self._command = [sys.executable, "-m", "tests.spark.kafka_stream"]
        self._groups: list[int] = []

    def start(self, **settings: object) -> subprocess.Popen[bytes]:
        one = super().start(**settings)
        self._groups.append(one.pid)
        return one

    def kill(self, one: subprocess.Popen[bytes], *, whole: bool) -> None:
        """Kill the driver's Python, or its JVM and its workers at the same moment."""
        os.killpg(one.pid, signal.SIGKILL) if whole else one.kill()
        one.wait()

    def end(self) -> None:
        """Kill whatever is left."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def drain(self, **settings: object) -> None:
        """Handle all that is in the topic, in few batches."""
        one = self.start(until_drained=True, at_once=1500, **settings)
        assert one.wait(STARTS) == 0, self.log()


@contextmanager
def driver(directory: Path, broker: Kafka, topic: str, decide_on: str) -> Iterator[Driver]:
    """A driver, of which nothing is left at the end."""
    one = Driver(directory, broker, topic, decide_on)
    try:
        yield one
    finally:
        one.end()


def work(one: Driver, running: subprocess.Popen[bytes], is_enough: Callable[[], bool]) -> subprocess.Popen[bytes]:
    """Wait until enough has been processed; a driver that gave up, as where the broker is gone, starts again."""
    end = time.monotonic() + STARTS
    while not is_enough():
        assert time.monotonic() < end, one.log()
        if running.poll() is not None:
            running = one.start()
        time.sleep(0.02)
    return running


@pytest.mark.parametrize("decide_on", ["driver", "executors"])
def test_driver_killed_while_it_reads_kafka_runs_nothing_twice(tmp_path: Path, broker: Kafka, decide_on: str) -> None:
    topic = f"spark-{decide_on}"
    broker.topic(topic)
    published = messages(4_000)
    publish(broker, topic, published[:3_000])
    chance = random.Random(decide_on)
    with driver(tmp_path, broker, topic, decide_on) as one:
        running = one.start()
        for kill in range(KILLS):
            enough = len(one.ran()) + chance.randint(1, 250)
            running = work(one, running, lambda enough=enough: len(one.ran()) >= enough)  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.5) if kill else 0)
            one.kill(running, whole=bool(kill % 2))
            if kill == KILLS // 2:
                broker.stop(signal.SIGKILL)
                broker.start()
                publish(broker, topic, published[3_000:])
            running = one.start()
        enough = len(one.ran()) + 100
        running = work(one, running, lambda: len(one.ran()) >= enough)
        broker.stop()
        broker.start()
        running = work(one, running, lambda: len(one.ran()) >= enough + 300)
        one.kill(running, whole=True)
        one.drain()
        ran, doubts = set(one.ran()), set(one.in_doubt())
        assert ran | doubts == ids_of(published)
        assert doubts, "no kill hit a batch in its service"
        one.check(ids_of(published))
        # A new checkpoint reads the topic from its start, under a name of its own: nothing runs again.
        before = one.ran()
        one.drain(checkpoint="another")
        assert one.ran() == before
        assert one.in_doubt() == []
