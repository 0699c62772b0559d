"""The commands about message id mappers: `mapper lookup`, `mapper pending`, `mapper resolve`, `mapper purge`."""

import datetime as dt
import itertools
import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory._damage import mappers_ever_used, split
from dochistory.cli import show
from dochistory.cli.context import Add, Context, duration, moment
from dochistory.cli.failures import CommandError, Exit, done_but
from dochistory.cli.names import known, near
from dochistory.cli.parser import add_group
from dochistory.cli.streams import standard_input

_FOR_PEOPLE = 50
_COLUMNS = ["found", "mapped_id", "pending", "pending_since", "resolved", "persist_until"]


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    within = add_group(
        commands,
        "mapper",
        "look into the message id mappers, and decide what is pending",
        view="pending",
        examples=[
            "dochistory mapper pending --older-than 15m",
            "dochistory mapper lookup m-17 m-18",
            "dochistory mapper resolve m-17 --as duplicate",
            "dochistory mapper purge --dry-run",
        ],
    )
    shown = add(
        within,
        "pending",
        pending,
        "show the ids whose sending was begun and never ended",
        examples=["dochistory mapper pending --older-than 15m"],
    )
    looked = add(
        within,
        "lookup",
        lookup,
        "show what a mapper knows of some ids",
        examples=["dochistory mapper lookup m-17 m-18"],
    )
    decided = add(
        within,
        "resolve",
        resolve,
        "decide single ids that are pending",
        "The next arrival of such an id is treated so, once. Exit status 1: some of them are not pending.",
        examples=["dochistory mapper resolve m-17 --as duplicate"],
    )
    purged = add(within, "purge", purge, "remove expired mappings", examples=["dochistory mapper purge --dry-run"])
    for command in (looked, decided):
        command.add_argument("id", metavar="ID", nargs="+", help="an id; - reads them from standard input, one a line")
        command.add_argument("--channel", metavar="NAME", help="whose they are; may be absent if there is one only")
    for command in (shown, purged):
        command.add_argument("--channel", metavar="NAME", help="this channel only; all, if absent")
    shown.add_argument("--older-than", type=duration, metavar="TIME", help="only what began longer ago: 15m")
    shown.add_argument("--limit", type=int, metavar="N", help="N at most (50; all with --json)")
    shown.add_argument("--check", action="store_true", help="exit status 1 if there is any: for monitoring")
    decided.add_argument(
        "--as",
        dest="decision",
        required=True,
        choices=["process", "duplicate", "error"],
        help="process: it was not delivered, send it; duplicate: it was; error: take a decision back",
    )
    purged.add_argument("--dry-run", action="store_true", help="only say what would go")
    purged.add_argument(
        "--include-pending", action="store_true", help="pending ids too: they are new when they arrive again"
    )
    purged.add_argument("--now", type=moment, metavar="TIME", help="the time that counts as now: 2026-11-21")
    purged.add_argument(
        "--force", action="store_true", help="even if --now is days ahead of the clock and every mapping goes"
    )


def lookup(context: Context) -> Exit:
    """Show a mapper's entries for some ids."""
    ids = _ids(context)
    with context.open(read_only=True) as history:
        channel = _channel(context, history)
        rows = history.mapper(channel).lookup(ids).to_pylist()
    rows = [{"id": id_, **row} for id_, row in zip(ids, rows, strict=True)]
    if context.json:
        print(show.as_json({"channel": channel, "ids": rows}))
        return Exit.DONE
    show.table("", ["id", *_COLUMNS], [list(row.values()) for row in rows])
    return Exit.DONE


def pending(context: Context) -> Exit:
    """Show the ids whose sending began and never ended."""
    options = context.options
    before = None
    if options.older_than is not None:
        before = pa.scalar(dt.datetime.now(dt.UTC) - options.older_than, pa.timestamp("us", "UTC"))
    limit = options.limit if options.limit is not None else (None if context.json else _FOR_PEOPLE)
    rows: list[dict[str, Any]] = []
    with context.open(read_only=True) as history:
        for channel in _channels(context, history):
            for batch in history.mapper(channel).pending():
                kept = batch if before is None else batch.filter(pc.less(batch["pending_since"], before))
                rows.extend(
                    kept.select(["channel", "id", "pending_since", "resolved", "found", "persist_until"]).to_pylist()
                )
                if limit is not None and len(rows) > limit:
                    break
    more = limit is not None and len(rows) > limit
    rows = rows[:limit]
    if context.json:
        print(show.as_json({"pending": rows, "more": more}))
    else:
        columns = ["channel", "id", "pending since (UTC)", "resolved", "mapped", "kept until (UTC)"]
        nothing = "no id is pending" if before is None else "no id has been pending that long"
        show.listing(columns, [list(row.values()) for row in rows], nothing)
        if more:
            print(f"there are more: --limit shows more than {limit:,}", file=sys.stderr)
    return Exit.FOUND if options.check and rows else Exit.DONE


def resolve(context: Context) -> Exit:
    """Decide single pending ids."""
    options = context.options
    ids = _ids(context)
    with context.open(read_only=False) as history:
        channel = _channel(context, history)
        errors = history.mapper(channel).resolve(ids, options.decision).to_pylist()
    refused = [row for row in errors if row["error"] is not None]
    if context.json:
        print(show.as_json({"channel": channel, "decision": options.decision, "ids": errors}))
    else:
        done = f"{len(errors) - len(refused):,} of {len(errors):,} ids of channel {show.cell(channel)}"
        print(f"{done}: at their next arrival they are treated as {options.decision!r}, once")
        if refused:
            show.table("not done", ["id", "why"], [[row["id"], row["error"]] for row in refused])
    return Exit.FOUND if refused else Exit.DONE


def purge(context: Context) -> Exit:
    """Remove expired mappings."""
    options = context.options
    now = options.now or dt.datetime.now(dt.UTC)
    with context.open(read_only=options.dry_run) as history:
        how = {"include_pending": options.include_pending, "dry_run": options.dry_run, "force": options.force}
        purged, damaged = split(
            _channels(context, history), lambda name: history.mapper(name).purge(now, **how), or_locked=True
        )
    if options.channel:
        done_but(damaged)
    told = {name: str(error) for name, error in damaged.items()}
    if context.json:
        print(show.as_json({"dry_run": options.dry_run, "now": now, "channels": purged, "not_purged": told}))
        return done_but(damaged)
    for name, error in told.items():
        context.warn(f"{name}: not purged: {error}")
    title = "what would go" if options.dry_run else "what went"
    rows = [
        [name, one["entries"], one["log_entries"], one["files"], show.size(one["bytes"])]
        for name, one in purged.items()
    ]
    show.table(title, ["channel", "entries", "in the log", "files", "size of files"], rows)
    return done_but(damaged)


def _ids(context: Context) -> list[str]:
    """The ids of the command line; `-` stands for the lines of the standard input."""
    given: list[str] = context.options.id
    lines = (line.rstrip("\n") for line in standard_input()) if "-" in given else ()
    found = list(itertools.chain((id_ for id_ in given if id_ != "-"), (line for line in lines if line)))
    if not found:
        raise CommandError("no ids given: name them, or pass - and one id a line on standard input")
    return found


def _channels(context: Context, history: dh.History) -> list[str]:
    """The selected channels: the one of the option, or all."""
    there = mappers_ever_used(history)
    named = context.options.channel
    if named is None:
        return sorted(there)
    if named not in there:
        raise CommandError(
            f"the history {context.place} has no mapper of channel {named!r}; it has {known(there)}{near(named, there)}"
        )
    return [named]


def _channel(context: Context, history: dh.History) -> str:
    """The one selected channel."""
    channels = _channels(context, history)
    if len(channels) == 1:
        return channels[0]
    there = f" (there are {known(channels)})" if channels else ""
    raise CommandError(f"no channel given: name it with --channel NAME{there}")
