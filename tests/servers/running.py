"""A server that a test starts, stops, kills and starts again with the same data."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

_STARTS = 120
_PAUSE = 0.2


class Running:
    """The process of a server, with a directory of its own.

    Args:
        name: its name, for errors.
        home: its directory.
    """

    def __init__(self, name: str, home: Path) -> None:
        self._name = name
        self._out = home / "out"
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self, command: Sequence[str], answers: Callable[[], bool], environment: Mapping[str, str] = os.environ
    ) -> None:
        """Start it, and wait until it answers.

        Raises:
            RuntimeError: it does not; with the end of what it said.
        """
        with self._out.open("ab") as out:
            self._process = subprocess.Popen(
                command, env=environment, cwd=self._home, stdout=out, stderr=out, start_new_session=True
            )
        end = time.monotonic() + _STARTS
        while not answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self._name} does not start:\n{self._out.read_text()[-3000:]}")
            time.sleep(_PAUSE)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop it: orderly, or with SIGKILL."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, how)
            self._process.wait(60)
            self._process = None


class Server(Protocol):
    """What a test does with a server."""

    def start(self) -> None:
        """Start it."""

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop it."""


S = TypeVar("S", bound=Server)


@contextmanager
def started(name: str, make: Callable[[Path], S]) -> Iterator[S]:
    """A server in a new directory, which is gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix=f"dochistory-{name}-"))
    try:
        one = make(home)
        try:
            one.start()
            yield one
        finally:
            one.stop(signal.SIGKILL)
    finally:
        shutil.rmtree(home, ignore_errors=True)
