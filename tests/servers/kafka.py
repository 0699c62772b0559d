"""A Kafka of the test's own: one KRaft node on loopback, its data in a directory of its own, gone when the test is."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from tests.servers import free_port
from tests.servers.jars import jars, java
from tests.servers.running import Running, started

VERSION = "3.9.1"
WITH_SHARE_GROUPS = "4.2.0"
_OPTIONS = ("-Xmx384m", "-Xms64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def classes(version: str = VERSION) -> str:
    """Its class path."""
    return jars("org.apache.kafka", "kafka_2.13", version)


class Kafka:
    """A broker that can be stopped, killed and started again with the same data."""

    def __init__(self, home: Path, version: str = VERSION) -> None:
        self._command = [java(), *_OPTIONS, "-cp", classes(version)]
        self.port, controller = free_port(), free_port()
        self.behind, self.before = free_port(), free_port()
        """A further listener, and where it tells clients that it is: a test puts a network between both."""
        self._running = Running("Kafka", home)
        self._settings = home / "server.properties"
        self._settings.write_text(
            f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{self.port},NETWORK://127.0.0.1:{self.behind},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{self.port},NETWORK://127.0.0.1:{self.before}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,NETWORK:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={home / "data"}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.share.min.record.lock.duration.ms=1000
group.share.delivery.count.limit=10
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
        self._running.start([*self._command, "kafka.Kafka", str(self._settings)], self._answers)

    def _answers(self) -> bool:
        try:
            self.admin().list_topics(timeout=2)
        except confluent_kafka.KafkaException:
            return False
        return True

    def share_group(self, name: str, lock: int = 30_000) -> None:
        """Let a share group read its topics from their start, and lock records for this many milliseconds."""
        wanted = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(lock)}
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()
        ]
        admin = self.admin()
        group = ConfigResource(ConfigResource.Type.GROUP, name, incremental_configs=entries)
        for future in admin.incremental_alter_configs([group]).values():
            future.result(30)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop it: orderly, or with SIGKILL."""
        self._running.stop(how)

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


@contextmanager
def server(version: str = VERSION) -> Iterator[Kafka]:
    """A running broker."""
    with started("kafka", lambda home: Kafka(home, version)) as one:
        yield one
