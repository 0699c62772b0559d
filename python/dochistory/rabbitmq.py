"""RabbitMQ: receives a queue's messages, each processed once. Needs pika (`pip install dochistory[rabbitmq]`).

```python
from dochistory import rabbitmq

def ship(message):
    print(message.id, message.body)

rabbitmq.Receiver("orders.history", trigger, "orders", ship, url="amqp://localhost").run()
```

`docs/rabbitmq.md` says which id, which acknowledgement, and what happens on failure.
"""

import contextlib
import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pika
import pika.exceptions
from pika.adapters.utils.connection_workflow import AMQPConnectorException

import dochistory as dh
from dochistory import _amqp
from dochistory._adapter import Adapter, most_held
from dochistory._message_ids import Ids
from dochistory.brokers import single
from dochistory.once import OnError
from dochistory.receiving import Message, Service, Settled, Settlement

__all__ = ["Message", "Receiver", "message_id"]

_SLICE = 0.2
_LOST = (pika.exceptions.AMQPError, AMQPConnectorException, OSError)
"""What pika raises where the connection is lost; the second one if a new one is not answered in time."""
Delivered = tuple[Any, Any, bytes]
"""A delivery: pika's method, properties and body."""


def message_id(delivered: Delivered) -> str | None:
    """The property `message_id`: the same after a redelivery, and after a resend by a producer that keeps it.

    Args:
        delivered: pika's method, properties and body.

    Returns:
        str: the property; None if the producer set none.
    """
    found: str | None = delivered[1].message_id
    return found


class Receiver(Adapter):
    """Receives the messages of a queue, processes each once, and acknowledges it.

    Args:
        history: the directory of the history, or the URL of its bucket.
        trigger: whose messages they are; used as `serial`, unless `in_batch` is set.
        queue: the queue's name; it must exist.
        service: a plain function, called with each `Message` that is NEW.
        url: where the broker is: an AMQP URL, or `pika.ConnectionParameters`.
        prefetch: the maximum number of deliveries without an acknowledgement. If absent, 500; 10
            where the trigger limits the count: what goes back at a stop counts as a delivery.
        id: called with (method, properties, body); answers the message's id. The property
            `message_id`, if absent.
        on_error: what becomes of a message whose service raises: `in_doubt`, `release` or
            `dochistory.once.Retry`; a dead letter is rejected, so the queue needs a dead-letter
            exchange.
        claim_ahead: claim as many messages as are likely to be processed in this time, in seconds
            or as a duration ("1 s").
        **settings: further settings of `Consumer`: `suspension`, `audit`, `sinks`, …; for a bucket
            `storage_options`, `cache`.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense.
    """

    def __init__(
        self,
        history: str | os.PathLike[str],
        trigger: dh.Trigger,
        queue: str,
        service: Service,
        *,
        url: "str | pika.ConnectionParameters" = "amqp://localhost",
        prefetch: int | None = None,
        id: Callable[[Delivered], object] = message_id,  # noqa: A002 - what everybody calls it
        on_error: OnError = "in_doubt",
        claim_ahead: float | str | timedelta = 0.05,
        **settings: Any,
    ) -> None:
        _amqp.check(url, 1 if prefetch is None else prefetch)
        held = most_held("prefetch", prefetch, trigger, 500)
        super().__init__(
            history,
            trigger,
            service,
            on_error=on_error,
            claim_ahead=claim_ahead,
            most=held,
            settings=settings,
        )
        self.queue = queue
        self.connections = 0
        """How often it was connected."""
        self._parameters = _parameters_of(url) if isinstance(url, str) else url
        self._prefetch = held
        self._ids = Ids(id, lambda delivered: f"{queue}/{delivered[0].delivery_tag}")
        self._connection: Any = None
        self._channel: Any = None
        self._epoch = 0
        self._arrived: list[Message] = []
        self._unsettled: deque[int] = deque()
        self._lock = threading.Lock()
        self._to_settle: list[tuple[Message, Settlement]] = []

    def _receive(self) -> None:
        try:
            self._connect()  # what fails the first time is a mistake, rather than an outage
        except pika.exceptions.AMQPConnectionError as error:
            if str(error):
                raise
            raise pika.exceptions.AMQPConnectionError(f"queue {self.queue!r}: {self._parameters}: {error!r}") from error
        self._receive_over(_LOST, f"queue {self.queue!r}")
        self._cancel()

    def _connect(self) -> None:
        self._connection = pika.BlockingConnection(self._parameters)
        try:
            self._consume()
        except BaseException:
            self._close()
            raise

    def _consume(self) -> None:
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=self._prefetch)
        self._channel.add_on_cancel_callback(self._cancelled)
        self._channel.basic_consume(self.queue, self._arrives)
        self.connections += 1

    def _cancelled(self, _frame: Any) -> None:
        # The queue was deleted, or its node went: the next attempt to consume says which.
        self._channel.close()

    def _arrives(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        found, damage = self._ids.of((method, properties, body))
        count = single.rabbitmq(method.redelivered, properties.headers)
        tag = (self._epoch, method.delivery_tag)
        self._unsettled.append(method.delivery_tag)
        self._arrived.append(Message(found, body, count, (method, properties), tag, damage))

    def _turn(self) -> None:
        """Input and output for a moment."""
        self._connection.process_data_events(time_limit=_SLICE)
        if not self._channel.is_open:
            # pika raises that only where the channel is used, which an idle receiver does not.
            raise pika.exceptions.ChannelWrongStateError("the broker ended the consumer, or closed the channel")
        if self._arrived:
            arrived, self._arrived = self._arrived, []
            self._worker.put(arrived)
        self._flush()

    def _settle(self, settled: Settled) -> None:
        with self._lock:
            is_first = not self._to_settle
            self._to_settle.extend(settled)
        connection = self._connection
        if is_first and connection is not None:
            # Ends the wait of `_turn`. If the connection is lost, all of these come again.
            with contextlib.suppress(pika.exceptions.ConnectionWrongStateError):
                connection.add_callback_threadsafe(lambda: None)

    def _flush(self) -> None:
        with self._lock:
            settled, self._to_settle = self._to_settle, []
        # Those of a connection that was lost were delivered again.
        tags = [(message.tag[1], how) for message, how in settled if message.tag[0] == self._epoch]
        acknowledged = {tag for tag, how in tags if how is Settlement.ACKNOWLEDGE}
        returned = {tag for tag, how in tags if how is Settlement.RETURN}
        # Acknowledgements first: a quorum queue may drop what comes behind many others when the channel closes.
        self._tell(acknowledged, self._channel.basic_ack)
        self._tell(returned, functools.partial(self._channel.basic_nack, requeue=True))
        for tag, how in tags:
            if how is Settlement.DEAD_LETTER:
                self._unsettled.remove(tag)
                self._channel.basic_reject(tag, requeue=False)

    def _tell(self, tags: set[int], tell: Callable[..., object]) -> None:
        """Settle deliveries: the oldest ones with one frame, others one by one."""
        last = None
        while self._unsettled and self._unsettled[0] in tags:
            last = self._unsettled.popleft()
            tags.remove(last)
        if last is not None:
            tell(last, multiple=True)
        for tag in sorted(tags):
            self._unsettled.remove(tag)
            tell(tag)

    def _is_current(self, message: Message) -> bool:
        return bool(message.tag[0] == self._epoch)

    def _lost(self) -> None:
        """The connection is gone: the broker delivers again what was not acknowledged."""
        self._epoch += 1
        self._arrived, self._unsettled = [], deque()
        self._worker.drop(lambda message: not self._is_current(message))
        self._close()

    def _cancel(self) -> None:
        if self._channel is None or not self._channel.is_open:
            # It was told to stop while it reconnected.
            self._lost()
            return
        try:
            for tag in [*self._channel.consumer_tags]:
                self._channel.basic_cancel(tag)
        except _LOST:
            self._lost()

    def _keep_alive(self) -> None:
        if self._connection is None:
            time.sleep(_SLICE)  # the event that it is to stop is set, and ends no wait
            return
        try:
            self._connection.process_data_events(time_limit=_SLICE)
            self._flush()
        except _LOST:
            self._lost()

    def _leave(self, left: Sequence[Message]) -> None:
        del left  # all that is not settled goes back
        try:
            if self._connection is not None:
                self._flush()
                self._tell(set(self._unsettled), functools.partial(self._channel.basic_nack, requeue=True))
        except _LOST:
            self._lost()
        self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with contextlib.suppress(*_LOST):
            connection.close()


def _parameters_of(url: str) -> pika.URLParameters:
    try:
        return pika.URLParameters(url)
    except ValueError as error:
        raise dh.ConfigError(f"[DH-CONFIG] url is not an AMQP URL: {error}") from error
