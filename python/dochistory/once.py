"""One document at a time: `Consumer.one` and `Consumer.once`, and what becomes of a service that raises.

| `on_error` | the document | the danger |
|---|---|---|
| `in_doubt` | stays in progress; the next copy is IN_DOUBT (R11) | it waits for a person or a resolver |
| `release` | is NEW again | what the service had done before it raised, it does twice |
| `Retry(…)` | the service runs again, a limited number of times | the same; and others wait meanwhile |

`in_doubt` is the default, since it is the only one that never does a thing twice. Whatever the
policy, a service that raises `RolledBack` says that its work was undone: its document is released.
"""

import asyncio
import functools
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import dochistory as dh
from dochistory import _durations, _services
from dochistory.errors import DeadLetterError, InDoubtError, RejectedError

if TYPE_CHECKING:
    from dochistory._one_by_one import OneByOne

__all__ = ["Document", "OnError", "Once", "Retry"]

_LOGGER = "dochistory.consumer"


@dataclass(frozen=True)
class Retry:
    """Run a service again that raised, in place, and give up after some attempts.

    The document stays in progress meanwhile, so a process that dies leaves it in doubt. Only for
    services that may do a document twice, or that undo what they did before they raise.

    Args:
        attempts: how often the service runs in all.
        backoff: how long to wait before the second attempt, a duration; each time twice as long,
            and a random share of that between a half and all.
        longest: the longest wait.
        then: what becomes of the document after the last attempt: `dead_letter` (it is released and
            handed to where the broker keeps such messages; `once` raises `DeadLetterError`),
            `in_doubt` or `release`.
    """

    attempts: int = 3
    backoff: str | float = "1 s"
    longest: str | float = "1 minute"
    then: Literal["dead_letter", "in_doubt", "release"] = "dead_letter"

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or self.attempts < 1:
            raise dh.ConfigError(f"[DH-CONFIG] attempts is {self.attempts!r}; allowed is a whole number from 1 on")
        if self.then not in ("dead_letter", "in_doubt", "release"):
            raise dh.ConfigError(f"[DH-CONFIG] then is {self.then!r}; allowed is dead_letter, in_doubt or release")
        self.wait_after(1)

    def wait_after(self, attempt: int) -> float:
        """How long to wait after an attempt.

        Args:
            attempt: its number, from 1.

        Returns:
            float: seconds.
        """
        first, most = _durations.seconds("backoff", self.backoff), _durations.seconds("longest", self.longest)
        wait = min(first * 2.0 ** min(attempt - 1, 64), most)
        return random.uniform(wait / 2, wait)  # noqa: S311 - no secret


OnError = Literal["in_doubt", "release"] | Retry
"""What becomes of a document whose service raises."""


def on_error_of(given: Any) -> OnError:
    """The policy, checked.

    Raises:
        ConfigError: [DH-CONFIG] there is no such policy.
    """
    if isinstance(given, Retry) or given in ("in_doubt", "release"):
        policy: OnError = given
        return policy
    raise dh.ConfigError(f"[DH-CONFIG] on_error is {given!r}; allowed is in_doubt, release or Retry(…)")


class Document:
    """One document and its verdict, as a context manager. `Consumer.one` makes it.

    Leaving the block completes the document; it is durable then. If the block raises, the policy
    decides, and the exception is raised further.
    """

    # Values of the class until the verdict: a document is made for each call.
    claim: Any = None
    row: int | None = None
    is_over = False
    status: str | None = None
    """NEW, DUPLICATE or IN_DOUBT; None if it is rejected."""
    action: str | None = None
    """PROCESS, DISCARD, LOG or REJECT."""
    acknowledge: str | None = None
    """AFTER_SERVICE or NOW."""
    rule: str | None = None
    """The rule that decided."""
    key: str | None = None
    """Its key."""
    message: str | None = None
    """A sentence for the journal."""

    def __init__(self, one_by_one: "OneByOne", asked: dict[str, Any], payload: object, on_error: OnError) -> None:
        self._one_by_one = one_by_one
        self.asked = asked
        self.payload = payload
        self.on_error = on_error

    @property
    def new(self) -> bool:
        """Whether to process it."""
        return self.action == "PROCESS"

    def complete(self) -> None:
        """The service ended. Leaving the block does that by itself."""
        if self.new and not self.is_over:
            self._one_by_one.complete(self)

    def release(self) -> None:
        """The service's work was undone for certain: it is NEW when it comes again."""
        if self.new and not self.is_over:
            self._one_by_one.release(self)

    @property
    def _releases(self) -> bool:
        policy = self.on_error.then if isinstance(self.on_error, Retry) else self.on_error
        return policy != "in_doubt"

    def __enter__(self) -> Self:
        self._one_by_one.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self.action != "PROCESS" or self.is_over:
            return
        if error is None:
            self._one_by_one.complete(self)
        elif isinstance(error, dh.RolledBack) or (isinstance(error, Exception) and self._releases):
            self.release()

    async def __aenter__(self) -> Self:
        await self._one_by_one.begin_async(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if not self.new or self.is_over:
            return
        if error is None:
            await self._one_by_one.complete_async(self)
        elif isinstance(error, dh.RolledBack) or (isinstance(error, Exception) and self._releases):
            await asyncio.to_thread(self.release)

    def __getstate__(self) -> dict[str, Any]:
        # What goes to another process with an error: the verdict, which ends nothing there.
        held = ("_one_by_one", "claim", "payload")
        return {name: value for name, value in self.__dict__.items() if name not in held} | {"is_over": True}

    def __repr__(self) -> str:
        return f"<Document {self.key!r}: {self.status} {self.action} {self.rule}>"


@dataclass(frozen=True)
class Once:
    """A decorator that runs a function once for each id. `Consumer.once` makes it."""

    one_by_one: "OneByOne"
    key: Callable[..., object]
    count: Callable[..., int | None] | None
    payload: Callable[..., object] | None
    on_error: OnError
    result: Literal["json"] | None

    def __post_init__(self) -> None:
        for name in ("key", "count", "payload"):
            given = getattr(self, name)
            if not (callable(given) or (given is None and name != "key")):
                raise dh.ConfigError(f"[DH-CONFIG] {name} is {given!r}; allowed is a function of the arguments")
        if self.result not in (None, "json"):
            raise dh.ConfigError(f'[DH-CONFIG] result is {self.result!r}; allowed is "json" or None')

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function that runs once.

        Raises:
            ConfigError: [DH-CONFIG] it is a generator function, or cannot be called.
        """
        if _services.is_async(function, "the function"):

            @functools.wraps(function)
            async def in_loop(*args: Any, **kwargs: Any) -> Any:
                return await self._run_async(function, args, kwargs)

            return in_loop

        @functools.wraps(function)
        def in_thread(*args: Any, **kwargs: Any) -> Any:
            return self._run(function, args, kwargs)

        return in_thread

    def _document(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Document:
        count = None if self.count is None else self.count(*args, **kwargs)
        payload = None if self.payload is None else self.payload(*args, **kwargs)
        one = self.one_by_one.consumer.one
        return one(self.key(*args, **kwargs), redelivery_count=count, payload=payload, on_error=self.on_error)

    def _run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._document(args, kwargs) as document:
            if not document.new:
                return self._answer(document)
            for attempt in _attempts(self.on_error):
                try:
                    returned = function(*args, **kwargs)
                    _services.check_ended(returned)
                    break
                except Exception as error:  # noqa: BLE001 - raised further, unless it is tried again
                    time.sleep(_wait(self.on_error, attempt, error, document))
            if self.result is not None:
                returned = self.one_by_one.keep_result(document, returned)
        return returned

    async def _run_async(
        self, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        async with self._document(args, kwargs) as document:
            if not document.new:
                return await asyncio.to_thread(self._answer, document) if self.result else self._answer(document)
            for attempt in _attempts(self.on_error):
                try:
                    returned = await function(*args, **kwargs)
                    _services.check_ended(returned)
                    break
                except Exception as error:  # noqa: BLE001 - raised further, unless it is tried again
                    await asyncio.sleep(_wait(self.on_error, attempt, error, document))
            if self.result is not None:
                returned = await asyncio.to_thread(self.one_by_one.keep_result, document, returned)
        return returned

    def _answer(self, document: Document) -> Any:
        """What is returned for a document that does not run now."""
        if document.status == "DUPLICATE":
            return None if self.result is None else self.one_by_one.result_of(document)
        raise refusal(document)


def refusal(document: Document) -> dh.DocHistoryError:
    """The error for a document that must not run, and is no duplicate."""
    if document.status == "IN_DOUBT":
        kept = ", and is kept in the audit log" if document._one_by_one.consumer.is_audited else ""  # noqa: SLF001
        return InDoubtError(
            f"[DH-IN-DOUBT] document {document.key!r} is in doubt ({document.rule}){kept}: {document.message}", document
        )
    return RejectedError(f"[DH-REJECTED] document {document.key!r} was delivered too often ({document.rule})", document)


def _attempts(policy: OnError) -> range:
    return range(1, policy.attempts + 1) if isinstance(policy, Retry) else range(1, 2)


def _wait(policy: OnError, attempt: int, error: Exception, document: Document) -> float:
    """How long to wait before the next attempt; raises after the last one."""
    if isinstance(error, dh.RolledBack) or not isinstance(policy, Retry):
        raise error
    if attempt == policy.attempts:
        if policy.then == "dead_letter":
            raise DeadLetterError(
                f"[DH-DEAD-LETTER] the service of document {document.key!r} failed {attempt} times, at last with "
                f"{type(error).__name__}: {error}; it is released",
                document,
            ) from error
        raise error
    wait = policy.wait_after(attempt)
    text = "%s: attempt %d of %d failed with %s: %s; the next in %.1f s"
    logging.getLogger(_LOGGER).warning(
        text, document.key, attempt, policy.attempts, type(error).__name__, error, wait, stacklevel=3
    )
    return wait
