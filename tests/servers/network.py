"""A network between a client and a server on loopback, which a test can cut."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SLICE = 0.02


class Network:
    """Forwards bytes between each client and the server.

    Args:
        upstream: the server's port.
        port: the port for clients; one that is free, if absent.
    """

    def __init__(self, upstream: int, port: int = 0) -> None:
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        """How many clients have connected."""
        self._is_over = threading.Event()
        self._is_silent = threading.Event()
        self._epoch = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def silence(self) -> None:
        """Drop everything from now on, as a broken cable does: connections stay open, and nothing arrives."""
        self._is_silent.set()

    def restore(self) -> None:
        """Forward again; what was cut or silenced before ends with a reset."""
        self._epoch += 1
        self._is_silent.clear()

    def reset(self) -> None:
        """End all connections at once, wherever they are in a frame."""
        self._epoch += 1

    def close(self) -> None:
        """End."""
        self._is_over.set()
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_over.is_set():
            if not select.select([self._listener], [], [], _SLICE)[0]:
                continue
            client, _ = self._listener.accept()
            self.connections += 1
            threading.Thread(target=self._forward, args=(client, self._epoch), daemon=True).start()

    def _forward(self, client: socket.socket, epoch: int) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._upstream)) as server:
            other = {client: server, server: client}
            while epoch == self._epoch and not self._is_over.is_set():
                if self._is_silent.is_set():
                    self._is_over.wait(_SLICE)
                    continue
                for side in select.select([client, server], [], [], _SLICE)[0]:
                    some = side.recv(1 << 16)
                    if not some:
                        return
                    if not self._is_silent.is_set() and epoch == self._epoch:
                        other[side].sendall(some)


@contextmanager
def network(upstream: int, port: int = 0) -> Iterator[Network]:
    """A network before a server."""
    one = Network(upstream, port)
    try:
        yield one
    finally:
        one.close()
