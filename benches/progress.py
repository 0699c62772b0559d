"""How far a long build has come, on the terminal."""

import sys
import time
from types import TracebackType
from typing import Self


class Progress:
    """A line that is written anew every second; to a file, one line at the end."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self.started = self.shown = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._show(end="\n")

    def add(self, rows: int) -> None:
        """So many more are done."""
        self.done += rows
        if sys.stderr.isatty() and time.monotonic() - self.shown > 1:
            self.shown = time.monotonic()
            self._show(end="")

    def _show(self, end: str) -> None:
        seconds = max(time.monotonic() - self.started, 1e-9)
        rate = self.done / seconds / 1e6
        line = f"{self.what}: {self.done:,} of {self.total:,} in {seconds:.1f} s ({rate:.2f} M/s)"
        print(f"\r{line}" if sys.stderr.isatty() else line, end=end, file=sys.stderr, flush=True)
