"""STOMP: receives a destination's messages from Artemis or ActiveMQ, each processed once. Needs stomp.py.

```python
from dochistory import stomp

stomp.Receiver(
    "orders.history", trigger, "orders", ship, id=stomp.header("order"),
    brokers=[("localhost", 61613)], login=("shipping", "secret"),
).run()
```

`docs/stomp.md` says which id, which acknowledgement, and what happens on failure.
"""

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import stomp
import stomp.exception

import dochistory as dh
from dochistory import _checks
from dochistory._adapter import Adapter, check_dead_letters
from dochistory._message_ids import Ids
from dochistory.brokers import single
from dochistory.once import OnError
from dochistory.receiving import Message, Service, Settled, Settlement

__all__ = ["Message", "Receiver", "header"]

_SLICE = 0.2
_ANSWERS = 30.0
"""How long the broker may take to answer, in seconds."""
_SUBSCRIPTION = "dochistory"
_LOST = (stomp.exception.StompException, OSError)

Frame = Any
"""A frame MESSAGE of stomp.py: `headers` and `body`."""


def header(name: str) -> Callable[[Frame], object]:
    """The id is in a header, which the producer sets: the same after a redelivery and after a resend.

    Args:
        name: the header's name: your own, or `correlation-id`, which is `JMSCorrelationID`.

    Returns:
        callable: for `Receiver(id=…)`.

    Raises:
        ConfigError: [DH-CONFIG] the header is the broker's own, and changes with each redelivery.
    """
    if name in ("message-id", "ack"):
        raise dh.ConfigError(
            f"[DH-CONFIG] the header {name} is the broker's, and another one after each redelivery: with it everything "
            "runs twice; let the producer set a header of its own"
        )

    def of(frame: Frame) -> object:
        return frame.headers.get(name)

    return of


class Receiver(Adapter):
    """Receives the messages of a destination, processes each once, and acknowledges it.

    Messages are acknowledged one by one (`client-individual`). STOMP cannot hand a single message
    back: one that must come again is kept here. NACK is never sent: Artemis deletes the message.

    Args:
        history: the directory of the history, or the URL of its bucket.
        trigger: whose messages they are; used as `serial`, unless `in_batch` is set.
        destination: the queue's name as the broker has it: `orders` for Artemis, `/queue/orders`
            for ActiveMQ Classic.
        service: a plain function, called with each `Message` that is NEW.
        id: called with the frame; answers the message's id: `header(name)`, or your own. There is
            no default: the broker's `message-id` changes with each redelivery.
        brokers: hosts and ports, which are tried in order.
        login: user and password.
        prefetch: the maximum number of messages without an acknowledgement, where the broker counts
            them (ActiveMQ Classic, RabbitMQ).
        window: the same in bytes, where the broker counts those (Artemis).
        headers: further headers of SUBSCRIBE: a `selector`, say.
        dead_letter_destination: where dead letters go. A `jms` trigger, `max_redelivery_count` and
            `on_error=Retry(…)` need one, unless the policy's `then` says otherwise.
        heartbeats: how often the two sides show that they live, in milliseconds: ours, the
            broker's.
        configure: called with each new connection of stomp.py before it connects: for `set_ssl`.
        on_error: what becomes of a message whose service raises.
        claim_ahead: claim as many messages as are likely to be processed in this time, in seconds
            or as a duration ("1 s").
        **settings: further settings of `Consumer`; for a bucket `storage_options`, `cache`.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense.
    """

    def __init__(
        self,
        history: str | os.PathLike[str],
        trigger: dh.Trigger,
        destination: str,
        service: Service,
        *,
        id: Callable[[Frame], object],  # noqa: A002 - what everybody calls it
        brokers: Sequence[tuple[str, int]] = (("localhost", 61613),),
        login: tuple[str, str] | None = None,
        prefetch: int = 500,
        window: int = 1 << 20,
        headers: Mapping[str, str] | None = None,
        dead_letter_destination: str | None = None,
        heartbeats: tuple[int, int] = (10_000, 10_000),
        configure: Callable[[Any], object] = lambda _: None,
        on_error: OnError = "in_doubt",
        claim_ahead: float | str | timedelta = 0.05,
        **settings: Any,
    ) -> None:
        check_dead_letters(dead_letter_destination, "dead_letter_destination", on_error, trigger)
        _checks.count("prefetch", prefetch)
        ours, theirs = _milliseconds(heartbeats)
        super().__init__(
            history, trigger, service, on_error=on_error, claim_ahead=claim_ahead, most=prefetch, settings=settings
        )
        self.destination = destination
        self.connections = 0
        """How often it was connected."""
        self._ids = Ids(id, lambda frame: str(frame.headers.get("message-id")))
        self._brokers = [*brokers]
        self._login = login or (None, None)
        self._dead_letters = dead_letter_destination
        self._heartbeats = ours, theirs
        self._configure = configure
        self._headers = {
            "consumer-window-size": str(window),
            "activemq.prefetchSize": str(prefetch),
            "prefetch-count": str(prefetch),
            **(headers or {}),
        }
        self._link: _Link | None = None
        self._lock = threading.Lock()
        self._to_settle: list[tuple[Message, Settlement]] = []

    @property
    def is_connected(self) -> bool:
        """Whether it is connected now."""
        return self._link is not None

    def _receive(self) -> None:
        self._connect()  # what fails the first time is a mistake, rather than an outage
        self._receive_over(_LOST, f"destination {self.destination!r}")

    def _connect(self) -> None:
        link = _Link(self._brokers, self._heartbeats, self._configure)
        try:
            link.connect(*self._login)
            link.ask(link.client.subscribe, self.destination, _SUBSCRIPTION, "client-individual", headers=self._headers)
        except BaseException:
            link.close()
            raise
        self.connections += 1
        self._link = link

    def _turn(self) -> None:
        """Hand over what came, and tell the broker what was settled."""
        link = self._link
        if link is None:
            self._worker.stopping.wait(_SLICE)
            return
        link.wait(_SLICE)
        arrived = [self._message_of(link, frame) for frame in link.take()]
        if arrived:
            self._worker.put(arrived)
        self._flush(link)

    def _message_of(self, link: "_Link", frame: Frame) -> Message:
        found, damage = self._ids.of(frame)
        tag = (link, frame.headers["ack"])
        return Message(found, frame.body, single.stomp(frame.headers), frame, tag, damage)

    def _settle(self, settled: Settled) -> None:
        again = []
        with self._lock:
            for message, how in settled:
                if how is not Settlement.RETURN:
                    self._to_settle.append((message, how))
                elif self._is_current(message) and not self.is_stopping:
                    message.redelivery_count = max(message.redelivery_count, 0) + 1
                    again.append(message)
        if again:
            self._worker.put_back(again)
        link = self._link
        if link is not None:
            link.wake()

    def _flush(self, link: "_Link") -> None:
        with self._lock:
            settled, self._to_settle = self._to_settle, []
        for message, how in settled:
            if message.tag[0] is not link:
                continue  # that connection was lost, and these come again
            if how is Settlement.ACKNOWLEDGE:
                link.send(link.client.ack, message.tag[1])
            else:
                self._send_dead_letter(link, message)

    def _send_dead_letter(self, link: "_Link", message: Message) -> None:
        """In one transaction with its acknowledgement: it is in one of the two places, and never in both."""
        kept = {name: value for name, value in message.raw.headers.items() if name not in _BROKERS_OWN}
        transaction = link.send(link.client.begin)
        headers = {**kept, "persistent": "true", "transaction": transaction}
        link.send(link.client.send, self._dead_letters, message.body, headers=headers)
        link.send(link.client.ack, message.tag[1], transaction=transaction)
        link.ask(link.client.commit, transaction)

    def _is_current(self, message: Message) -> bool:
        return message.tag[0] is self._link

    def _lost(self) -> None:
        """The connection is gone: the broker delivers again what was not acknowledged."""
        link, self._link = self._link, None
        self._worker.drop(lambda message: not self._is_current(message))
        if link is not None:
            link.close()

    def _keep_alive(self) -> None:
        time.sleep(0.02)
        if self._link is not None:
            try:
                self._flush(self._link)
            except _LOST:
                self._lost()

    def _leave(self, left: Sequence[Message]) -> None:
        del left  # all that is not acknowledged goes back
        if self._link is not None:
            with contextlib.suppress(*_LOST):
                self._flush(self._link)
                self._link.disconnect()
        self._lost()


_BROKERS_OWN = frozenset(
    {
        *("subscription", "message-id", "ack", "destination", "destination-type", "content-length", "redelivered"),
        *("receipt", "timestamp", "expires", "JMSXDeliveryCount", "_AMQ_DUPL_ID"),
    }
)
"""Headers of a message that a dead letter does not take with it."""


def _milliseconds(heartbeats: Any) -> tuple[int, int]:
    """The two heartbeats, checked."""
    try:
        ours, theirs = (int(each) for each in heartbeats if int(each) == each >= 0)
    except (TypeError, ValueError):
        raise dh.ConfigError(
            f"[DH-CONFIG] heartbeats is {heartbeats!r}; allowed are two whole numbers of milliseconds"
        ) from None
    return ours, theirs


class _Link(stomp.ConnectionListener):  # type: ignore[misc]
    """One connection. stomp.py's threads read and send heartbeats; one thread uses it."""

    def __init__(
        self, brokers: Sequence[tuple[str, int]], heartbeats: tuple[int, int], configure: Callable[[Any], object]
    ) -> None:
        # Bodies are bytes; this side tries again by itself.
        self.client = stomp.Connection12(
            brokers, heartbeats=heartbeats, auto_decode=False, reconnect_attempts_max=1, timeout=_ANSWERS
        )
        configure(self.client)
        self.client.set_listener("dochistory", self)
        self._condition = threading.Condition()
        self._frames: list[Frame] = []
        self._receipts: set[str] = set()
        self._is_connected = self._is_woken = False
        self._failure: str | None = None

    def connect(self, user: str | None, password: str | None) -> None:
        """Connect, and wait for the broker's answer."""
        self.client.connect(user, password)
        own = self.client.transport.socket
        if own is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            # Else a write into a network that drops everything waits for a quarter of an hour.
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_ANSWERS * 1000))
        self._await(lambda: self._is_connected, "CONNECT")

    def send(self, send: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Send a frame.

        Raises:
            StompException: the connection is lost.
        """
        try:
            return send(*arguments, **named)
        except AttributeError as error:
            # The thread that reads takes the socket away as soon as the connection is lost, also amid a frame.
            if self.client.transport.socket is not None:
                raise
            raise stomp.exception.StompException("the connection is lost") from error

    def ask(self, send: Callable[..., object], *arguments: Any, headers: Mapping[str, str] | None = None) -> None:
        """Send a frame, and wait until the broker says that it is done."""
        receipt = uuid.uuid4().hex
        self.send(send, *arguments, headers={**(headers or {}), "receipt": receipt})
        self._await(lambda: receipt in self._receipts, "a frame")
        self._receipts.discard(receipt)

    def disconnect(self) -> None:
        """Disconnect, and wait until the broker has read everything."""
        self.send(self.client.disconnect)
        with contextlib.suppress(stomp.exception.StompException):
            self._await(lambda: False, "DISCONNECT")  # until the connection ends

    def _await(self, holds: Callable[[], bool], what: str) -> None:
        with self._condition:
            if not self._condition.wait_for(lambda: holds() or self._failure, _ANSWERS):
                self._failure = f"the broker did not answer {what} within {_ANSWERS:.0f} s"
            if not holds():
                raise stomp.exception.StompException(self._failure)

    def wait(self, seconds: float) -> None:
        """Wait until there is something to do; raises if the connection is lost."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_woken or self._frames or self._failure, seconds)
            self._is_woken = False
            if self._failure is not None:
                raise stomp.exception.StompException(self._failure)

    def wake(self) -> None:
        """End a wait."""
        with self._condition:
            self._is_woken = True
            self._condition.notify_all()

    def take(self) -> list[Frame]:
        """The messages that came."""
        with self._condition:
            frames, self._frames = self._frames, []
        return frames

    def close(self) -> None:
        """End it, in any state."""
        with contextlib.suppress(Exception):
            self.client.transport.disconnect_socket()

    def on_connected(self, _frame: Frame) -> None:
        """stomp.py calls this."""
        with self._condition:
            self._is_connected = True
            self._condition.notify_all()

    def on_message(self, frame: Frame) -> None:
        """stomp.py calls this."""
        with self._condition:
            self._frames.append(frame)
            if len(self._frames) == 1:
                self._condition.notify_all()

    def on_receipt(self, frame: Frame) -> None:
        """stomp.py calls this."""
        with self._condition:
            self._receipts.add(frame.headers["receipt-id"])
            self._condition.notify_all()

    def on_error(self, frame: Frame) -> None:
        """stomp.py calls this: after an error the broker closes the connection."""
        body = frame.body.decode("utf-8", "replace") if isinstance(frame.body, bytes) else str(frame.body)
        self._fail(f"the broker says: {frame.headers.get('message', '')} {body}".strip())

    def on_disconnected(self) -> None:
        """stomp.py calls this."""
        self._fail("the connection ended")

    def on_heartbeat_timeout(self) -> None:
        """stomp.py calls this."""
        self._fail("no heartbeat came")

    def _fail(self, why: str) -> None:
        with self._condition:
            self._failure = self._failure or why
            self._condition.notify_all()
