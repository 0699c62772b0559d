"""What all adapters do with an error of their broker, and when they end."""

# ruff: noqa: SLF001 - parts of adapters, without a broker

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import stomp.exception

from dochistory import stomp as receiver_of_stomp
from dochistory._adapter import Adapter
from dochistory._kafka import Unlimited
from dochistory.receiving import Message
from tests.brokers.campaign import eventually
from tests.support import trigger


class Failing(Adapter):
    """An adapter whose broker fails while the present service ends."""

    def __init__(self, history: Path, service: Callable[[Message], object]) -> None:
        super().__init__(
            history, trigger("orders"), service, on_error="in_doubt", claim_ahead=0.05, most=9, settings={}
        )
        self.has_left = False

    def _receive(self) -> None:
        self._worker.put([Message("a", b"", 0, None, 1, None)])
        self._worker.stopping.wait()

    def _keep_alive(self) -> None:
        raise ConnectionResetError("the broker is gone")

    def _settle(self, settled: Any) -> None:
        pass

    def _is_current(self, message: Message) -> bool:
        return message.id == "a"

    def _leave(self, left: Sequence[Message]) -> None:
        self.has_left = not left


def test_service_is_not_cut_off_by_an_error_at_the_end(tmp_path: Path) -> None:
    begun, ended = threading.Event(), threading.Event()

    def service(_: Message) -> None:
        begun.set()
        time.sleep(0.5)
        ended.set()

    one = Failing(tmp_path / "orders.history", service)

    def stop() -> None:
        begun.wait()
        one.stop()

    threading.Thread(target=stop).start()
    with pytest.raises(ConnectionResetError, match="the broker is gone"):
        one.run()
    assert (ended.is_set(), one.has_left) == (True, True)


def test_call_without_a_limit_is_left_behind() -> None:
    calls, go, made = Unlimited(), threading.Event(), list[str]()
    assert calls.within(10, lambda: made.append("first"))
    assert not calls.within(0.01, go.wait)
    assert not calls.within(0.01, lambda: made.append("second"))
    assert made == ["first"]
    go.set()
    eventually(lambda: made == ["first", "second"], "it is made after the one before it")
    with pytest.raises(ValueError, match="no"):
        calls.within(10, lambda: int("no"))


@pytest.mark.parametrize("is_lost", [True, False])
def test_socket_taken_away_amid_a_frame_is_a_lost_connection(*, is_lost: bool) -> None:
    def send(_: str) -> None:
        raise AttributeError("'NoneType' object has no attribute 'sendall'")

    link = receiver_of_stomp._Link([("localhost", 1)], (0, 0), lambda _: None)
    link.client.transport = SimpleNamespace(socket=None if is_lost else object())
    with pytest.raises(stomp.exception.StompException if is_lost else AttributeError):
        link.send(send, "frame")
