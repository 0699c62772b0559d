"""A process that works on an audit log in a bucket: `python -m tests.objects.audit_actor WHAT URL OPTIONS STEPS OUT`.

It kills itself at the given request of its client, before or after the store executed it.
"""

import functools
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory.objects import ObjectClient
from tests.support import documents, trigger


class Steps:
    """Counts down, and kills."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self) -> None:
        """Take one step."""
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def counted(step: Steps) -> None:
    """Take a step before and after each request that changes something."""

    def stepping(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*arguments: Any) -> Any:
            step()
            done = function(*arguments)
            step()
            return done

        return run

    for name in ("put_new", "put", "delete"):
        setattr(ObjectClient, name, stepping(getattr(ObjectClient, name)))


def resubmit(history: dh.History, step: Steps, out: Path) -> None:
    """Resubmit documents 1 and 2, whose effects are lines in a file."""
    with history.audit.resubmit(trigger(), [1, 2]) as again:
        step()
        with out.open("a") as effects:
            effects.write("".join(f"{key}\n" for key in again.documents["uuid"].to_pylist()))
        step()


def keep(history: dh.History, _step: Steps, _out: Path) -> None:
    """Keep three documents."""
    table = documents(["a", "b", None])
    history.audit.keep(table, history.classify(table, trigger()), trigger())


def main(what: str, url: str, options: dict[str, str], steps: int, out: Path) -> None:
    """Work, and say so if nothing killed it."""
    step = Steps(steps)
    with dh.open(url, storage_options=options, auto_maintain=False) as history:
        counted(step)
        {"resubmit": resubmit, "keep": keep}[what](history, step, out)
    print("survived")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
