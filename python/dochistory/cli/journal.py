"""`dochistory journal`: records of a journal that was written to files."""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from dochistory.cli import show
from dochistory.cli.context import Add, Context, needs, positive, since, trigger_option
from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.names import known, near
from dochistory.cli.parser import OF_A_HISTORY
from dochistory.cli.rules import check_rule
from dochistory.journal import reading

_JOURNAL = ("time", "trigger", "status", "rule", "count", "key", "message")


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "journal",
        journal,
        "show records of a journal that was written to files",
        examples=[
            "dochistory journal /var/log/orders --status IN_DOUBT --since 2026-11-22",
            "dochistory journal /var/log/orders --since 90m --rule R11",
            "dochistory journal /var/log/orders --follow",
        ],
        without=OF_A_HISTORY,
    )
    command.add_argument("path", metavar="PATH", help="a directory of Parquet files, or a file")
    trigger_option(command)
    command.add_argument("--status", choices=["DUPLICATE", "IN_DOUBT"], help="only those; both, if absent")
    command.add_argument("--rule", metavar="RULE", help="by this rule: R11; R10 means R10>S3, too")
    command.add_argument("--key", metavar="KEY", help="of this document")
    command.add_argument(
        "--since", type=since, metavar="TIME", help="written then or later: 2026-11-21, or 90m ago: 90m"
    )
    command.add_argument("--limit", type=positive, metavar="N", help="the newest N at most (50; all with --json)")
    command.add_argument("--follow", "-f", action="store_true", help="wait for more, and show them as they come")
    command.add_argument("--all", action="store_true", help="with --follow: first show what is there already")


def journal(context: Context) -> Exit:
    """Show records of a journal."""
    options = context.options
    needs(options, "--all", "--follow")
    wanted = reading.Filter(options.trigger, options.status, options.rule, options.key, options.since)
    if options.follow:
        return _followed(context, wanted)
    if not Path(options.path).exists():
        raise CommandError(f"{options.path}: no such journal: name a directory of Parquet files, or a file")
    limit = options.limit
    if limit is None and not context.json:
        limit = show.MOST
    found: list[pa.Table] = []
    total = 0
    for records in reading.read(options.path, wanted):
        total += records.num_rows
        found.append(records)
        # Only the newest are shown; records that are certainly older are dropped.
        while limit is not None and sum(one.num_rows for one in found[1:]) >= limit:
            found.pop(0)
    if not total:
        _check_names(options.path, wanted)
    table = pa.concat_tables(found) if found else None
    if table is not None and limit is not None:
        table = table.slice(max(table.num_rows - limit, 0))
    if context.json:
        rows = [] if table is None else table.to_pylist()
        print(show.as_json({"total": total, "records": rows}))
        return Exit.DONE
    rows = [] if table is None else table.to_pylist()
    nothing = f"the journal holds no {'' if wanted == reading.Filter() else 'such '}record"
    show.listing(_JOURNAL, [[row[name] for name in _JOURNAL] for row in rows], nothing)
    if total > len(rows):
        print(f"the newest {len(rows):,} of {total:,}; --limit shows more")
    return Exit.DONE


def _check_names(path: str, wanted: reading.Filter) -> None:
    """Refuse a trigger that no record of the journal is about, and a rule that there is not."""
    if wanted.trigger is not None:
        there = _there(path, "trigger")
        if wanted.trigger not in there:
            raise CommandError(
                f"the journal {path} has no record of trigger {wanted.trigger!r}; it has those of {known(there)}"
                f"{near(wanted.trigger, there)}"
            )
    if wanted.rule is not None:
        check_rule(wanted.rule, _there(path, "rule"))


def _there(path: str, column: str) -> set[str]:
    """The values of a column of the journal."""
    there: set[str] = set()
    for records in reading.read(path):
        there.update(records[column].unique().to_pylist())
    return there


def _followed(context: Context, wanted: reading.Filter) -> Exit:
    """Follow the journal until an interrupt, or until the requested number of records is shown."""
    left = context.options.limit
    for records in reading.follow(context.options.path, wanted, from_end=not context.options.all):
        records = records if left is None else records.slice(0, left)
        if context.json:
            sys.stdout.write(reading.as_json_lines(records))
        else:
            for row in records.to_pylist():
                print("  ".join(show.cell(row[name]) for name in _JOURNAL))
        sys.stdout.flush()
        if left is not None:
            left -= records.num_rows
            if left <= 0:
                break
    return Exit.DONE
