"""Other Python processes that share a history with a test."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PREAMBLE = """
import os, sys, time
import dochistory as dh
from tests.support import documents, fresh_ids, rules, status_of, statuses, trigger
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Runs a script that finds its arguments in `sys.argv` and may use `tests.support`."""
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(script), *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], timeout_seconds: float = 120) -> list[str]:
    """Waits for a script to succeed; returns the lines it printed."""
    printed, complaints = process.communicate(timeout=timeout_seconds)
    assert process.returncode == 0, complaints
    return printed.splitlines()


def run(script: str, *arguments: object) -> list[str]:
    """Runs a script to its end; returns the lines it printed."""
    return finish(start(script, *arguments))


def run_together(script: str, arguments: Sequence[Sequence[object]]) -> list[list[str]]:
    """Starts a script several times, lets all go at once when each is ready, and returns what each printed.

    The script says `ready()` where it is to wait.
    """
    waiting: Any = """
def ready():
    print("ready", flush=True)
    sys.stdin.readline()
"""
    processes = [start(waiting + textwrap.dedent(script), *one) for one in arguments]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", finish(process)
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [finish(process) for process in processes]
