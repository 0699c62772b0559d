"""Many coroutines, one call: requests that wait together are served together, so that they share one sync.

A thread of its own serves them in rounds: what comes meanwhile is the next round. No event loop
waits for it. Threads need none of this, because the engine combines their syncs.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Request(Generic[T]):
    """What one coroutine wants: set `error`, or whatever the subject has."""

    __slots__ = ("error", "future", "subject")

    def __init__(self, subject: T) -> None:
        self.subject = subject
        self.error: BaseException | None = None
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Combiner(Generic[T]):
    """Serves requests in rounds.

    Args:
        serve: called with the requests of a round, by one thread at a time; sets `error` of those
            that failed. It returns the requests that must wait for the next round.
        most: the maximum number of requests of a round.
    """

    def __init__(self, serve: Callable[[list[Request[T]]], Sequence[Request[T]]], most: int = 4_096) -> None:
        self._serve = serve
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[Request[T]] = deque()
        self._is_serving = False
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, subject: T) -> None:
        """Have a request served; returns when it is done, or raises what went wrong."""
        request = Request(subject)
        with self._lock:
            self._waiting.append(request)
            is_first = not self._is_serving
            self._is_serving = True
        if is_first:
            self._start_round()
        await request.future
        if request.error is not None:
            raise request.error

    def _start_round(self) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="dochistory")
        self._executor.submit(self._serve_round)

    def _serve_round(self) -> None:
        with self._lock:
            some = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._most))]
        later: Sequence[Request[T]] = ()
        try:
            later = self._serve(some)
        except BaseException as error:  # noqa: BLE001 - it is raised by each caller
            for request in some:
                request.error = error
        with self._lock:
            self._waiting.extendleft(reversed(later))
            self._is_serving = bool(self._waiting)
            is_awaited = self._is_serving
        if is_awaited:
            self._start_round()
        kept = {id(request) for request in later}
        _wake([request for request in some if id(request) not in kept])

    def close(self) -> None:
        """End the thread, once it has served those that wait."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)


def _wake(done: Sequence[Request[T]]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for request in done:
        loops.setdefault(request.future.get_loop(), []).append(request.future)
    for loop, futures in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_finish, futures)


def _finish(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
