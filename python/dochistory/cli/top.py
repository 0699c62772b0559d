"""`dochistory top`: what waits and what is overdue, live."""

import itertools
import sys
import time
from typing import Any

import dochistory as dh
from dochistory import overview
from dochistory.cli import show
from dochistory.cli.context import Add, Context, duration, positive, trigger_option
from dochistory.cli.failures import Exit
from dochistory.display import span

_COLUMNS = ("trigger", "entries", "unfinished", "audit", "in doubt", "overdue", "suspended")


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "top",
        top,
        "show what is unfinished, waits or is overdue, live",
        "On a terminal the page is redrawn until Ctrl-C; in a pipe it is printed once.",
        examples=["dochistory top", "dochistory top --every 10s", "dochistory top --runs 1"],
    )
    trigger_option(command)
    command.add_argument("--every", type=duration, default="2 s", metavar="TIME", help="how often to look (2 s)")
    command.add_argument("--runs", type=positive, metavar="N", help="end after N looks")
    command.add_argument(
        "--fast", action="store_true", help="do not count unfinished documents, which reads all entries"
    )


def top(context: Context) -> Exit:
    """Look at the history repeatedly."""
    options = context.options
    live = sys.stdout.isatty() and not context.json
    runs = options.runs or (None if live else 1)
    for number in itertools.count(1):
        with context.looked_at() as history:
            if options.trigger:
                context.named(history)
            seen = overview.look(history, trigger=options.trigger, in_progress=not options.fast)
        if live:
            sys.stdout.write("\x1b[H\x1b[2J")
        _print(context, seen)
        sys.stdout.flush()
        if number == runs:
            return Exit.DONE
        time.sleep(options.every.total_seconds())
    raise AssertionError  # the loop has no end of its own


def _print(context: Context, seen: overview.Overview) -> None:
    if context.json:
        triggers = [vars(one) | {"waiting": one.waiting} for one in seen.triggers]
        print(show.as_json(vars(seen) | {"triggers": triggers, "unfinished": seen.unfinished}))
        return
    due = f", next purge {show.cell(seen.next_purge)}" if seen.next_purge else ""
    print(seen.path)
    print(f"{show.cell(seen.at)} UTC, dochistory {dh.__version__}{due}")
    rows = [
        [
            one.name,
            one.entries,
            one.processing,
            one.waiting,
            one.counts["in_doubt"],
            span(one.overdue) if one.overdue else None,
            one.suspended,
        ]
        for one in seen.triggers
    ]
    show.table("", _COLUMNS, rows)
    for sentence in seen.unfinished:
        print(f"- {show.cell(sentence)}")
    if not seen.unfinished:
        print("nothing waits, and nothing is overdue")
