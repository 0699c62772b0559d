"""A RabbitMQ of the test's own: on loopback, its data in a directory of its own, gone when the test is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pika.exceptions

from tests.servers import free_port, program
from tests.servers.running import Running

_SCRIPTS = "usr/lib/rabbitmq/bin"
_TRIES = 3
_KILLS = 50


def installed() -> str:
    """Its program, which Debian brings."""
    return program("rabbitmq-server", "rabbitmq-server")


class RabbitMQ:
    """A server that can be stopped, killed and started again with the same data."""

    def __init__(self, home: Path) -> None:
        installed()
        # Not the one on the path, which becomes another user where root runs it.
        self._program = next(Path("/").glob(f"{_SCRIPTS}/rabbitmq-server"))
        self.port = free_port()
        self._running = Running("RabbitMQ", home)
        config = home / "rabbitmq.conf"
        config.write_text(
            f"""listeners.tcp.local = 127.0.0.1:{self.port}
log.file.level = error
vm_memory_high_watermark.relative = 0.9
disk_free_limit.absolute = 1MB
loopback_users = none
raft.wal_max_size_bytes = 16777216
"""
        )
        (home / "enabled_plugins").write_text("[].\n")
        (home / "advanced.config").write_text("[].\n")
        self._environment = {
            **os.environ,
            "HOME": str(home),
            "RABBITMQ_NODENAME": f"test-{uuid.uuid4().hex[:8]}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(home / "pid"),
            "RABBITMQ_CONF_ENV_FILE": str(home / "none"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none",
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    @property
    def url(self) -> str:
        """Where it is."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._running.start([str(self._program)], self._answers, self._environment)

    def _answers(self) -> bool:
        try:
            pika.BlockingConnection(pika.URLParameters(self.url)).close()
        except (pika.exceptions.AMQPError, OSError):
            return False
        return True

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop it: orderly, or with SIGKILL."""
        self._running.stop(how)

    def close(self) -> None:
        """Stop it, and Erlang's name server, too."""
        self.stop(signal.SIGKILL)
        epmd = shutil.which("epmd")
        for _ in range(_KILLS if epmd is not None else 0):
            asked = subprocess.run([str(epmd), "-kill"], env=self._environment, check=False, capture_output=True)
            if b"not allowed" not in asked.stdout + asked.stderr:
                break
            time.sleep(0.1)  # it has not noticed yet that its node is gone


@contextmanager
def server() -> Iterator[RabbitMQ]:
    """A running server. Another process may take a port between its choice and its use: then others are chosen."""
    home = Path(tempfile.mkdtemp(prefix="dochistory-rabbitmq-"))
    try:
        for attempt in range(_TRIES):
            one = RabbitMQ(home)
            try:
                one.start()
                break
            except RuntimeError:
                one.close()
                if attempt == _TRIES - 1:
                    raise
        try:
            yield one
        finally:
            one.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)
