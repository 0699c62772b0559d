"""The commands that read documents and entries: `classify`, `entries`, `export`."""

import argparse
import datetime as dt
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory.cli import files, show
from dochistory.cli.context import Add, Context, create_option, duration, moment, needs, positive, trigger_option
from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.names import counted
from dochistory.cli.outputs import add_output, check_output

_IDS = ("uuid", "track_id", "event_id", "jms_message_id")
_FOR_PEOPLE = 50


def add_to(commands: Any, add: Add) -> None:
    """Add the arguments of `classify`, `entries` and `export`."""
    _add_classify(commands, add)
    shown = add(
        commands,
        "entries",
        entries,
        "show the entries of a history",
        examples=["dochistory entries --status processing --older-than 15m"],
    )
    shown.add_argument("--limit", type=positive, metavar="N", help="N at most (50; all with --json)")
    written = add(
        commands,
        "export",
        export,
        "write the entries of a history to a file",
        "Streams; memory stays small.",
        examples=["dochistory export --output entries.parquet", "dochistory export -o - | jq -r .key"],
    )
    written.add_argument("old_output", metavar="FILE", nargs="?", help=argparse.SUPPRESS)
    add_output(written, "Parquet, Arrow IPC, CSV or JSON lines; - is standard output")
    written.add_argument("--format", choices=files.FORMATS, help="if the suffix does not say (- is jsonl, then)")
    for command in (shown, written):
        trigger_option(command)
        command.add_argument("--status", choices=["processing", "completed"], help="only those; both, if absent")
        command.add_argument(
            "--older-than", type=duration, metavar="TIME", help="only what began longer ago: 15m, '2 hours', PT2H"
        )


def _add_classify(commands: Any, add: Add) -> None:
    command = add(
        commands,
        "classify",
        classify,
        "judge the documents of a file by what the history holds now",
        "Writes nothing to the history. The whole file is one batch: of the same id twice, the first row is judged "
        "first. Without --output, prints how many documents got which verdict.",
        examples=[
            "dochistory classify docs.csv",
            "dochistory classify docs.csv --column uuid=order_id --output judged.parquet",
            "cat docs.csv | dochistory classify - --output - | grep IN_DOUBT",
        ],
    )
    command.add_argument("file", metavar="FILE", help="Parquet, Arrow IPC, CSV or JSON lines; - is standard input")
    trigger_option(command, "whose documents they are; may be absent if there is one only")
    create_option(command)
    add_output(command, "write the documents with their verdicts; - is standard output")
    command.add_argument("--format", choices=files.FORMATS, help="format of the output, if its suffix does not say")
    command.add_argument("--input-format", choices=files.FORMATS, help="format of FILE, if its suffix does not say")
    command.add_argument(
        "--verdicts-only", action="store_true", help="write the verdicts without the documents' columns"
    )
    command.add_argument("--prefix", default="", help="put before the names of the verdict's columns")
    files.binary_option(command)
    command.add_argument(
        "--column", metavar="NAME=COLUMN", action="append", default=[], help="where an id is: --column uuid=order_id"
    )
    command.add_argument("--now", type=moment, metavar="TIME", help="the clock by which entries expire; now, if absent")
    command.add_argument("--threads", type=positive, default=1, metavar="N", help="threads for large files (1)")
    rules = command.add_argument_group(
        "rules of a trigger that no file of settings describes", "It detects duplicates, by the history."
    )
    rules.add_argument("--kind", choices=["messaging", "jms"], help="messaging, if absent")
    rules.add_argument("--processing-mode", choices=["serial", "concurrent"], help="concurrent, if absent")
    rules.add_argument("--in-batch", choices=["duplicate", "in_doubt", "new"], help="what later copies in FILE are")
    rules.add_argument("--expiry", choices=["until_purged", "exact"], help="until_purged, if absent")


def classify(context: Context) -> Exit:
    """Judge the documents of a file by the present history."""
    options = context.options
    for option in ("--format", "--verdicts-only", "--prefix", "--force", "--binary"):
        needs(options, option, "--output")
    check_output(options)
    columns = files.renames(options.column)
    with context.open(read_only=True) as history:
        trigger = context.trigger(history)
        documents = files.read(options.file, options.input_format, [columns.get(name, name) for name in _IDS])
        verdicts = history.classify(
            documents, trigger, columns=columns or None, now=options.now, threads=options.threads
        )
    if options.output:
        shown = verdicts if options.verdicts_only else files.with_columns(documents, verdicts, options.prefix)
        files.write(
            options.output,
            options.format,
            shown.schema,
            shown.to_batches(),
            force=options.force,
            binary=options.binary,
        )
    if options.output != "-":
        _summarise(context, trigger, verdicts)
    return Exit.DONE


def _summarise(context: Context, trigger: dh.Trigger, verdicts: pa.Table) -> None:
    columns = ["status", "action", "acknowledge", "rule"]
    plain = pa.table({name: verdicts[name].cast(pa.string()) for name in columns})
    counts = plain.group_by(columns).aggregate([([], "count_all")]).sort_by([(name, "ascending") for name in columns])
    rows = counts.rename_columns([*columns, "documents"]).to_pylist()
    if context.json:
        print(show.as_json({"trigger": trigger.name, "documents": verdicts.num_rows, "verdicts": rows}))
        return
    title = f"{counted(verdicts.num_rows, 'document')} of trigger {show.cell(trigger.name)}"
    show.table(title, [*columns, "documents"], [list(row.values()) for row in rows])


def entries(context: Context) -> Exit:
    """Show the entries of a history."""
    options = context.options
    limit = options.limit if options.limit is not None else (None if context.json else _FOR_PEOPLE)
    with context.open(read_only=True) as history:
        names = context.named(history)
        found = _entries(history, names, options.status, options.older_than)
        rows, more = _first(found, limit)
    if context.json:
        print(show.as_json({"entries": rows.to_pylist(), "more": more}))
        return Exit.DONE
    shown = [[row["trigger"], row["key"], row["status"], row["started_at"]] for row in rows.to_pylist()]
    is_chosen = options.trigger or options.status or options.older_than
    nothing = f"the history holds no {'such ' if is_chosen else ''}entry"
    show.listing(["trigger", "key", "status", "started at (UTC)"], shown, nothing)
    if more:
        print(f"there are more: --limit shows more than {limit:,}, and dochistory export writes all", file=sys.stderr)
    return Exit.DONE


def export(context: Context) -> Exit:
    """Write the entries of a history to a file."""
    options = context.options
    if options.old_output is not None and options.output is None:
        context.warn("export takes its file behind --output since 0.2.0: export --output FILE")
        options.output = options.old_output
    elif options.old_output is not None:
        raise CommandError(f"two files given, {options.old_output} and {options.output}: pass --output only")
    if options.output is None:
        raise CommandError("no file given: pass --output FILE, or - for standard output")
    check_output(options)
    with context.open(read_only=True) as history:
        names = context.named(history)
        found = _entries(history, names, options.status, options.older_than)
        first = next(found, None)
        batches = [] if first is None else chain([first], found)
        rows = files.write(options.output, options.format, _SCHEMA, batches, force=options.force)
    if options.output == "-":
        return Exit.DONE
    if context.json:
        print(show.as_json({"file": options.output, "entries": rows}))
    else:
        print(f"{counted(rows, 'entry')} in {options.output}")
    return Exit.DONE


_SCHEMA = pa.schema(
    [("trigger", pa.string()), ("key", pa.string()), ("status", pa.string()), ("started_at", pa.timestamp("us", "UTC"))]
)


def _entries(
    history: dh.History, names: list[str], status: str | None, older_than: dt.timedelta | None
) -> Iterator[pa.RecordBatch]:
    before = None if older_than is None else pa.scalar(dt.datetime.now(dt.UTC) - older_than, pa.timestamp("us", "UTC"))
    for name in names:
        for batch in history.entries(name, status=status):  # type: ignore[arg-type]
            kept = batch if before is None else batch.filter(pc.less(batch["started_at"], before))
            if kept.num_rows:
                yield pa.record_batch([kept[field.name].cast(field.type) for field in _SCHEMA], schema=_SCHEMA)


def _first(found: Iterator[pa.RecordBatch], limit: int | None) -> tuple[pa.Table, bool]:
    """The first entries, and whether there are more."""
    kept: list[pa.RecordBatch] = []
    rows = 0
    for batch in found:
        kept.append(batch)
        rows += batch.num_rows
        if limit is not None and rows > limit:
            return pa.Table.from_batches(kept, _SCHEMA).slice(0, limit), True
    return pa.Table.from_batches(kept, _SCHEMA), False
