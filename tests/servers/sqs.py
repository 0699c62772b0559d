"""SQS, as moto serves it in a thread of this process."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest import mock

from moto.server import ThreadedMotoServer
from moto.sqs.models import Queue, SQSBackend

from tests.servers import free_port

_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
_COUNTS = ("", "_delayed", "_not_visible")
_WORKING = threading.local()


@contextmanager
def server() -> Iterator[str]:
    """A running server's endpoint; meanwhile the environment holds credentials for it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # which writes a line for each request
    with mock.patch.dict(os.environ, _CREDENTIALS), _uncounted():
        port = free_port()
        served = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
        served.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            served.stop()


@contextmanager
def _uncounted() -> Iterator[None]:
    """For each message that is sent or received, moto would count all others, and not look at the counts."""

    def uncounted(work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def working(*given: Any, **named: Any) -> Any:
            _WORKING.now = True
            try:
                return work(*given, **named)
            finally:
                _WORKING.now = False

        return working

    def count(real: Callable[[Queue], int]) -> property:
        return property(lambda queue: 0 if getattr(_WORKING, "now", False) else real(queue))

    names = [f"approximate_number_of_messages{name}" for name in _COUNTS]
    counts: dict[str, Any] = {name: count(vars(Queue)[name].fget) for name in names}
    works: dict[str, Any] = {name: uncounted(vars(SQSBackend)[name]) for name in ("send_message", "receive_message")}
    with mock.patch.multiple(SQSBackend, **works), mock.patch.multiple(Queue, **counts):
        yield
