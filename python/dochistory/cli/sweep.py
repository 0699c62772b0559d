"""`dochistory sweep`: purge repeatedly, until it is interrupted."""

import datetime as dt
import itertools
import signal
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory.cli import show
from dochistory.cli.context import Add, Context, duration, positive
from dochistory.cli.failures import Exit
from dochistory.cli.names import counted


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "sweep",
        sweep,
        "purge from time to time, until it is interrupted",
        "The first purge is at once. For cron there is `purge`. Warns of a time to live that is shorter than a service "
        "ran.",
        examples=["dochistory sweep", "dochistory sweep --every 1h --retry-window '7 days'"],
    )
    command.add_argument("--every", type=duration, default="10 minutes", metavar="TIME", help="how often (10 minutes)")
    command.add_argument("--retry-window", type=duration, metavar="TIME", help="for how long the broker delivers again")
    command.add_argument("--runs", type=positive, metavar="N", help="end after N purges")


def sweep(context: Context) -> Exit:
    """Purge repeatedly, until it is interrupted."""
    options = context.options
    known = list(context.settings.triggers.values()) if context.settings else []
    # What is wrong with the history is better said now than in ten minutes.
    opened = context.open(read_only=isinstance(context.place, Path))
    if isinstance(context.place, Path):
        opened.close()
    runs = itertools.count(1)

    def tell(purged: dict[str, Any]) -> None:
        entries = sum(one["entries"] for one in purged.values())
        if context.json:
            told = {"time": dt.datetime.now(dt.UTC), "triggers": purged, "skipped": sweeper.skipped}
            print(show.as_json(told), flush=True)
        elif entries:
            print(f"{show.cell(dt.datetime.now(dt.UTC))}: purged {counted(entries, 'entry')}", flush=True)
        if next(runs) == options.runs:
            sweeper.stop_running()

    swept = context.place if isinstance(context.place, Path) else opened
    sweeper = dh.Sweeper(swept, known, every=options.every, retry_window=options.retry_window, on_sweep=tell)
    previous = signal.signal(signal.SIGTERM, lambda *_: sweeper.stop_running())
    try:
        sweeper.run()
    finally:
        signal.signal(signal.SIGTERM, previous)
        opened.close()
    # Without --runs it only ends because somebody ends it.
    return Exit.FOUND if options.runs and sweeper.skipped else Exit.DONE
