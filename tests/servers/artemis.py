"""An Artemis of the test's own: STOMP on loopback, its data in a directory of its own, gone when the test is."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.servers import free_port
from tests.servers.jars import jars, java
from tests.servers.running import Running, started

_VERSION = "2.40.0"
_OPTIONS = ("-Xmx384m", "-Xms64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def classes() -> str:
    """Its class path. Only what STOMP needs: the command line would take three times as long to fetch."""
    return jars("org.apache.activemq", "artemis-stomp-protocol", _VERSION)


class Artemis:
    """A broker that can be stopped, killed and started again with the same data."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self._running = Running("Artemis", home)
        etc = home / "etc"
        etc.mkdir(exist_ok=True)
        (etc / "broker.xml").write_text(
            f"""<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled>
<journal-type>NIO</journal-type>
<paging-directory>{home}/data/paging</paging-directory>
<bindings-directory>{home}/data/bindings</bindings-directory>
<journal-directory>{home}/data/journal</journal-directory>
<large-messages-directory>{home}/data/large</large-messages-directory>
<max-disk-usage>-1</max-disk-usage>
<critical-analyzer>false</critical-analyzer>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:{self.port}?protocols=STOMP</acceptor></acceptors>
<address-settings><address-setting match="#">
<default-address-routing-type>ANYCAST</default-address-routing-type>
<default-queue-routing-type>ANYCAST</default-queue-routing-type>
<max-delivery-attempts>-1</max-delivery-attempts>
<auto-delete-queues>false</auto-delete-queues>
<auto-delete-addresses>false</auto-delete-addresses>
</address-setting></address-settings>
</core></configuration>
"""
        )
        main = "org.apache.activemq.artemis.core.server.embedded.Main"
        self._command = [java(), *_OPTIONS, "-cp", classes(), main, str(home)]

    @property
    def host_and_ports(self) -> Sequence[tuple[str, int]]:
        """Where it is, as stomp.py wants it."""
        return [("127.0.0.1", self.port)]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._running.start(self._command, self._answers)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop it: orderly, or with SIGKILL."""
        self._running.stop(how)

    def restart(self) -> None:
        """Restart it: then it delivers what it was sending when a connection broke (`docs/stomp.md`)."""
        self.stop()
        self.start()

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as one:
            one.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
            return one.recv(9) == b"CONNECTED"
        return False


@contextmanager
def server() -> Iterator[Artemis]:
    """A running broker."""
    with started("artemis", Artemis) as one:
        yield one
