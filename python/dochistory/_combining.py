"""Many callers, one call: requests that wait together are served together, so that they share one sync.

The first caller serves itself at once. Those that come meanwhile wait, and are served in the next
round with all others; the first of them then leads. Coroutines wait for a future, threads for a
lock; neither blocks an event loop.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Request(Generic[T]):
    """What one caller wants: set `error`, or whatever the subject has."""

    __slots__ = ("error", "future", "leads", "lock", "subject")

    def __init__(self, subject: T) -> None:
        self.subject = subject
        self.error: BaseException | None = None
        self.future: asyncio.Future[None] | None = None
        self.lock: threading.Lock | None = None
        self.leads = False


class Combiner(Generic[T]):
    """Serves requests in rounds.

    Args:
        serve: called with the requests of a round, by one thread at a time; sets `error` of those
            that failed. It returns the requests that must wait for the next round.
        alone: the same for a thread that is alone; raises what went wrong.
        most: the maximum number of requests of a round.
    """

    def __init__(
        self,
        serve: Callable[[list[Request[T]]], Sequence[Request[T]]],
        alone: Callable[[T], object],
        most: int = 4_096,
    ) -> None:
        self._serve = serve
        self._alone = alone
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[Request[T]] = deque()
        self._is_led = False
        self._executor: ThreadPoolExecutor | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nobody is being served, as far as one can tell without waiting."""
        return not self._is_led

    def run(self, subject: T) -> None:
        """Serve a caller; returns when it is done, or raises what went wrong."""
        with self._lock:
            is_led, self._is_led = self._is_led, True
            if is_led:
                request = Request(subject)
                request.lock = _locked()
                self._waiting.append(request)
        if not is_led:  # so nobody waits, either
            try:
                self._alone(subject)
            finally:
                with self._lock:
                    self._is_led = is_awaited = bool(self._waiting)
                if is_awaited:
                    self._pass_on(())
            return
        while request.lock is not None:
            # Released by the leader that served it, or to let it lead the next round.
            request.lock.acquire()
            if not request.leads:
                break
            request.leads = False
            self._lead()
        if request.error is not None:
            raise request.error

    async def run_async(self, subject: T) -> None:
        """As `run`, for a coroutine: the event loop goes on meanwhile."""
        request = Request(subject)
        request.future = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append(request)
            is_leader = not self._is_led
            self._is_led = True
        if is_leader:
            self._in_thread()
        await request.future
        if request.error is not None:
            raise request.error

    def _in_thread(self) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="dochistory")
        self._executor.submit(self._lead)

    def _lead(self) -> None:
        """One round; then somebody who waits leads the next one."""
        with self._lock:
            some = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._most))]
        self._serve_round(some)

    def _serve_round(self, some: list[Request[T]]) -> None:
        later: Sequence[Request[T]] = ()
        try:
            later = self._serve(some)
        except BaseException as error:  # noqa: BLE001 - it is raised by each caller
            for request in some:
                request.error = error
        self._pass_on(later)
        if later:
            kept = {id(request) for request in later}
            some = [request for request in some if id(request) not in kept]
        _wake(some)

    def _pass_on(self, later: Sequence[Request[T]]) -> None:
        """Let the first of those that wait lead the next round."""
        with self._lock:
            self._waiting.extendleft(reversed(later))
            successor = self._waiting[0] if self._waiting else None
            self._is_led = successor is not None
        if successor is not None:
            if successor.lock is not None:
                successor.leads = True
                successor.lock.release()
            else:
                self._in_thread()

    def close(self) -> None:
        """End the thread that serves coroutines, once it has served those that wait."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def _wake(done: Sequence[Request[T]]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for request in done:
        if request.lock is not None:
            request.lock.release()
        elif request.future is not None:  # else its own thread has served it
            loops.setdefault(request.future.get_loop(), []).append(request.future)
    for loop, futures in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_finish, futures)


def _finish(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
