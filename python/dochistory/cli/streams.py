"""The standard streams; the shell that starts the program may have closed one, and Python then has None for it."""

import io
import os
import sys
from pathlib import Path
from typing import TextIO

from dochistory.cli.failures import CommandError, Exit


def prepare() -> None:
    """Make the streams fit for output.

    Raises:
        CommandError: [DH-USAGE] standard output is closed.
    """
    if sys.stderr is None:
        # `print` would take standard output for it.
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the program lives
    if sys.stdout is None:
        # Before anything is done: the first file that a command opens would take the stream's place.
        raise CommandError(
            "standard output is closed, so nothing can be shown: leave it open, or send it to /dev/null",
            Exit.INPUT,
            "DH-USAGE",
        )
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A key that the terminal cannot show must not stop the output.
        sys.stdout.reconfigure(errors="backslashreplace")


def standard_input() -> TextIO:
    """The standard input.

    Raises:
        CommandError: [DH-USAGE] it is closed.
    """
    if sys.stdin is None:
        raise CommandError("standard input is closed, and - reads it: give it a file or a pipe", Exit.INPUT, "DH-USAGE")
    return sys.stdin
