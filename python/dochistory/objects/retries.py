"""How often, and for how long, a request is tried again."""

import atexit
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

_ending = threading.Event()
# Nobody begins another attempt while Python ends: the engine waits only a few seconds for requests under way.
atexit.register(_ending.set)


@dataclass(frozen=True)
class Retries:
    """Bounds of the attempts at one request."""

    attempts: int = 5
    """Number of attempts in total."""
    first_wait: float = 0.1
    """Longest wait before the second attempt, in seconds; it doubles with each further one."""
    longest_wait: float = 2.0
    deadline: float = 20.0
    """Time in seconds after which no further attempt begins. It is far below the life of a signature, after which
    the store would refuse a request that comes late."""

    def of_client(self) -> dict[str, Any]:
        """These bounds, as obstore takes them."""
        return {
            "max_retries": self.attempts - 1,
            "retry_timeout": timedelta(seconds=self.deadline),
            "backoff": {
                "init_backoff": timedelta(seconds=self.first_wait),
                "max_backoff": timedelta(seconds=self.longest_wait),
                "base": 2,
            },
        }

    def rounds(self) -> Iterator[int]:
        """The numbers of the attempts, with a wait between any two: a random part of a time that doubles."""
        end = time.monotonic() + self.deadline
        for attempt in range(self.attempts):
            yield attempt
            wait = min(self.first_wait * 2**attempt, self.longest_wait) * random.uniform(0.5, 1.0)  # noqa: S311
            if attempt + 1 == self.attempts or time.monotonic() + wait > end:
                return
            if _ending.wait(wait):
                return
