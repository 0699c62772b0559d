"""Work that does not have to wait for a store: plans that Spark makes, rows that come."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class _Result(Generic[T]):
    def __init__(self) -> None:
        self.value: T | None = None
        self.error: BaseException | None = None


@contextmanager
def beside(work: Callable[[], T], thread_of: Callable[..., threading.Thread]) -> Iterator[Callable[[], T]]:
    """Do work in a thread beside the `with` block, which is given a function that waits for its result.

    The block is the one that changes something: it runs in the calling thread, which interrupts
    reach. Leaving it waits for the thread, which `thread_of` makes.
    """
    result: _Result[T] = _Result()

    def kept() -> None:
        try:
            result.value = work()
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            result.error = error

    def waited() -> T:
        thread.join()
        if result.error is not None:
            raise result.error
        return result.value  # type: ignore[return-value]

    thread = thread_of(target=kept)
    thread.start()
    try:
        yield waited
    finally:
        thread.join()
