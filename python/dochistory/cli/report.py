"""The command `report`: one HTML page about a history."""

from pathlib import Path
from typing import Any

from dochistory import report as pages
from dochistory.cli import show
from dochistory.cli.context import Add, Context, positive, trigger_option
from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.names import counted
from dochistory.cli.outputs import add_output, check_output, draft


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "report",
        report,
        "write one HTML page about a history",
        "Verdicts over time, by trigger and rule; documents in doubt with their ages; partitions and sizes; what a "
        "purge would free. The page needs no network.",
        examples=[
            "dochistory report --output report.html",
            "dochistory report --journal /var/log/orders --output report.html --force",
        ],
    )
    trigger_option(command)
    add_output(command, "report.html, if absent; - prints", "report.html")
    command.add_argument(
        "--journal", metavar="PATH", help="the journal: a directory of Parquet, or a file of JSON lines"
    ).complete = "file"  # type: ignore[attr-defined]
    command.add_argument(
        "--doubts", type=positive, default=200, metavar="N", help="documents in doubt to list, for each trigger (200)"
    )


def report(context: Context) -> Exit:
    """Write one HTML page about a history."""
    options = context.options
    check_output(options)
    with context.open(read_only=True) as history:
        if options.trigger:
            context.named(history)
        with show.progress("reading entries", quiet=context.json) as progress:
            found = pages.gather(
                history, journal=options.journal, trigger=options.trigger, doubts=options.doubts, progress=progress
            )
    try:
        page = pages.html(found)
    except ImportError as error:
        raise CommandError(str(error)) from error
    if options.output == "-":
        print(page, end="")
        return Exit.DONE
    path = Path(options.output)
    with draft(path, force=options.force) as made:
        made.write_text(page, encoding="utf-8")
    entries = sum(trigger.entries for trigger in found.triggers)
    damaged = found.overview.damaged
    for name, why in damaged.items():
        context.warn(f"{name}: not in the report: {why}")
    if context.json:
        print(show.as_json({"file": path, "triggers": len(found.triggers), "entries": entries, "damaged": damaged}))
    else:
        print(f"{path}: {counted(len(found.triggers), 'trigger')}, {counted(entries, 'entry')}")
    return Exit.DONE
