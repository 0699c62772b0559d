"""A Kafka of the test's own: one KRaft node on loopback, its data in a directory of its own, gone when the test is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.servers import free_port
from tests.servers.jars import jars, java

_VERSION = "3.9.1"
_STARTS = 120
_OPTIONS = ("-Xmx384m", "-Xms64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class Kafka:
    """A broker that can be stopped, killed and started again with the same data."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._command = [java(), *_OPTIONS, "-cp", jars("org.apache.kafka", "kafka_2.13", _VERSION)]
        self.port, controller = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = home / "server.properties"
        self._settings.write_text(
            f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={home / "data"}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
"""
        )
        identity = ["-t", "dochistoryTESTdochist0", "-c", str(self._settings)]
        subprocess.run(
            [*self._command, "kafka.tools.StorageTool", "format", *identity], check=True, capture_output=True
        )

    @property
    def servers(self) -> str:
        """Where it is."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._home / "out").open("ab") as out:
            command = [*self._command, "kafka.Kafka", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self._home, start_new_session=True)
        end = time.monotonic() + _STARTS
        while True:
            try:
                self.admin().list_topics(timeout=2)
            except confluent_kafka.KafkaException:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"Kafka does not start:\n{(self._home / 'out').read_text()[-3000:]}") from None
            else:
                return

    def admin(self) -> AdminClient:
        """A client for topics."""
        quiet = {"log_level": 0, "log.connection.close": False}
        return AdminClient({"bootstrap.servers": self.servers, **quiet})

    def topic(self, name: str, partitions: int = 3) -> None:
        """Create a topic."""
        admin = self.admin()  # the futures end with it
        made = admin.create_topics([NewTopic(name, partitions, 1)])
        for future in made.values():
            future.result(30)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop it: orderly, or with SIGKILL."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, how)
            self._process.wait(60)
            self._process = None


@contextmanager
def server() -> Iterator[Kafka]:
    """A running broker."""
    home = Path(tempfile.mkdtemp(prefix="dochistory-kafka-"))
    try:
        one = Kafka(home)
        try:
            one.start()
            yield one
        finally:
            one.stop(signal.SIGKILL)
    finally:
        shutil.rmtree(home, ignore_errors=True)
