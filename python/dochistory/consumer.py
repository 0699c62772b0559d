"""A consumer: everything that a loop around a broker needs beside `begin`.

```python
with dh.Consumer("orders.history", trigger) as consumer:
    while True:
        consumer.wait()                                  # returns at once unless the trigger is suspended
        claim = consumer.begin(broker.receive())         # verdicts; in doubt: audit log; both: journal and statistics
        process(claim.new)
        claim.complete()
        broker.acknowledge(claim.verdicts)               # column `acknowledge`: all but NO
```

One message at a time, from any number of threads or coroutines:

```python
with consumer.one(message.id, redelivery_count=n, payload=body) as document:
    if document.new:
        process(body)                                    # leaving the block completes
```
"""

import datetime as dt
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import dochistory as dh
from dochistory import _checks, _columns, _ids, journal
from dochistory._forks import PerProcess
from dochistory._one_by_one import OneByOne
from dochistory._place import Place
from dochistory._tally import Tally
from dochistory._unseen import Begun, Unseen
from dochistory.once import Document, Once, OnError, on_error_of
from dochistory.statistics import Statistics
from dochistory.suspension import Suspension

__all__ = ["LOGGER", "Consumer"]

LOGGER = "dochistory.consumer"
"""The logger for batches that the statistics lack, and for documents without an id."""

T = TypeVar("T")

_COPY_IS_GONE = "the local copy of this history was deleted"
"""What the engine says of it. Other failures of that class say that the history is not as it was."""

_JOURNAL = logging.getLogger(journal.LOGGER)
_OTHERS = frozenset({"track_id", "event_id", "jms_message_id", "delivery_count", "guaranteed", "persistent", "now"})
"""What `one` passes on as it is."""


class Consumer:
    """Begins the documents of one trigger, and handles suspension, audit log, journal and statistics.

    All methods may be called by many threads at once. A forked child may use its parent's consumer
    for documents of its own: it opens the history again. It cannot end those that the parent began.

    Args:
        history: the directory of the history, or the URL of its bucket; created if it does not
            exist. It is opened when it is needed, and opened again after a failure of its storage.
        trigger: whose documents they are. `serial` is right where one consumer runs its documents
            one after the other: then a copy in the same batch is DUPLICATE. `concurrent` is right
            where the documents of one batch run side by side.
        storage_options: of a bucket, as in `dochistory.open`.
        cache: of a bucket, as in `dochistory.open`.
        cache_bytes: of a bucket, as in `dochistory.open`.
        suspension: how the trigger is suspended and resumed; `Suspension(history, trigger)`, if
            absent.
        audit: keep documents in doubt in the history's audit log (only messaging triggers have
            one).
        log: write the journal through `logging`.
        sinks: write the journal to these, too.
        statistics: count verdicts in the history's statistics; for a bucket, in those of this
            machine. If a batch cannot be counted, a warning is logged, and no other one until a
            batch is counted again.
        name: the documents' column with their names, for the statistics' list.
        on_error: what `one` and `once` do with a document whose service raises, unless told
            otherwise; see `dochistory.once`.

    Raises:
        ConfigError: [DH-CONFIG] an argument makes no sense.
    """

    def __init__(
        self,
        history: str | os.PathLike[str],
        trigger: dh.Trigger,
        *,
        storage_options: Mapping[str, Any] | None = None,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int | None = None,
        suspension: Suspension | None = None,
        audit: bool = True,
        log: bool = True,
        sinks: Sequence[journal.Sink] = (),
        statistics: bool = True,
        name: str = "document_name",
        on_error: OnError = "in_doubt",
    ) -> None:
        _checks.trigger(trigger)
        self.trigger = trigger
        self._at = Place.of(history, storage_options, cache, cache_bytes)
        self.suspension = suspension or Suspension(history, trigger, storage_options=storage_options, cache=cache)
        self.on_error = on_error_of(on_error)
        self.is_audited = audit and trigger.kind == "messaging"
        self._most = 1_000 if log else 0
        self._log = log
        self._sinks = tuple(sinks)
        self._statistics = Statistics(history) if statistics else None
        self._name = name
        self._locks = PerProcess(threading.Lock)
        self._opened: dh.History | None = None
        self._was_there = False
        self._has_warned = False
        self._counts_fail = False
        self._unseen = Unseen(trigger)
        self._tallies = PerProcess(lambda: Tally(self._write_tally))
        self._one_by_one = OneByOne(self)

    @property
    def path(self) -> Path:
        """The directory of the history. One in a bucket has none: it has a `url`.

        Raises:
            StateError: [DH-STATE] it is in a bucket.
        """
        return self._at.need_directory()

    @property
    def url(self) -> str | None:
        """The URL of a history in a bucket; None for one in a directory."""
        return self._at.name if self._at.directory is None else None

    @property
    def history(self) -> dh.History:
        """The open history.

        Raises:
            OpenError: [DH-OPEN] the history was there before, and is gone.
            StorageError: [DH-IO] the operating system refused.
        """
        opened = self._opened
        if opened is not None and not opened.closed:
            return opened
        with self._locks():
            if self._opened is None or self._opened.closed:
                # A history that is unavailable (on a disk that is not mounted) must not be created again, empty.
                is_known = self._was_there or self.suspension.status is not None
                opened = self._at.open(create=not is_known)
                self._opened, self._was_there = opened, True
            return self._opened

    def begin(
        self,
        documents: Any,
        *,
        columns: Mapping[str, str] | None = None,
        transaction: tuple[str, int] | None = None,
        on_replay: Literal["in_doubt", "resolver", "rerun"] = "in_doubt",
        on_other_rows: Literal["error", "look_up"] = "error",
        threads: int = 1,
        now: dt.datetime | None = None,
    ) -> dh.Claim:
        """Begin a batch: as `History.begin`, and record documents that are not NEW before anybody acknowledges them.

        If some verdicts are SUSPEND, the claim is still valid for the rows before; the next `begin`
        raises.

        Args:
            documents: the documents, in order of arrival: a table, or a list of dicts, whose ids
                may be text, `uuid.UUID`, or bytes (UTF-8).
            columns: as in `History.begin`.
            transaction: as in `History.begin`.
            on_replay: as in `History.begin`.
            on_other_rows: as in `History.begin`.
            threads: as in `History.begin`.
            now: as in `History.begin`.

        Returns:
            dh.Claim: as `History.begin`.

        Raises:
            SuspendedError: [DH-SUSPENDED] the trigger is suspended, or is from now on; nothing was
                begun, so acknowledge nothing.
            DocHistoryError: as in `History.begin`; and what the audit log or a sink raised. Nothing
                is claimed then.
        """
        was_suspended = self._check()
        table = _ids.table_of(documents, columns)
        own = self._unseen.own_time() if now is None and transaction is None else None
        claim = self._ask_to_begin(
            lambda history: history.begin(
                table,
                self.trigger,
                columns=columns,
                transaction=transaction,
                on_replay=on_replay,
                on_other_rows=on_other_rows,
                threads=threads,
                now=own or now,
                audit=self.is_audited,
            ),
            None if own is None else (lambda: table, columns, own),
        )
        counts = claim.counts
        try:
            self._write_down(table, claim.verdicts, counts, columns)
            if was_suspended or any(action == "SUSPEND" for _, action, _, _ in counts):
                self.suspension.note(claim.verdicts)
        except BaseException:
            claim.release()  # nobody has seen it yet
            raise
        return claim

    def one(
        self,
        id: object = None,  # noqa: A002 - what everybody calls it
        *,
        redelivery_count: int | None = None,
        payload: object = None,
        on_error: OnError | None = None,
        **others: Any,
    ) -> Document:
        """One document, as a context manager: entering begins it, leaving completes it.

        ```python
        with consumer.one(message.id, redelivery_count=n, payload=body) as document:
            if document.new:
                process(body)
        ```

        `async with` is the same for coroutines, and blocks no event loop. Documents that are begun
        or completed at the same moment share one sync.

        Args:
            id: its id: text, a `uuid.UUID`, or bytes (UTF-8).
            redelivery_count: 0 first, above 0 again, -1 or None unknown.
            payload: what the audit log keeps with it, if it is in doubt: text, bytes, or what Arrow
                can hold.
            on_error: what becomes of it if the block raises: `in_doubt` (it stays in progress) or
                `release` (it is NEW again: **only** where the block's work was undone); the
                consumer's, if absent. The exception is raised further.
            **others: other arguments of `History.begin_one`: `track_id`, `event_id`,
                `jms_message_id`, `delivery_count`, `guaranteed`, `persistent`.

        Returns:
            Document: its verdict, once it is entered.

        Raises:
            ConfigError: [DH-CONFIG] there is no such argument.
            SchemaError: [DH-SCHEMA] the id is none.
            SuspendedError: [DH-SUSPENDED] on entering: the trigger is suspended; nothing was begun.
            DocHistoryError: on entering: as `begin`.
        """
        asked: dict[str, Any] = {}
        if strange := others.keys() - _OTHERS:
            raise dh.ConfigError(
                f"[DH-CONFIG] one was given {', '.join(sorted(strange))}; allowed besides its id, redelivery_count, "
                f"payload and on_error is {', '.join(sorted(_OTHERS))}"
            )
        if id is not None:
            asked["uuid"] = id if type(id) is str and id.isascii() else _ids.text_of(id)
        if redelivery_count is not None:
            asked["redelivery_count"] = redelivery_count
        if others:  # seldom
            asked |= {
                name: _ids.text_of(value) if name in _ids.ROLES else value
                for name, value in others.items()
                if value is not None
            }
        return Document(self._one_by_one, asked, payload, self.on_error if on_error is None else on_error_of(on_error))

    def once(
        self,
        *,
        key: Callable[..., object],
        redelivery_count: Callable[..., int | None] | None = None,
        payload: Callable[..., object] | None = None,
        on_error: OnError | None = None,
        result: Literal["json"] | None = None,
    ) -> Once:
        """A decorator: the function runs once for each id. `async def` works, too; generators do not.

        ```python
        @consumer.once(key=lambda order: order.id)
        def handle(order): ...
        ```

        Args:
            key: called with the function's arguments; answers the id.
            redelivery_count: the same for the count.
            payload: the same for what the audit log keeps; none, if absent.
            on_error: what becomes of a document whose function raises; the consumer's, if absent.
                See `dochistory.once`.
            result: `json` keeps what the function returns, for the trigger's time to live, and
                returns it for a DUPLICATE, too. All callers get it as JSON holds it, the first one,
                too: a tuple is a list. Without it a DUPLICATE returns None.

        Returns:
            Once: the decorator. The function then raises `InDoubtError` for a document in doubt and
            `RejectedError` for one that was delivered too often. It raises `ResultError` if it ran,
            but its result cannot be kept; the document is completed. A function that returns an
            awaitable or a generator, whose work has not ended, has failed: with `ConfigError`.

        Raises:
            ConfigError: [DH-CONFIG] an argument makes no sense; at the decoration, the function is
                a generator function.
        """
        policy = self.on_error if on_error is None else on_error_of(on_error)
        return Once(self._one_by_one, key, redelivery_count, payload, policy, result)

    def keep_failed(self, documents: Any, error: BaseException, *, columns: Mapping[str, str] | None = None) -> None:
        """Keep documents whose service failed in the audit log, so that they may be acknowledged.

        They stay in progress: nobody knows how far the service came. `resolve` and `resubmit` of
        the audit log decide later.

        Args:
            documents: the documents, as in `begin`.
            error: what their service raised.
            columns: as in `begin`.

        Raises:
            ConfigError: [DH-CONFIG] the trigger has no audit log.
            StorageError: [DH-IO] the operating system refused; acknowledge nothing.
        """
        table = _columns.table_of(_ids.table_of(documents, columns))
        self._one_by_one.keep_failed(table, error, columns)

    def _ask(self, call: Callable[[dh.History], T]) -> T:
        """Call with the open history; again, if another thread closed it meanwhile, or this is another process."""
        opened = self._opened or self.history
        try:
            return call(opened)
        except (dh.StateError, dh.ForkedError):
            if not opened.closed:
                raise
            return call(self.history)

    def _records(self, status: str) -> bool:
        """Whether the journal has a reader for documents of this status."""
        level = logging.INFO if status == "DUPLICATE" else logging.WARNING
        return bool(self._sinks) or (self._log and _JOURNAL.isEnabledFor(level))

    def _check(self) -> bool:
        """Whether the trigger is suspended and may be tried again; raises if it must not."""
        if self.suspension.status is None:
            return False
        self.suspension.check()
        return True

    def _failed(self, error: dh.DocHistoryError) -> None:
        """After a failure of the storage: close the history, and suspend the trigger if it says so."""
        if isinstance(error, dh.FencedError) and self._at.directory is None:
            # The copy of a bucket's history is gone. The next call makes another one.
            self._close_history()
        if not isinstance(error, dh.StorageError | dh.FailedError | dh.OpenError):
            return
        # A handle whose write failed writes no more. One of a bucket finds its state again by itself.
        if not isinstance(error, dh.ObjectStoreError):
            self._close_history()
        if self.suspension.suspends:
            raise self.suspension.failed(error) from error

    def _ask_to_begin(self, call: Callable[[dh.History], T], begun: Begun | None) -> T:
        """As `_ask`, for what begins documents: a failure suspends the trigger, if it says so.

        Args:
            call: begins them.
            begun: what that may have begun if it fails; None, if it is not known by its time.
        """
        is_asked = False
        try:
            self._unseen.release(self._ask)
            is_asked = True
            return self._ask(call)
        except dh.DocHistoryError as error:
            if is_asked and begun is not None:
                self._unseen.note(begun, error)
            self._failed(error)
            raise

    def _passes(self, error: dh.DocHistoryError) -> bool:
        """Whether another attempt may not meet a failure that says nothing about the history.

        Others hold the writer lock, or were first each time; the process has no descriptor left; or
        somebody deleted the copy of a bucket's history, and the next call makes another one.
        """
        if isinstance(error, dh.FencedError):
            return self._at.directory is None and _COPY_IS_GONE in str(error)
        return isinstance(error, dh.LockedError | dh.DescriptorsError)

    def _write_down(
        self, documents: Any, verdicts: Any, counts: Sequence[Any], columns: Mapping[str, str] | None
    ) -> None:
        listed = {status for status, *_ in counts if status in ("DUPLICATE", "IN_DOUBT")}
        is_recorded = bool(listed)
        if is_recorded and any(rule == "R3" for _, _, rule, _ in counts):
            self._warn_of_no_id()
        table = _columns.table_of(documents) if is_recorded else None
        if any(self._records(str(status)) for status in listed):
            journal.write(table, verdicts, self.trigger, columns=columns, most=self._most, sinks=self._sinks)
        if self._statistics is None or not counts:
            return
        with self._counting():
            if is_recorded:
                self._statistics.add(verdicts, self.trigger, documents=table, name=self._name)
            else:
                self._statistics.add_counts(counts, self.trigger)

    def _write_tally(self, counts: Sequence[tuple[str | None, str, str, int]], listed: Sequence[Any]) -> None:
        if self._statistics is None:
            return
        with self._counting():
            self._statistics.add_counts(counts, self.trigger, listed)

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Warn if the statistics cannot be written: their disk may be unavailable, which is no reason to stop."""
        try:
            yield
        except (dh.StorageError, dh.DescriptorsError) as error:
            if not self._counts_fail:
                text = "%s: a batch is missing in the statistics, and so are others until this ends: %s"
                logging.getLogger(LOGGER).warning(text, self.trigger.name, error)
            self._counts_fail = True
        else:
            self._counts_fail = False

    def _warn_of_no_id(self) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        logging.getLogger(LOGGER).warning(
            "%s: a document has no id, so it is in doubt (R3) and is not processed%s; its producer must set one. "
            "Others are counted (rule R3, state no_id) and not warned of again",
            self.trigger.name,
            ": it is kept in the audit log" if self.is_audited else ", and is kept nowhere",
        )

    def wait(self, timeout: str | dt.timedelta | float | None = None, *, stop: threading.Event | None = None) -> bool:
        """Wait until documents may be begun; as `Suspension.wait`.

        Not in a thread that also does a broker's heartbeats: those would stop meanwhile.

        Args:
            timeout: how long at most; without a limit, if absent.
            stop: an event that ends the wait.

        Returns:
            bool: whether documents may be begun now.
        """
        return self.suspension.wait(timeout, stop=stop)

    def close(self) -> None:
        """Close the history, and write what is not yet counted; the next `begin` opens it again."""
        self._tallies().flush()
        self._one_by_one.close()
        self._close_history()

    def _close_history(self) -> None:
        with self._locks():
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Consumer of trigger {self.trigger.name!r} with {self._at.name!r}>"
