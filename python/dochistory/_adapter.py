"""The life of an adapter: it runs until it is stopped, or SIGTERM comes, or something fails."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any

import dochistory as dh
from dochistory import _checks
from dochistory._message_ids import NoneNamed
from dochistory.consumer import Consumer
from dochistory.once import OnError, Retry
from dochistory.receiving import LOGGER, Message, Service, Settled, Settlement, Worker, serial

_BACKOFF = (0.2, 10.0)
"""The first and the longest wait before the next attempt to connect, in seconds."""


RUNS_ONCE = "[DH-STATE] this receiver has run: make another one to receive again"

_FEW = 10
"""How many messages a receiver holds where the trigger limits the count."""


class Adapter:
    """What the adapters share: a consumer, a worker, and when they end.

    Args:
        history: the directory of the history, or the URL of its bucket.
        trigger: whose messages they are. It is used as `serial`, unless its `in_batch` says what a
            copy in one batch is: a receiver runs one message after the other.
        service: called with each message that is NEW; what it raises is handled by `on_error`.
        on_error: what becomes of a message whose service raises; see `dochistory.once`.
        claim_ahead: claim as many messages as are likely to be processed in this time, in seconds
            or as a duration ("1 s"): a process that is killed leaves those in doubt.
        most: the maximum number of messages that are claimed together.
        settings: further settings of the `Consumer`.
        in_order: run nothing that came later before a message that comes again.
    """

    def __init__(
        self,
        history: Any,
        trigger: dh.Trigger,
        service: Service,
        *,
        on_error: OnError,
        claim_ahead: float | str | timedelta,
        most: int,
        settings: dict[str, Any],
        in_order: bool = False,
    ) -> None:
        _checks.trigger(trigger)
        # One damaged message is in doubt, also where it comes alone; the worker notices that all are.
        self.consumer = Consumer(history, serial(trigger).replace(without_ids="in_doubt"), **settings)
        self._worker = Worker(
            self.consumer,
            service,
            self._settle,
            is_current=self._is_current,
            on_error=on_error,
            claim_ahead=claim_ahead,
            most=most,
            in_order=in_order,
            none_named=NoneNamed(trigger),
        )
        self._has_run = False

    def stop(self) -> None:
        """End: the present message is completed, what was not begun goes back to the broker. Does not wait."""
        self._worker.stop()

    def run(self) -> None:
        """Receive until `stop` is called, or SIGTERM or SIGINT comes, or something fails.

        Raises:
            StateError: [DH-STATE] it has run before: a receiver runs once.
            DocHistoryError: as `Consumer.begin`, but for suspensions, which are waited for.
        """
        if self._has_run:
            raise dh.StateError(RUNS_ONCE)
        self._has_run = True
        with _signals(self.stop), self.consumer:
            self._worker.start()
            try:
                self._receive()
            finally:
                self._worker.stop()
                failure = self._outlast()
                self._leave(self._worker.left())
        for error in (self._worker.failure, failure):
            if error is not None:
                raise error

    @property
    def is_stopping(self) -> bool:
        """Whether it is to end."""
        return self._worker.stopping.is_set()

    def _outlast(self) -> Exception | None:
        """Keep what is held until the present service has ended, whatever the broker says; answers the first error."""
        failure = None
        while self._worker.is_running:
            try:
                self._keep_alive()
            except Exception as error:  # noqa: BLE001 - raised once the service has ended
                failure = failure or error
                time.sleep(_BACKOFF[0])
        return failure

    def _receive(self) -> None:
        """Receive until `is_stopping`."""
        raise NotImplementedError

    def _keep_alive(self) -> None:
        """Input and output for a moment, without receiving more."""
        raise NotImplementedError

    def _leave(self, left: Sequence[Message]) -> None:
        """Return what was never begun, and disconnect."""
        raise NotImplementedError

    def _settle(self, settled: Settled) -> None:
        """Settle deliveries; called by any thread."""
        raise NotImplementedError

    def _is_current(self, message: Message) -> bool:
        """Whether the delivery can still be settled."""
        raise NotImplementedError

    def _connect(self) -> None:
        """Connect; for `_receive_over`."""
        raise NotImplementedError

    def _turn(self) -> None:
        """Input and output for a moment; for `_receive_over`."""
        raise NotImplementedError

    def _lost(self) -> None:
        """The connection is gone; for `_receive_over`."""
        raise NotImplementedError

    def _receive_over(self, errors: tuple[type[Exception], ...], where: str) -> None:
        """Receive over a connection until `is_stopping`, and over another one whenever it is lost.

        Args:
            errors: what says that it is lost.
            where: from where, for the log.
        """
        while not self.is_stopping:
            try:
                self._turn()
            except errors as error:
                log = logging.getLogger(LOGGER)
                log.warning("%s: the connection is lost: %s: %s", where, type(error).__name__, error)
                self._lost()
                self._reconnecting(self._connect, errors, where)

    def _reconnecting(self, attempt: Callable[[], None], errors: tuple[type[Exception], ...], where: str) -> None:
        """Call `attempt` until it returns or the adapter stops; after a failure wait, and longer each time."""
        wait = _BACKOFF[0]
        while not self.is_stopping:
            try:
                attempt()
            except errors as error:
                log = logging.getLogger(LOGGER)
                log.warning("%s: %s: %s; the next attempt in %.1f s", where, type(error).__name__, error, wait)
                self._worker.stopping.wait(wait)
                wait = min(wait * 2, _BACKOFF[1])
            else:
                return


def check_dead_letters(place: str | None, name: str, on_error: OnError, trigger: dh.Trigger | None = None) -> None:
    """Dead letters must have a place to go to.

    Args:
        place: where they go.
        name: the argument that says so.
        on_error: the policy, which may lead to some.
        trigger: one that may reject messages by their count, where the broker has a count.

    Raises:
        ConfigError: [DH-CONFIG] they have none; or `trigger` is not a trigger.
    """
    if trigger is not None:
        _checks.trigger(trigger)
    rejects = trigger is not None and (trigger.kind == "jms" or trigger.max_redelivery_count is not None)
    gives_up = isinstance(on_error, Retry) and on_error.then == "dead_letter"
    if place is None and (rejects or gives_up):
        why = "on_error" if gives_up else "max_redelivery_count or a jms trigger"
        raise dh.ConfigError(f"[DH-CONFIG] {why} leads to dead letters: name a {name}, or set then= of the policy")


def most_held(name: str, given: int | None, trigger: dh.Trigger, otherwise: int) -> int:
    """How many messages a receiver holds.

    Whatever it holds when it stops goes back, and counts as a delivery. So there are few, unless
    the user says more, where the trigger limits the count: messages that never ran would be
    rejected.

    Args:
        name: the argument.
        given: its value; None if the user leaves the choice to us.
        trigger: whose messages they are.
        otherwise: how many where nothing is limited.

    Raises:
        ConfigError: [DH-CONFIG] it is not a whole number from 1 on, or `trigger` is not a trigger.
    """
    _checks.trigger(trigger)
    _checks.count(name, given, optional=True)
    if given is not None:
        return given
    return _FEW if trigger.kind == "jms" or trigger.max_redelivery_count is not None else otherwise


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Stop at SIGTERM and SIGINT, where this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        # Not here: what was interrupted may hold the lock that `stop` takes.
        threading.Thread(target=stop, name="dochistory-stop", daemon=True).start()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


__all__ = ["Adapter", "Message", "Settlement", "check_dead_letters"]
