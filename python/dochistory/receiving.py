"""What the adapters of brokers share: receive, begin, run the service, complete, acknowledge.

`dochistory.rabbitmq`, `dochistory.kafka`, `dochistory.stomp` and `dochistory.sqs` each map a broker
to this. Three threads work: the adapter's own one does the broker's input and output, and so keeps
its heartbeats or polls alive whatever happens; a second begins messages and runs the service, one
message after the other; a third completes what has ended, and then has it acknowledged.

Messages are claimed in small batches: as many as the service is likely to process within
`claim_ahead` seconds. A process that is killed leaves those in doubt, and no others.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

import pyarrow as pa

import dochistory as dh
from dochistory import _checks, _durations, _services
from dochistory._endings import Endings
from dochistory._message_ids import NoneNamed
from dochistory.brokers import single
from dochistory.consumer import Consumer
from dochistory.once import OnError, Retry, on_error_of

__all__ = ["LOGGER", "Message", "Service", "Settlement", "Worker", "serial"]

LOGGER = "dochistory.receiving"
"""The logger for services that fail, lost connections, and the end."""

_FIRST = 0.0025
"""A first guess of how long a service takes, in seconds."""

_INSTEAD = "give it a plain function, or receive RabbitMQ's messages with dochistory.aio_rabbitmq"

_PAUSES = (0.05, 5.0)
"""The first and the longest pause after a message was returned, in seconds: it comes again at once."""

_REFUSED = (0.2, 10.0)
"""The first and the longest pause after messages could not be begun, in seconds."""


@dataclass(eq=False)
class Message:
    """One message of a broker."""

    id: str | None
    """Its id: what the history remembers."""
    body: bytes
    """Its content."""
    redelivery_count: int
    """0 for the first delivery, above 0 for a further one, -1 if the broker does not say."""
    raw: Any
    """The client library's own object."""
    tag: Any = None
    """By what the broker knows this delivery."""
    damage: Exception | None = None
    """Why it has no id, though one is there or should be."""


class Settlement(Enum):
    """How a delivery is settled with the broker."""

    ACKNOWLEDGE = "acknowledge"
    """It is done with, or kept in the audit log."""
    RETURN = "return"
    """It must come again."""
    DEAD_LETTER = "dead_letter"
    """It belongs where the broker keeps what nobody can process."""


class _End(Enum):
    """How the service of a message ended."""

    ENDED = 0
    RELEASED = 1
    SETTLED = 2


Service = Callable[[Message], object]
"""What processes a message: a plain function, whose work has ended when it returns."""

Settled = Sequence[tuple[Message, Settlement]]


def serial(trigger: dh.Trigger) -> dh.Trigger:
    """The trigger as an adapter uses it: it runs one message after the other, so a copy is DUPLICATE.

    Args:
        trigger: the trigger as it was given.

    Returns:
        Trigger: the same, `serial`; unchanged, if it says what a copy in one batch is.
    """
    return trigger if trigger.in_batch is not None else trigger.replace(processing_mode="serial")


class Worker:
    """Begins messages, runs the service, completes them, and says how each delivery is settled.

    Args:
        consumer: whose messages they are.
        service: processes one message; what it raises is handled by `on_error`.
        settle: called with deliveries to settle, by any thread; it must not block.
        is_current: whether a delivery can still be settled; others have been delivered again.
        on_error: what becomes of a message whose service raises.
        claim_ahead: claim as many messages as are likely to be processed in this time, in seconds
            or as a duration ("1 s").
        most: the maximum number of messages that are claimed together.
        in_order: run nothing that came later before a message that comes again.
        none_named: notices that no message has an id; by the consumer's trigger, if absent.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense: a coroutine function as the service,
            say.
    """

    def __init__(
        self,
        consumer: Consumer,
        service: Service,
        settle: Callable[[Settled], object],
        *,
        is_current: Callable[[Message], bool] = lambda _: True,
        on_error: OnError = "in_doubt",
        claim_ahead: float | str | timedelta = 0.05,
        most: int = 500,
        in_order: bool = False,
        none_named: NoneNamed | None = None,
    ) -> None:
        ahead = _durations.seconds("claim_ahead", claim_ahead)
        if ahead <= 0:
            raise dh.ConfigError(f"[DH-CONFIG] claim_ahead is {claim_ahead!r}; allowed is a duration above 0")
        _checks.count("most", most)
        self.consumer = consumer
        self.failure: BaseException | None = None
        """Why it ended, if it did not by `stop`."""
        self.stopping = threading.Event()
        """Set once it is to end."""
        self._service = _services.plain(service, instead=_INSTEAD)
        self._settle = settle
        self._is_current = is_current
        self._on_error = on_error_of(on_error)
        self._claim_ahead = ahead
        self._most = most
        self._in_order = in_order
        self._none_named = none_named or NoneNamed(consumer.trigger)
        self._takes = _FIRST
        self._pause = _PAUSES[0]
        self._refused = _REFUSED[0]
        self._condition = threading.Condition()
        self._queue: deque[Message] = deque()
        self._endings = Endings(consumer, self.stopping)
        self._ender = _Ender(self._endings, settle, self.fail)
        self._thread = threading.Thread(target=self._run, name="dochistory-service", daemon=True)

    def start(self) -> None:
        """Start both threads."""
        self._ender.thread.start()
        self._thread.start()

    def put(self, messages: Iterable[Message]) -> None:
        """Hand over messages that were received.

        Args:
            messages: the messages, in order of arrival.
        """
        with self._condition:
            self._queue.extend(messages)
            self._condition.notify()

    @property
    def waiting(self) -> int:
        """Number of messages that were handed over and not begun."""
        return len(self._queue)

    def stop(self) -> None:
        """End after the present message; what was claimed and not begun by the service is released. Does not wait."""
        with self._condition:
            self.stopping.set()
            self._condition.notify()

    @property
    def is_running(self) -> bool:
        """Whether its threads run."""
        return self._thread.is_alive() or self._ender.thread.is_alive()

    def left(self) -> list[Message]:
        """What was handed over and never begun; to be asked after the end.

        Returns:
            list of Message: the messages, in order.
        """
        left, self._queue = [*self._queue], deque()
        return left

    def drop(self, is_gone: Callable[[Message], bool]) -> None:
        """Forget messages that were not begun, and that can no longer be settled.

        Args:
            is_gone: whether a message is to be forgotten.
        """
        with self._condition:
            self._queue = deque(message for message in self._queue if not is_gone(message))

    def fail(self, error: BaseException) -> None:
        """End, because of this error.

        Args:
            error: the `failure`, unless there is one already.
        """
        if self.failure is None:
            self.failure = error
        self.stop()

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                if batch := self._take():
                    self._process(batch)
        except BaseException as error:  # noqa: BLE001 - the adapter's own thread raises it
            self.fail(error)
        finally:
            self._ender.end()

    def _take(self) -> list[Message]:
        with self._condition:
            self._condition.wait_for(lambda: self._queue or self.stopping.is_set())
            if self.stopping.is_set():
                return []
            size = max(1, min(self._most, int(self._claim_ahead / self._takes), len(self._queue)))
            taken = [self._queue.popleft() for _ in range(size)]
        current = [*filter(self._is_current, taken)]
        if len(current) < len(taken):
            kept = {id(message) for message in current}
            self._settle([(message, Settlement.RETURN) for message in taken if id(message) not in kept])
        return current

    def put_back(self, messages: Sequence[Message]) -> None:
        """Hand over messages that come before all others.

        Args:
            messages: the messages, in order.
        """
        with self._condition:
            self._queue.extendleft(reversed(messages))

    def _process(self, batch: list[Message]) -> None:
        # A copy of what has just ended would otherwise find it still in progress.
        found = [message.id for message in batch]
        ids = set(found)
        self._ender.wait_for(ids)
        self._none_named.check(found, next((message.damage for message in batch if message.damage), None))
        try:
            claim = self.consumer.begin(table_of(batch, self.consumer.trigger.kind))
        except dh.SuspendedError:
            self.put_back(batch)
            self.consumer.wait(stop=self.stopping)
            return
        except dh.DocHistoryError as error:
            if not self.consumer._passes(error):  # noqa: SLF001 - a consumer's own part
                raise
            _log("%d messages cannot be begun, and are tried again in %.1f s: %s", len(batch), self._refused, error)
            self.put_back(batch)
            self.stopping.wait(self._refused)
            self._refused = min(self._refused * 2, _REFUSED[1])
            return
        self._refused = _REFUSED[0]
        counts = claim.counts
        if len(counts) == 1 and counts[0][1] == "PROCESS":
            actions: Sequence[str] = ["PROCESS"] * len(batch)
        else:
            actions = claim.verdicts["action"].to_pylist()
        held: list[Message] = []
        settled: list[tuple[Message, Settlement]] = []
        new: list[tuple[int, Message]] = []
        for row, (message, action) in enumerate(zip(batch, actions, strict=True)):
            if action == "PROCESS":
                new.append((row, message))
            elif action == "SUSPEND":
                held.append(message)
            else:
                settled.append((message, Settlement.DEAD_LETTER if action == "REJECT" else Settlement.ACKNOWLEDGE))
        self.put_back(held)
        if not held:
            self._none_named.add(found)
        if settled:
            self._settle(settled)
        self._run_services(claim, new)
        self._ender.note(ids)

    def _run_services(self, claim: dh.Claim, new: Sequence[tuple[int, Message]]) -> None:
        start = time.perf_counter()
        is_current, is_stopping, ended = self._is_current, self.stopping.is_set, self._ender.add
        for place, (row, message) in enumerate(new):
            if is_stopping() or not is_current(message):
                rest = new[place:]
                self._endings.release(claim, [row for row, _ in rest])
                self._settle([(message, Settlement.RETURN) for _, message in rest])
                return
            try:
                end = self._run_service(claim, row, message)
            except BaseException:
                # The receiver ends. What it has begun and not run is in no doubt.
                if not_run := [row for row, _ in new[place + 1 :]]:
                    self._endings.release(claim, not_run)
                raise
            if end is _End.ENDED:
                ended(claim, row, message)
                self._pause = _PAUSES[0]
            elif end is _End.RELEASED:
                rest = new[place + 1 :] if self._in_order else []
                if rest:
                    self._endings.release(claim, [row for row, _ in rest])
                self._settle([(one, Settlement.RETURN) for one in [message, *(other for _, other in rest)]])
                self.stopping.wait(self._pause)
                self._pause = min(self._pause * 2, _PAUSES[1])
                if rest:
                    return
        if new:
            took = (time.perf_counter() - start) / len(new)
            self._takes = max((self._takes + took) / 2 if took < self._takes else took, 1e-6)

    def _run_service(self, claim: dh.Claim, row: int, message: Message) -> _End:
        """Run the service of one message, as often as the policy says."""
        policy, attempt = self._on_error, 0
        while True:
            attempt += 1
            try:
                self._service(message)
            except dh.RolledBack as error:
                return self._released(claim, row, message, error)
            except Exception as error:  # noqa: BLE001 - the policy says what becomes of it
                if isinstance(policy, Retry) and attempt < policy.attempts:
                    _log("%s: attempt %d failed with %s; it is tried again", message.id, attempt, _short(error))
                    if not self.stopping.wait(policy.wait_after(attempt)):
                        continue
                    return self._released(claim, row, message, error)
                then = policy.then if isinstance(policy, Retry) else policy
                if then == "release":
                    return self._released(claim, row, message, error)
                if then == "dead_letter":
                    _log("%s: attempt %d failed with %s; it is a dead letter", message.id, attempt, _short(error))
                    # Released first: a process that dies in between has it delivered again, and loses nothing.
                    self._endings.release(claim, [row])
                    self._settle([(message, Settlement.DEAD_LETTER)])
                    return _End.SETTLED
                self._left_in_doubt(message, error)
                return _End.SETTLED
            else:
                return _End.ENDED

    def _released(self, claim: dh.Claim, row: int, message: Message, error: Exception) -> _End:
        _log("%s: the service failed with %s; it is released, and comes again", message.id, _short(error))
        self._endings.release(claim, [row])
        return _End.RELEASED

    def _left_in_doubt(self, message: Message, error: Exception) -> None:
        _log("%s: the service failed with %s; it is in doubt", message.id, _short(error))
        if self.consumer.is_audited:
            self._endings.keep_failed(table_of([message], self.consumer.trigger.kind), error)
        self._settle([(message, Settlement.ACKNOWLEDGE)])


class _Ender:
    """Completes what has ended, all that waits at a time, and then has it acknowledged.

    One thread says what has ended, and waits. It is not held up: a deque needs no lock.
    """

    def __init__(
        self, endings: Endings, settle: Callable[[Settled], object], fail: Callable[[BaseException], None]
    ) -> None:
        self._endings = endings
        self._settle = settle
        self._fail = fail
        self._condition = threading.Condition()
        self._ended: deque[tuple[dh.Claim, int, Message]] = deque()
        self._added = 0
        self._completed = 0
        # The ids of batches that may not be completed yet, each with the number of what ended up to its end.
        self._batches: deque[tuple[int, set[str | None]]] = deque()
        self._is_idle = False
        self._is_over = False
        self.thread = threading.Thread(target=self._run, name="dochistory-complete", daemon=True)

    def add(self, claim: dh.Claim, row: int, message: Message) -> None:
        """A service has ended."""
        self._ended.append((claim, row, message))
        self._added += 1
        # It says that it is idle before it looks for more: it sees this one, or is woken here.
        if self._is_idle:
            with self._condition:
                self._condition.notify_all()

    def note(self, ids: set[str | None]) -> None:
        """The ids of a batch whose services have ended."""
        self._batches.append((self._added, ids))

    def wait_for(self, ids: set[str | None]) -> None:
        """Wait until none of these is still to be completed."""
        while self._batches and self._batches[0][0] <= self._completed:
            self._batches.popleft()
        upto = max((upto for upto, others in self._batches if not others.isdisjoint(ids)), default=0)
        if upto > self._completed:
            with self._condition:
                self._condition.wait_for(lambda: self._is_over or self._completed >= upto)

    def end(self) -> None:
        """End, once all is completed."""
        with self._condition:
            self._is_over = True
            self._condition.notify_all()

    def _run(self) -> None:
        try:
            while True:
                with self._condition:
                    self._is_idle = True
                    self._condition.wait_for(lambda: self._ended or self._is_over)
                    self._is_idle = False
                some = [self._ended.popleft() for _ in range(len(self._ended))]
                if not some:
                    return
                self._complete(some)
                with self._condition:
                    self._completed += len(some)
                    self._condition.notify_all()
        except BaseException as error:  # noqa: BLE001 - the adapter's own thread raises it
            with self._condition:
                self._is_over = True
                self._condition.notify_all()
            self._fail(error)

    def _complete(self, some: Sequence[tuple[dh.Claim, int, Message]]) -> None:
        rows: dict[int, tuple[dh.Claim, list[int]]] = {}
        for claim, row, _ in some:
            rows.setdefault(id(claim), (claim, []))[1].append(row)
        for claim, numbers in rows.values():
            self._endings.complete(claim, numbers)
        self._settle([(message, Settlement.ACKNOWLEDGE) for _, _, message in some])


def table_of(batch: Sequence[Message], kind: str) -> pa.Table:
    """Messages as a batch of documents."""
    counts = [message.redelivery_count for message in batch]
    if kind == "jms":
        counts = [single.delivery_count(count) for count in counts]
    return pa.table(
        {
            "uuid": pa.array([message.id for message in batch], pa.string()),
            "delivery_count" if kind == "jms" else "redelivery_count": pa.array(counts, pa.int64()),
            "body": pa.array([message.body for message in batch], pa.binary()),
        }
    )


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _log(text: str, *values: object) -> None:
    logging.getLogger(LOGGER).warning(text, *values)
