"""Progress of a long job: one line on standard error, redrawn while the job runs.

`history.load(..., progress=True)` uses it, as do `maintain` and `verify`; it can also be passed to
them as `progress`:

```python
with dh.progress.Bar("loading orders", total=50_000_000) as bar:
    history.load(batches, trigger, progress=bar)
```
"""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

__all__ = ["Bar"]

_WIDTH = 24


class Bar:
    """Progress callback `(done, total)`; the total may be unknown.

    On a terminal the line changes in place; in a file there is one line, at the end of the job.
    """

    def __init__(self, label: str, total: int | None = None, file: TextIO | None = None) -> None:
        self.label, self.total, self.done = label, total, 0
        self._file = file or sys.stderr
        self._started = time.monotonic()
        self._is_open = True

    def __call__(self, done: int, total: int | None = None) -> None:
        """Report that `done` of `total` is done."""
        self.done, self.total = done, total or self.total
        if self._file.isatty():
            self._file.write(f"\r{self.text()}\x1b[K")
            self._file.flush()

    def text(self) -> str:
        """The text of the bar.

        Returns:
            str: percentage, bar, number, rate, remaining time.
        """
        seconds = max(time.monotonic() - self._started, 1e-9)
        rate = self.done / seconds
        so_far = f"{self.done:,} in {_duration(seconds)}, {rate:,.0f}/s"
        if not self.total:
            return f"{self.label}: {so_far}"
        share = min(self.done / self.total, 1.0)
        full = int(share * _WIDTH)
        left = f", {_duration((self.total - self.done) / rate)} left" if rate and share < 1 else ""
        return f"{self.label}: {share:4.0%} |{'#' * full}{'-' * (_WIDTH - full)}| {so_far}{left}"

    def close(self) -> None:
        """End the line; repeating this changes nothing."""
        if self._is_open:
            self._is_open = False
            self._file.write(f"\r{self.text()}\x1b[K\n" if self._file.isatty() else f"{self.text()}\n")
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
