"""What the command line understands of `stats`, `journal`, `audit`, `suspension` and `sweep`."""

import argparse
from collections.abc import Callable
from typing import Any

from dochistory.audit.states import STATES
from dochistory.cli import around, files, upkeep
from dochistory.cli.context import Context, duration, moment, positive
from dochistory.cli.failures import Exit

Add = Callable[..., argparse.ArgumentParser]
"""Adds a command: commands, name, what runs it, help, more help."""


def others(commands: Any, add: Add) -> None:
    """All but `stats`."""
    for one in (_journal, _audit, _suspension, _sweep):
        one(commands, add)


def _trigger(command: argparse.ArgumentParser, help_: str = "this trigger only; all, if absent") -> None:
    command.add_argument("--trigger", metavar="NAME", help=help_)


def statistics(commands: Any, add: Add) -> None:
    """The command `stats`."""
    command = add(
        commands,
        "stats",
        _statistics,
        "show figures of a history, and exactly-once statistics where they are kept",
        "`documents` lists the newest duplicates and documents in doubt; `clear` forgets the statistics, and no entry.",
    )
    command.add_argument(
        "what", nargs="?", choices=["show", "documents", "clear"], default="show", help="show, if absent"
    )
    _trigger(command)
    command.add_argument("--limit", type=positive, metavar="N", help="N documents at most (50; all with --json)")
    command.add_argument(
        "--prometheus", action="store_true", help="in Prometheus' text format, for a file that it scrapes"
    )


def _statistics(context: Context) -> Exit:
    ways = {"show": upkeep.stats, "documents": around.documents_shown, "clear": around.statistics_clear}
    return ways[context.options.what](context)


def _journal(commands: Any, add: Add) -> None:
    command = add(commands, "journal", around.journal, "show records of a journal that was written to files")
    command.add_argument("path", metavar="PATH", help="a directory of Parquet files, or a file")
    _trigger(command)
    command.add_argument("--status", choices=["DUPLICATE", "IN_DOUBT"], help="only those; both, if absent")
    command.add_argument("--rule", metavar="RULE", help="by this rule: R11; R10 means R10>S3, too")
    command.add_argument("--key", metavar="KEY", help="of this document")
    command.add_argument("--since", type=moment, metavar="TIME", help="written then or later: 2026-11-21T09:30:00Z")
    command.add_argument("--limit", type=positive, metavar="N", help="the newest N at most (50; all with --json)")
    command.add_argument("--follow", "-f", action="store_true", help="wait for more, and show them as they come")
    command.add_argument("--all", action="store_true", help="with --follow: first show what is there already")


def _audit(commands: Any, add: Add) -> None:
    command = commands.add_parser(
        "audit",
        help="list documents in doubt, decide about them, resubmit them",
        description="Documents in doubt are kept whole, until somebody decides.",
        allow_abbrev=False,
    )
    ways = command.add_subparsers(title="commands", dest="way", metavar="COMMAND", required=True)
    listed = add(ways, "list", around.audit_list, "show what is in the audit log")
    _trigger(listed)
    listed.add_argument("--state", choices=STATES, help="only those; all, if absent")
    listed.add_argument("--limit", type=positive, metavar="N", help="the newest N at most (50; all with --json)")
    shown = add(ways, "show", around.audit_show, "show one document, whole")
    shown.add_argument("number", type=positive, metavar="NUMBER", help="its number in the list")
    resolved = add(
        ways,
        "resolve",
        around.audit_resolve,
        "decide about documents",
        "process: to be resubmitted. duplicate: processed after all, and completed in the history.",
    )
    resolved.add_argument("decision", choices=["process", "duplicate"], help="what they are")
    resolved.add_argument("numbers", type=positive, nargs="+", metavar="NUMBER", help="their numbers in the list")
    resolved.add_argument("--by", metavar="NAME", help="who decides; the user, if absent")
    resolved.add_argument("--note", metavar="TEXT", help="why, for the record")
    again = add(
        ways,
        "resubmit",
        around.audit_resubmit,
        "process documents after all, once",
        "Without numbers, all that were resolved as process. They are begun in the history, handed out, completed, and "
        "marked. If the service fails they are cut off, and wait for another decision.",
    )
    again.add_argument("numbers", type=positive, nargs="*", metavar="NUMBER", help="their numbers in the list")
    _trigger(again, "whose documents; may be absent if there is one only")
    again.add_argument("--service", metavar="MODULE:FUNCTION", help="called with a pyarrow table of the documents")
    again.add_argument("--output", "-o", metavar="FILE", help="write them to a new file instead; - is standard output")
    again.add_argument("--format", choices=files.FORMATS, help="format of the output, if its suffix does not say")
    gone = add(ways, "forget", around.audit_forget, "drop documents that are settled, in whole files")
    _trigger(gone)
    gone.add_argument("--older-than", type=duration, required=True, metavar="TIME", help="kept longer ago: '90 days'")
    gone.add_argument("--dry-run", action="store_true", help="only say how many would go")
    gone.add_argument("--now", type=moment, metavar="TIME", help="the time that counts as now")


def _suspension(commands: Any, add: Add) -> None:
    command = add(
        commands,
        "suspension",
        _suspended,
        "show which triggers are suspended on this machine; suspend or resume one",
    )
    command.add_argument(
        "action", nargs="?", choices=["list", "suspend", "resume"], default="list", help="list, if absent"
    )
    _trigger(command, "the trigger to suspend or resume")
    command.add_argument("--reason", metavar="TEXT", default="suspended by hand", help="why, for the others")


def _suspended(context: Context) -> Exit:
    listed = context.options.action == "list"
    return around.suspension_list(context) if listed else around.suspension_change(context)


def _sweep(commands: Any, add: Add) -> None:
    command = add(
        commands,
        "sweep",
        around.sweep,
        "purge from time to time, until it is interrupted",
        "For cron there is `purge`. Warns of a time to live that is shorter than a service ran.",
    )
    command.add_argument("--every", type=duration, default="10 minutes", metavar="TIME", help="how often (10 minutes)")
    command.add_argument("--retry-window", type=duration, metavar="TIME", help="for how long the broker delivers again")
    command.add_argument("--runs", type=positive, metavar="N", help="end after N records")
