"""A receiver in a thread of the test's process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar


class Receiver(Protocol):
    """What all receivers have."""

    def run(self) -> None:
        """Receive until it is stopped."""

    def stop(self) -> None:
        """Let `run` return."""


R = TypeVar("R", bound=Receiver)


@contextmanager
def running(one: R) -> Iterator[R]:
    """Runs it; at the end it is stopped, and what it raised is raised."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            one.run()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield one
    except BaseException as error:
        error.add_note(f"The receiver {'runs on' if thread.is_alive() else f'has ended: {failed!r}'}.")
        raise
    finally:
        one.stop()
        thread.join(30)
    assert not thread.is_alive(), "the receiver does not stop"
    for raised in failed:
        raise raised
