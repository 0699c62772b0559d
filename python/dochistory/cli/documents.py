"""The commands that read documents and entries: `classify`, `entries`, `export`."""

import datetime as dt
import sys
from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory.cli import files, show
from dochistory.cli.context import Context
from dochistory.cli.failures import CommandError, Exit

_IDS = ("uuid", "track_id", "event_id", "jms_message_id")
_FOR_PEOPLE = 50


def classify(context: Context) -> Exit:
    """Judge the documents of a file by the present history."""
    options = context.options
    columns = files.renames(options.column)
    with context.open(read_only=True) as history:
        trigger = context.trigger(history)
        if trigger.name not in history.triggers() and not context.json:
            # It may be a new trigger, or a misspelt name, for which all documents would be new.
            print(f"note: the history has no entries of trigger {show.cell(trigger.name)}", file=sys.stderr)
        documents = files.read(options.file, options.input_format, [columns.get(name, name) for name in _IDS])
        verdicts = history.classify(
            documents, trigger, columns=columns or None, now=options.now, threads=options.threads
        )
    if options.output:
        shown = verdicts if options.verdicts_only else files.with_columns(documents, verdicts, options.prefix)
        files.write(options.output, options.format, shown.schema, shown.to_batches())
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
    title = f"{verdicts.num_rows:,} documents of trigger {show.cell(trigger.name)}"
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
    show.table("", ["trigger", "key", "status", "started at (UTC)"], shown)
    if more:
        print(f"there are more: --limit shows more than {limit:,}, and dochistory export writes all", file=sys.stderr)
    return Exit.DONE


def export(context: Context) -> Exit:
    """Write the entries of a history to a file."""
    options = context.options
    with context.open(read_only=True) as history:
        names = context.named(history)
        found = _entries(history, names, options.status, options.older_than)
        first = next(found, None)
        batches = [] if first is None else chain([first], found)
        rows = files.write(options.file, options.format, _SCHEMA, batches)
    if options.file == "-":
        return Exit.DONE
    if context.json:
        print(show.as_json({"file": options.file, "entries": rows}))
    else:
        print(f"{rows:,} entries in {options.file}")
    return Exit.DONE


_SCHEMA = pa.schema(
    [("trigger", pa.string()), ("key", pa.string()), ("status", pa.string()), ("started_at", pa.timestamp("us", "UTC"))]
)


def _entries(
    history: dh.History, names: list[str], status: str | None, older_than: dt.timedelta | None
) -> Iterator[pa.RecordBatch]:
    before = None if older_than is None else pa.scalar(dt.datetime.now(dt.UTC) - older_than, pa.timestamp("us", "UTC"))
    wanted = None if status is None else ("processing" if status == "processing" else "completed")
    for name in names:
        for batch in history.entries(name, status=wanted):  # type: ignore[arg-type]
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


def check_limit(limit: int | None) -> None:
    """Refuse a number of rows that makes no sense."""
    if limit is not None and limit < 0:
        raise CommandError(f"--limit {limit}: it must be 0 or more")
