"""RabbitMQ for asyncio: many messages side by side, each processed once. Needs aio-pika.

```python
import asyncio
from dochistory import aio_rabbitmq

async def ship_order(message):
    print(message.id, message.body)

asyncio.run(aio_rabbitmq.Receiver("orders.history", trigger, "orders", ship_order, url="amqp://localhost").run())
```

As `dochistory.rabbitmq`, but each message is a task of its own. Messages that are begun or
completed at the same moment share one sync, and no call blocks the event loop. `docs/rabbitmq.md`
says which id, which acknowledgement, and what happens on failure.
"""

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import aio_pika
import aio_pika.exceptions

import dochistory as dh
from dochistory import _amqp, _services, receiving
from dochistory._adapter import RUNS_ONCE
from dochistory._endings import Endings
from dochistory._message_ids import Ids, NoneNamed
from dochistory.brokers import single
from dochistory.consumer import Consumer
from dochistory.once import Document, OnError, Retry, on_error_of
from dochistory.receiving import LOGGER, Message, Settlement

__all__ = ["Message", "Receiver", "message_id"]

_BACKOFF = (0.2, 10.0)
"""The first and the longest wait before the next attempt to connect, in seconds."""
_PAUSES = (0.05, 5.0)
"""The first and the longest pause before a message is returned, in seconds: it comes again at once."""
_REFUSED = (0.2, 10.0)
"""The first and the longest pause after a message could not be begun, in seconds."""
_UNREAD = 3
"""After this number of connections in a row that a message broke before any arrived, it is no accident."""
_LOST = (aio_pika.exceptions.AMQPError, RuntimeError, OSError)
"""What aio-pika raises where the connection is lost: a plain RuntimeError if it is found closed."""

Service = Callable[[Message], Awaitable[object]]
"""What processes a message."""


def message_id(incoming: Any) -> str | None:
    """The property `message_id`: the same after a redelivery, and after a resend by a producer that keeps it.

    Args:
        incoming: a message of aio-pika.

    Returns:
        str: the property; None if the producer set none.
    """
    found: str | None = incoming.message_id
    return found


class _Stopped(Exception):  # noqa: N818 - no failure of ours
    """The receiver is to end, and a service that failed is not tried again."""

    def __str__(self) -> str:
        return f"{_short(self.args[0])}; the receiver ends"


class _Unbegun(Exception):  # noqa: N818 - it is tried again
    """A message could not be begun, for a reason that passes."""


class _Unsettled(Exception):  # noqa: N818 - it comes again
    """The broker could not be told how a message ended."""


class Receiver:
    """Receives the messages of a queue, processes each once in a task of its own, and acknowledges it.

    Args:
        history: the directory of the history, or the URL of its bucket.
        trigger: whose messages they are.
        queue: the queue's name; it must exist.
        service: called with each `Message` that is NEW, and awaited.
        url: where the broker is: an AMQP URL.
        prefetch: the maximum number of messages in work. A process that is killed leaves those in
            doubt.
        id: called with aio-pika's message; answers the message's id. The property `message_id`, if
            absent.
        on_error: what becomes of a message whose service raises: `in_doubt`, `release` or
            `dochistory.once.Retry`; a dead letter is rejected, so the queue needs a dead-letter
            exchange.
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
        url: str = "amqp://localhost",
        prefetch: int = 100,
        id: Callable[[Any], object] = message_id,  # noqa: A002 - what everybody calls it
        on_error: OnError = "in_doubt",
        **settings: Any,
    ) -> None:
        _amqp.check(url, prefetch)
        _services.is_async(service)  # a plain function may answer an awaitable
        self.consumer = Consumer(history, trigger, **settings)
        self.queue = queue
        self.connections = 0
        """How often it was connected."""
        self._service = service
        self._url = url
        self._prefetch = prefetch
        self._ids = Ids(id, lambda incoming: f"{queue}/{incoming.delivery_tag}")
        self._none_named = NoneNamed(trigger)
        self._on_error = on_error_of(on_error)
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self._stopped = asyncio.Event()
        self._endings = Endings(self.consumer, self._stopping)
        self._resuming = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._arrivals = 0
        self._is_lost = False
        self._why_lost: BaseException | None = None
        self._settling: set[asyncio.Future[None]] = set()
        self._in_work: dict[str, asyncio.Future[None]] = {}
        self._failure: BaseException | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether it is to end."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """End: messages in work are completed, others go back to the queue. For any thread; does not wait."""
        self._stopping.set()
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._stopped.set()
        self._ended.set()

    async def run(self) -> None:
        """Receive until `stop` is called, or SIGTERM or SIGINT comes, or something fails.

        Raises:
            StateError: [DH-STATE] it has run before: a receiver runs once.
            DocHistoryError: as `Consumer.begin`, but for suspensions, which are waited for.
        """
        if self._loop is not None:
            raise dh.StateError(RUNS_ONCE)
        self._loop = asyncio.get_running_loop()
        if self.is_stopping:
            self._stopped.set()
        try:
            with _signals(self._loop, self.stop):
                await self._receive()
        finally:
            await asyncio.to_thread(self.consumer.close)
        if self._failure is not None:
            raise self._failure

    async def _receive(self) -> None:
        wait, unread = _BACKOFF[0], 0
        while not self.is_stopping:
            arrivals, begun, self._why_lost = self._arrivals, time.monotonic(), None
            try:
                connection = await aio_pika.connect(self._url)
                async with connection:
                    await self._receive_from(connection)
            except _LOST as error:
                if self.connections == 0:
                    raise  # what fails the first time is a mistake, rather than an outage
                self._why_lost = error
            if self._arrivals > arrivals or time.monotonic() > begun + _BACKOFF[1]:
                wait, unread = _BACKOFF[0], 0
            elif isinstance(self._why_lost, aio_pika.exceptions.InvalidFrameError):
                unread += 1
                if unread == _UNREAD:
                    raise self._unreadable(self._why_lost) from self._why_lost
            if not self.is_stopping:
                why = "the connection is lost" if self._why_lost is None else _short(self._why_lost)
                _log("queue %r: %s; the next attempt in %.1f s", self.queue, why, wait)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._unended().wait(), wait)
                wait = min(wait * 2, _BACKOFF[1])

    def _unreadable(self, error: BaseException) -> dh.StateError:
        return dh.StateError(
            f"[DH-STATE] queue {self.queue!r}: aio-pika cannot read the next message, and loses the connection "
            f"({error}): a property is not UTF-8, say. dochistory.rabbitmq reads such a message: run its Receiver "
            "once with the same history, or take the message out of the queue"
        )

    async def _receive_from(self, connection: Any) -> None:
        channel = await connection.channel()
        await channel.set_qos(self._prefetch)
        queue = await channel.get_queue(self.queue)
        ended, self._is_lost = self._unended(), False
        for closing in (connection, channel):
            closing.close_callbacks.add(lambda _, why=None: self._lose(why), weak=False)
        # The queue was deleted, or its node went.
        (await channel.get_underlay_channel()).on_consumer_cancel_callbacks.add(lambda *_: ended.set())
        tag = await queue.consume(self._arrives)
        self.connections += 1
        await ended.wait()
        if self.is_stopping and not channel.is_closed:
            await queue.cancel(tag)
        # Also those of a lost connection: what they began must end before it comes again.
        await asyncio.gather(*self._tasks)

    def _lose(self, why: BaseException | None = None) -> None:
        """The connection is gone, and what was to be sent there is never sent."""
        self._is_lost = True
        self._why_lost = self._why_lost or why
        for settling in self._settling:
            settling.cancel()
        self._ended.set()

    def _unended(self) -> asyncio.Event:
        """Set once the present connection is lost, or the receiver is to end."""
        self._ended = asyncio.Event()
        if self.is_stopping:
            self._ended.set()
        return self._ended

    async def _arrives(self, incoming: Any) -> None:
        self._arrivals += 1
        task = asyncio.create_task(self._handle(incoming))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, incoming: Any) -> None:
        try:
            found, damage = self._ids.of(incoming)
            self._none_named.check([found], damage)
            self._none_named.add([found])
            count = single.rabbitmq(bool(incoming.redelivered), incoming.headers)
            message = Message(found, incoming.body, count, incoming, incoming.delivery_tag, damage)
            async with self._alone(found):
                settlement = await self._process(message)
            await self._settle(incoming, settlement)
        except _Unsettled as error:
            _log("%s: not settled, so it comes again: %s", incoming.message_id, error)
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self._failure = self._failure or error
            self.stop()

    async def _settle(self, incoming: Any, settlement: Settlement) -> None:
        """Tell the broker how it ended; a connection that is lost meanwhile is not waited for."""
        if self._is_lost:
            raise _Unsettled("the connection is lost")
        settling = asyncio.ensure_future(_told(incoming, settlement))
        self._settling.add(settling)
        try:
            await settling
        except asyncio.CancelledError:
            if self._is_lost:
                raise _Unsettled("the connection is lost") from None
            raise
        except Exception as error:
            # The client library has no type of its own for all that a broken connection leads to.
            self._lose()
            raise _Unsettled(_short(error)) from error
        finally:
            self._settling.discard(settling)

    @contextlib.asynccontextmanager
    async def _alone(self, key: str | None) -> AsyncIterator[None]:
        """Nothing else of this id is in work: a copy of what is would be in doubt."""
        if key is None:
            yield
            return
        while (other := self._in_work.get(key)) is not None:
            await other
        ended = self._in_work[key] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._in_work[key]
            ended.set_result(None)

    async def _process(self, message: Message) -> Settlement:
        pause, longest = _REFUSED
        while not self.is_stopping and not _is_closed(message.raw):
            try:
                return await self._begin(message)
            except dh.SuspendedError:
                async with self._resuming:  # one thread waits for all
                    await asyncio.to_thread(self.consumer.wait, stop=self._stopping)
            except _Unbegun as error:
                _log("%s: it cannot be begun, and is tried again in %.1f s: %s", message.id, pause, error)
                await self._pause(pause)
                pause = min(pause * 2, longest)
        return Settlement.RETURN

    @contextlib.asynccontextmanager
    async def _one(self, message: Message, **counted: Any) -> AsyncIterator[Document]:
        """The document of a message, begun."""
        async with contextlib.AsyncExitStack() as ending:
            one = self.consumer.one(message.id, payload=message.body, **counted)
            try:
                document = await ending.enter_async_context(one)
            except dh.DocHistoryError as error:
                if self.consumer._passes(error):  # noqa: SLF001 - a consumer's own part
                    raise _Unbegun(error) from error
                raise
            yield document

    async def _begin(self, message: Message) -> Settlement:
        count = message.redelivery_count
        counted: dict[str, Any] = {"redelivery_count": count}
        if self.consumer.trigger.kind == "jms":
            counted = {"delivery_count": single.delivery_count(count)}
        settlement = Settlement.ACKNOWLEDGE
        async with self._one(message, **counted) as document:
            if document.action == "REJECT":
                return Settlement.DEAD_LETTER
            if document.new:
                error = await self._serve(message)
                if error is None:
                    await self._endings.complete_one(document)
                    return settlement
                settlement = self._settlement_after(error)
                if settlement is Settlement.ACKNOWLEDGE:
                    await self._keep(message, error)
                    document.is_over = True  # it stays in progress
                else:
                    _log("%s: the service failed with %s; it is released", message.id, _short(error))
                    await self._endings.release_one(document)
        if settlement is Settlement.RETURN:
            await self._pause(min(_PAUSES[0] * 2.0 ** min(message.redelivery_count, 16), _PAUSES[1]))
        return settlement

    async def _serve(self, message: Message) -> BaseException | None:
        """Run the service as often as the policy says; answers what it raised at last."""
        policy, attempt = self._on_error, 0
        while True:
            attempt += 1
            try:
                called = self._service(message)
                _services.check_awaitable(called)
                _services.check_ended(await called)
            except (Exception, asyncio.CancelledError) as error:  # the policy says what becomes of it
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise  # not by the service
                if isinstance(error, dh.RolledBack) or not isinstance(policy, Retry) or attempt == policy.attempts:
                    return error
                _log("%s: attempt %d failed with %s; it is tried again", message.id, attempt, _short(error))
                await self._pause(policy.wait_after(attempt))
                if self.is_stopping:
                    return _Stopped(error)
            else:
                return None

    async def _pause(self, seconds: float) -> None:
        """Wait, unless the receiver is to end."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)

    def _settlement_after(self, error: BaseException) -> Settlement:
        then = self._on_error.then if isinstance(self._on_error, Retry) else self._on_error
        if isinstance(error, dh.RolledBack | _Stopped) or then == "release":
            return Settlement.RETURN
        return Settlement.DEAD_LETTER if then == "dead_letter" else Settlement.ACKNOWLEDGE

    async def _keep(self, message: Message, error: BaseException) -> None:
        _log("%s: the service failed with %s; it is in doubt", message.id, _short(error))
        if self.consumer.is_audited:
            documents = receiving.table_of([message], self.consumer.trigger.kind)
            await self._endings.keep_failed_async(documents, error)


def _is_closed(incoming: Any) -> bool:
    """Whether the channel that a message came by is closed, which aio-pika also tells by raising."""
    try:
        return bool(incoming.channel.is_closed)
    except aio_pika.exceptions.ChannelInvalidStateError:
        return True


async def _told(incoming: Any, settlement: Settlement) -> None:
    if settlement is Settlement.ACKNOWLEDGE:
        await incoming.ack()
    else:
        await incoming.reject(requeue=settlement is Settlement.RETURN)


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    """Stop at SIGTERM and SIGINT, where this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _log(text: str, *values: object) -> None:
    logging.getLogger(LOGGER).warning(text, *values)
