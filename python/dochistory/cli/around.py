"""The commands around the decision: `journal`, `audit`, `suspension`, `sweep`, and the statistics of `stats`."""

import datetime as dt
import getpass
import importlib
import itertools
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import dochistory as dh
from dochistory import _files, suspension
from dochistory.cli import files, show
from dochistory.cli.context import Context
from dochistory.cli.failures import CommandError, Exit
from dochistory.journal import reading
from dochistory.statistics import Statistics

_JOURNAL = ("time", "trigger", "status", "rule", "count", "key", "message")
_MOST = 50


def journal(context: Context) -> Exit:
    """Show records of a journal."""
    options = context.options
    wanted = reading.Filter(options.trigger, options.status, options.rule, options.key, options.since)
    if options.follow:
        return _followed(context, wanted)
    limit = options.limit
    if limit is None and not context.json:
        limit = _MOST
    found: list[pa.Table] = []
    total = 0
    for records in reading.read(options.path, wanted):
        total += records.num_rows
        found.append(records)
        # The newest are wanted; what is surely older may go.
        while limit is not None and sum(one.num_rows for one in found[1:]) >= limit:
            found.pop(0)
    table = pa.concat_tables(found) if found else None
    if table is not None and limit is not None:
        table = table.slice(max(table.num_rows - limit, 0))
    if context.json:
        rows = [] if table is None else table.to_pylist()
        print(show.as_json({"total": total, "records": rows}))
        return Exit.DONE
    rows = [] if table is None else table.to_pylist()
    show.table("", [*_JOURNAL], [[row[name] for name in _JOURNAL] for row in rows])
    if total > len(rows):
        print(f"the newest {len(rows):,} of {total:,}; --limit shows more")
    return Exit.DONE


def _followed(context: Context, wanted: reading.Filter) -> Exit:
    """Until somebody interrupts it, or a number of records was shown."""
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


_AUDIT = ("number", "time", "trigger", "key", "rule", "state", "by", "note")


def audit_list(context: Context) -> Exit:
    """Show what is in the audit log."""
    options = context.options
    with context.open(read_only=True) as history:
        entries = history.audit.list(options.trigger, options.state)
    total = entries.num_rows
    limit = options.limit if options.limit is not None else (None if context.json else _MOST)
    shown = entries if limit is None else entries.slice(max(total - limit, 0))
    if context.json:
        print(show.as_json({"total": total, "documents": shown.to_pylist()}))
        return Exit.DONE
    show.table("", [*_AUDIT], [[row[name] for name in _AUDIT] for row in shown.to_pylist()])
    if total > shown.num_rows:
        print(f"the newest {shown.num_rows:,} of {total:,}; --limit shows more")
    return Exit.DONE


def audit_show(context: Context) -> Exit:
    """Show one document, whole."""
    with context.open(read_only=True) as history:
        found = history.audit.show(context.options.number)
    if context.json:
        print(show.as_json(found))
        return Exit.DONE
    document = found.pop("document")
    show.table("", ["", "value"], [[name, _shown(value)] for name, value in found.items()])
    show.table("the document", ["column", "value"], [[name, _shown(value)] for name, value in document.items()])
    return Exit.DONE


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    return value if isinstance(value, int | dt.datetime | None) else str(value)


def audit_resolve(context: Context) -> Exit:
    """Decide about documents."""
    options = context.options
    with context.open(read_only=False) as history:
        history.audit.resolve(options.numbers, options.decision, by=options.by or getpass.getuser(), note=options.note)
    if context.json:
        print(show.as_json({"numbers": options.numbers, "decision": options.decision}))
    else:
        print(f"{len(options.numbers)} resolved as {options.decision}")
    return Exit.DONE


def audit_resubmit(context: Context) -> Exit:
    """Hand documents to a service, or into a file, and mark them."""
    options = context.options
    service = _service(options.service) if options.service else None
    if (service is None) == (options.output is None):
        raise CommandError("where are the documents to go? give either --service MODULE:FUNCTION or --output FILE")
    given = options.numbers or None
    with context.open(read_only=False) as history:
        trigger = context.described(_trigger_of(context, history, given))
        with history.audit.resubmit(trigger, given) as again:
            count, duplicates = again.documents.num_rows, again.duplicates.num_rows
            if count and service is not None:
                service(again.documents)
            elif count:
                _written(options.output, options.format, again.documents)
    if context.json:
        print(show.as_json({"resubmitted": count, "duplicates": duplicates, "number": again.number}))
    elif options.output != "-":
        print(f"{count} resubmitted, {duplicates} found to be duplicates")
    return Exit.DONE


def _written(output: str, given: str | None, documents: pa.Table) -> None:
    """A file appears whole or not at all; so if it cannot be written, nothing happened to the documents."""
    path = Path(output)
    if output != "-" and path.exists():
        raise _NotWrittenError(f"{output}: this is there already, and may hold documents of an earlier resubmission")
    try:
        files.write(output, given, documents.schema, documents.to_batches())
    except CommandError as error:
        raise _NotWrittenError(error.sentence, error.status, error.code) from error
    if output != "-":
        with _files.storage(path):
            _files.sync(path)
            _files.sync(path.parent)


class _NotWrittenError(CommandError, dh.RolledBack):
    pass


def _trigger_of(context: Context, history: dh.History, numbers: list[int] | None) -> str:
    if context.options.trigger:
        name: str = context.options.trigger
        return name
    if numbers:
        first: str = history.audit.show(numbers[0])["trigger"]
        return first
    waiting = history.audit.list(state="process")["trigger"].unique().to_pylist()
    if len(waiting) == 1:
        return str(waiting[0])
    if not waiting:
        raise CommandError("nothing was resolved as to be processed: name documents by their numbers, or resolve some")
    raise CommandError(f"documents of which trigger? name it with --trigger NAME (there are {', '.join(waiting)})")


def _service(spelt: str) -> Callable[[pa.Table], object]:
    module, _, name = spelt.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # the module is the user's, and may raise anything
        raise CommandError(f"the service {spelt!r} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise CommandError(f"the service {spelt!r} is no function")
    made: Callable[[pa.Table], object] = found
    return made


def audit_forget(context: Context) -> Exit:
    """Drop what is settled."""
    options = context.options
    before = (options.now or dt.datetime.now(dt.UTC)) - options.older_than
    with context.open(read_only=options.dry_run) as history:
        count = history.audit.forget(before, options.trigger, dry_run=options.dry_run)
    if context.json:
        print(show.as_json({"dry_run": options.dry_run, "before": before, "documents": count}))
    else:
        print(f"{count} documents {'would go' if options.dry_run else 'went'}")
    return Exit.DONE


def suspension_list(context: Context) -> Exit:
    """Show what is suspended on this machine."""
    found = suspension.suspended(context.options.history and context.history_path)
    if context.json:
        print(show.as_json({"suspended": [vars(one) for one in found]}))
        return Exit.DONE
    columns = ("history", "trigger", "cause", "since", "polls", "next_poll", "reason")
    show.table("", [*columns], [[getattr(one, name) for name in columns] for one in found])
    return Exit.DONE


def suspension_change(context: Context) -> Exit:
    """Suspend a trigger by hand, or resume it."""
    options = context.options
    if options.trigger is None:
        raise CommandError("which trigger? name it with --trigger NAME")
    one = dh.Suspension(context.history_path, dh.Trigger(options.trigger))
    was = one.status
    if options.action == "suspend":
        one.suspend(options.reason)
    else:
        one.resume()
    if context.json:
        print(
            show.as_json({"trigger": options.trigger, "suspended": options.action == "suspend", "was": was is not None})
        )
    else:
        word = "is suspended" if options.action == "suspend" else "is resumed" if was else "was not suspended"
        print(f"{options.trigger} {word}")
    return Exit.DONE


def sweep(context: Context) -> Exit:
    """Purge from time to time, until somebody ends it."""
    options = context.options
    known = list(context.settings.triggers.values()) if context.settings else []
    with context.open(read_only=True):
        pass  # what is wrong with the history is better said now than in ten minutes
    runs = itertools.count(1)

    def tell(purged: dict[str, Any]) -> None:
        entries = sum(one["entries"] for one in purged.values())
        if context.json:
            print(show.as_json({"time": dt.datetime.now(dt.UTC), "triggers": purged}), flush=True)
        elif entries:
            print(f"{show.cell(dt.datetime.now(dt.UTC))}: purged {entries:,} entries", flush=True)
        if next(runs) == options.runs:
            sweeper.stop_running()

    sweeper = dh.Sweeper(
        context.history_path, known, every=options.every, retry_window=options.retry_window, on_sweep=tell
    )
    previous = signal.signal(signal.SIGTERM, lambda *_: sweeper.stop_running())
    try:
        sweeper.run()
    finally:
        signal.signal(signal.SIGTERM, previous)
    return Exit.DONE


def statistics_clear(context: Context) -> Exit:
    """Forget the statistics of one trigger, or of all."""
    with context.open(read_only=True) as history:
        Statistics(history).clear(context.options.trigger)
    if context.json:
        print(show.as_json({"cleared": context.options.trigger or "all"}))
    else:
        print(f"the statistics of {context.options.trigger or 'all triggers'} are cleared; no entry was touched")
    return Exit.DONE


def statistics_shown(context: Context, history: dh.History, names: list[str]) -> dict[str, Any]:
    """The statistics, for `stats`; printed unless a program asks."""
    kept = Statistics(history)
    found = {name: one for name, one in kept.summary().items() if name in names}
    if context.json or not any(_was_counted(one) for one in found.values()):
        return found
    rows = [
        [name, one["new"], one["duplicate"], _by_rule(one["in_doubt"]), one["suspended"], one["rejected"]]
        for name, one in found.items()
    ]
    print()
    show.table("exactly-once statistics", ["trigger", "new", "duplicate", "in doubt", "suspended", "rejected"], rows)
    due = next((one["next_purge"] for one in found.values()), None)
    if due is not None:
        print(f"next purge at {show.cell(due)} UTC")
    return found


def documents_shown(context: Context) -> Exit:
    """The newest duplicates and documents in doubt."""
    options = context.options
    with context.open(read_only=True) as history:
        found = Statistics(history).documents(options.trigger, limit=options.limit or (None if context.json else _MOST))
    if context.json:
        print(show.as_json({"documents": found.to_pylist()}))
        return Exit.DONE
    columns = ("time", "trigger", "status", "rule", "key", "name")
    show.table("", [*columns], [[row[name] for name in columns] for row in found.to_pylist()])
    return Exit.DONE


def _was_counted(one: dict[str, Any]) -> bool:
    return any(one[name] for name in ("new", "duplicate", "in_doubt", "suspended", "rejected"))


def _by_rule(in_doubt: dict[str, int]) -> str:
    total = sum(in_doubt.values())
    rules = ", ".join(f"{rule}: {count:,}" for rule, count in in_doubt.items())
    return f"{total:,} ({rules})" if rules else "0"
