"""How receivers write that a service ended. The work is done, so an unavailable history is waited for."""

# ruff: noqa: SLF001 - a consumer's own part

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import dochistory as dh
from dochistory._own_entries import release_own
from dochistory.consumer import Consumer
from dochistory.once import Document

_LOGGER = "dochistory.receiving"
_PAUSES = (0.2, 10.0)
"""The first and the longest wait before the next attempt, in seconds."""


class Endings:
    """Completes, releases and keeps what a consumer began.

    While the history is unavailable, the trigger is suspended, and each of these waits and tries
    again. The handle that began may be closed by then: documents are named by their keys, through a
    new one. Where the trigger does not suspend, and when the receiver is to stop, the failure is
    raised. What passes by itself (others hold the writer lock, the process has no descriptor left,
    the copy of a bucket's history was deleted) is waited for, too, and suspends nothing.

    Args:
        consumer: who began.
        stopping: set once the receiver is to end: what cannot be written then is tried once more.
    """

    def __init__(self, consumer: Consumer, stopping: threading.Event) -> None:
        self._consumer = consumer
        self._stopping = stopping

    def complete(self, claim: dh.Claim, rows: Sequence[int]) -> None:
        """The services of these rows have ended."""
        self._write(
            lambda: claim.complete(rows=rows),
            lambda: self._consumer._ask(lambda history: history.complete(_keys(claim, rows), self._consumer.trigger)),
        )

    def release(self, claim: dh.Claim, rows: Sequence[int]) -> None:
        """The services of these rows were never run, or undone."""
        trigger = self._consumer.trigger

        def by_key(history: dh.History) -> None:
            release_own(history, trigger, _keys(claim, rows).to_pylist(), claim.started_at)

        self._write(lambda: claim.release(rows=rows), lambda: self._consumer._ask(by_key))

    def keep_failed(self, documents: pa.Table, error: BaseException) -> None:
        """As `Consumer.keep_failed`."""

        def keep() -> None:
            self._consumer.keep_failed(documents, error)

        self._write(keep, keep)

    async def complete_one(self, document: Document) -> None:
        """The service of a document has ended."""
        one_by_one = self._consumer._one_by_one
        await self._write_async(
            lambda: one_by_one.complete_async(document),
            lambda: asyncio.to_thread(one_by_one.complete_by_key, document),
        )

    async def release_one(self, document: Document) -> None:
        """The service of a document was undone."""
        by_key = self._consumer._one_by_one.release_by_key
        await self._write_async(
            lambda: asyncio.to_thread(document.release), lambda: asyncio.to_thread(by_key, document)
        )

    async def keep_failed_async(self, documents: pa.Table, error: BaseException) -> None:
        """As `keep_failed`."""

        def keep() -> Awaitable[None]:
            return asyncio.to_thread(self._consumer.keep_failed, documents, error)

        await self._write_async(keep, keep)

    def _write(self, first: Callable[[], Any], again: Callable[[], Any]) -> None:
        for attempt in self._attempts():
            try:
                (first if attempt.is_first else again)()
            except dh.DocHistoryError as error:
                attempt.failed(error)
                self._stopping.wait(attempt.pause)
            else:
                return

    async def _write_async(self, first: Callable[[], Awaitable[Any]], again: Callable[[], Awaitable[Any]]) -> None:
        for attempt in self._attempts():
            try:
                await (first if attempt.is_first else again)()
            except dh.DocHistoryError as error:
                await asyncio.to_thread(attempt.failed, error)
                end = time.monotonic() + attempt.pause
                while time.monotonic() < end and not self._stopping.is_set():
                    await asyncio.sleep(min(attempt.pause, _PAUSES[0]))
            else:
                return

    def _attempts(self) -> Iterator["_Attempt"]:
        pause, longest = _PAUSES
        is_first = True
        while True:
            attempt = _Attempt(self._consumer, is_first, self._stopping.is_set(), pause)
            yield attempt
            is_first, pause = False, min(pause * 2, longest)


@dataclass
class _Attempt:
    """One attempt to write."""

    consumer: Consumer
    is_first: bool
    is_last: bool
    pause: float
    """How long to wait before the next one, in seconds."""

    def failed(self, error: dh.DocHistoryError) -> None:
        """It failed. Returns if there is to be another one; raises the error if not."""
        if self.is_first and isinstance(error, dh.StateError):
            self.pause = 0.0  # the handle that began was closed, after a failure elsewhere
            return
        if self.is_last:
            raise error
        try:
            self.consumer._failed(error)
        except (dh.SuspendedError, dh.DescriptorsError):
            pass  # without a descriptor the suspension cannot be looked at, which passes by itself
        else:
            if not self.consumer._passes(error):
                raise error
        text = "the history cannot be told what has ended, and is told again in %.1f s: %s"
        logging.getLogger(_LOGGER).warning(text, self.pause, error)


def _keys(claim: dh.Claim, rows: Sequence[int]) -> pa.Array:
    keys = claim.verdicts["key"].take(pa.array(rows, pa.int64()))
    return keys.combine_chunks().drop_null() if isinstance(keys, pa.ChunkedArray) else keys.drop_null()
