"""A proxy before an object store on loopback: it counts requests, delays them, and answers wrongly when told to."""

import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any


class Fault(Enum):
    """What becomes of one request."""

    DROP_BEFORE = auto()
    """The connection is cut, and the store never hears of the request."""
    DROP_AFTER = auto()
    """The store does what is asked, and the connection is cut before its answer."""
    ERROR_BEFORE = auto()
    """503, and the store never hears of the request."""
    ERROR_AFTER = auto()
    """The store does what is asked, and the client hears 500."""
    LATE = auto()
    """The connection is cut, and the request reaches the store some time after."""
    TWICE = auto()
    """The store hears the request twice, and the client the second answer."""


@dataclass(frozen=True)
class Say:
    """An answer in the store's place; the store never hears of the request."""

    status: int
    code: str = ""
    message: str = "said by the proxy"
    body: str = ""

    def whole(self) -> bytes:
        """The answer as S3 would write it."""
        error = f"<Error><Code>{self.code}</Code><Message>{self.message}</Message></Error>" if self.code else ""
        return _answer(self.status, (self.body or error).encode())


@dataclass(frozen=True)
class Request:
    """One request on its way."""

    method: str
    target: str
    head: bytes
    body: bytes

    @property
    def kind(self) -> str:
        """What a store would bill it as, and whether it is conditional."""
        if self.method == "PUT":
            return "create" if b"if-none-match" in self.head.lower() else "put"
        if self.method == "GET" and ("list-type=" in self.target or "comp=list" in self.target):
            return "list"
        return self.method.lower()


Choose = Callable[[Request], Fault | Say | None]


class FaultProxy:
    """What a running proxy counted, and what it shall do."""

    def __init__(self, upstream: int, *, latency: float = 0.0, late: float = 0.2) -> None:
        self.upstream = upstream
        self.latency = latency
        """Seconds added to each request."""
        self.late = late
        """Seconds after which a late request reaches the store."""
        self.choose: Choose = lambda _request: None
        self.counts: Counter[str] = Counter()
        self.targets: list[str] = []
        """What was asked for, for the message of a test whose counts are others."""
        self.bytes_in = 0
        """Bytes of bodies that clients sent."""
        self.bytes_out = 0
        """Bytes of answers."""
        self.port = 0
        self._lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        """Where clients reach it."""
        return f"http://127.0.0.1:{self.port}"

    def reset(self) -> None:
        """Set the counters to zero."""
        with self._lock:
            self.counts.clear()
            self.targets.clear()
            self.bytes_in = self.bytes_out = 0

    def served(self, request: Request) -> bytes | None:
        """The answer to one request; None to cut the connection."""
        with self._lock:
            self.counts[request.kind] += 1
            self.targets.append(f"{request.method} {request.target}")
            self.bytes_in += len(request.body)
            fault = self.choose(request)
        if self.latency:
            time.sleep(self.latency)
        answer = self._faulty(request, fault)
        with self._lock:
            self.bytes_out += len(answer or b"")
        return answer

    def _faulty(self, request: Request, fault: Fault | Say | None) -> bytes | None:
        if isinstance(fault, Say):
            return fault.whole()
        if fault is Fault.DROP_BEFORE:
            return None
        if fault is Fault.ERROR_BEFORE:
            return Say(503, "SlowDown").whole()
        if fault is Fault.LATE:
            threading.Timer(self.late, _asked, (self.upstream, request)).start()
            return None
        if fault is Fault.TWICE:
            _asked(self.upstream, request)
        answer = _asked(self.upstream, request)
        if fault is Fault.DROP_AFTER:
            return None
        return Say(500, "InternalError").whole() if fault is Fault.ERROR_AFTER else answer


@contextmanager
def fault_proxy(upstream: int, **settings: Any) -> Iterator[FaultProxy]:
    """A running proxy before the server on a port of this machine."""
    proxy = FaultProxy(upstream, **settings)

    class Handler(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self) -> None:
            with suppress(OSError):
                while (request := _request(self.rfile)) is not None:
                    answer = proxy.served(request)
                    if answer is None:
                        break
                    self.wfile.write(answer)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128

    with Server(("127.0.0.1", 0), Handler) as server:
        proxy.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()


def _asked(port: int, request: Request) -> bytes:
    """The store's answer, on a connection of its own: some servers lose the second request on one.

    A busy server may drop a connection. The client would ask again, and tests count what it asks:
    so a read is asked again here.
    """
    for _ in range(3 if request.method in ("GET", "HEAD") else 1):
        if (answer := _asked_once(port, request)) is not None:
            return answer
    return _answer(502, b"")


def _asked_once(port: int, request: Request) -> bytes | None:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=30) as store:
        store.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        store.sendall(request.head + request.body)
        with store.makefile("rb") as file:
            return _answered(file, request.method)
    return None


def _request(file: Any) -> Request | None:
    head = _head(file)
    if not head:
        return None
    method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
    if b"100-continue" in head.lower():
        raise OSError("no client here asks before it sends")
    return Request(method, target, head, _body(file, head))


def _answered(file: Any, method: str) -> bytes | None:
    head = _head(file)
    if not head:
        return None
    status = int(head.split(b" ", 2)[1])
    bare = method == "HEAD" or status in (204, 304)
    return head + (b"" if bare else _body(file, head))


def _head(file: Any) -> bytes:
    lines = []
    while line := file.readline(1 << 16):
        lines.append(line)
        if line in (b"\r\n", b"\n"):
            return b"".join(lines)
    return b""


def _body(file: Any, head: bytes) -> bytes:
    fields = {
        name.strip().lower(): value.strip()
        for name, colon, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
        if colon
    }
    if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
        return b"".join(_chunks(file))
    body: bytes = file.read(int(fields.get(b"content-length", 0)))
    return body


def _chunks(file: Any) -> Iterator[bytes]:
    while True:
        line = file.readline()
        yield line
        size = int(line.split(b";")[0], 16)
        yield file.read(size + 2)
        if size == 0:
            return


def _answer(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\nContent-Type: application/xml\r\n\r\n"
    return head.encode() + body
