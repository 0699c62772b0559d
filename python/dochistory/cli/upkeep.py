"""The commands that look after a history: `stats`, `pins`, `purge`, `change`, `maintain`, `verify`."""

import datetime as dt
from typing import Any

import dochistory as dh
from dochistory import metrics
from dochistory.cli import around, show
from dochistory.cli.context import Context
from dochistory.cli.failures import Exit
from dochistory.settings import stored_settings
from dochistory.statistics import Statistics


def stats(context: Context) -> Exit:
    """Show figures of a history."""
    with context.open(read_only=True) as history:
        if context.options.prometheus:
            print(metrics.prometheus_text(history, Statistics(history)), end="")
            return Exit.DONE
        names = context.named(history)
        found = history.stats()
        figures: dict[str, Any] = {**found, "triggers": {name: found["triggers"][name] for name in names}}
        if context.json:
            figures["statistics"] = around.statistics_shown(context, history, names)
            print(show.as_json(figures))
            return Exit.DONE
    print(f"{figures['path']}, made at {show.cell(figures['created_at'])} UTC, {figures['shards']} shards")
    _show_spaces(figures)
    columns = ["trigger", "entries", "in the log", "bytes", "segments", "filters", "oldest (UTC)", "time to live"]
    rows = [_row(name, one) for name, one in figures["triggers"].items()]
    show.table("", columns, rows)
    with context.open(read_only=True) as history:
        around.statistics_shown(context, history, names)
    return Exit.DONE


def _show_spaces(figures: dict[str, Any]) -> None:
    """Mappers and streams of guaranteed delivery, if there are any."""
    spaces = [(f"mapper:{name}", one) for name, one in figures["mappers"].items()]
    spaces += [(f"delivery:{name}", one) for name, one in figures["delivery"].items()]
    if not spaces:
        return
    rows = [
        [
            name,
            one["file_entries"] + one["later_entries"] + one["log_entries"],
            one["log_entries"],
            show.size(one["file_bytes"] + one["log_bytes"]),
            one["files"],
        ]
        for name, one in spaces
    ]
    show.table("", ["mapper or delivery", "records", "in the log", "bytes", "files"], rows)


def _row(name: str, figures: dict[str, Any]) -> list[Any]:
    total = figures["segment_bytes"] + figures["log_bytes"] + figures["filter_bytes"]
    return [
        name,
        figures["segment_entries"] + figures["log_entries"],
        figures["log_entries"],
        show.size(total),
        figures["segments"],
        figures["filters"],
        figures["oldest_started_at"],
        figures["history_time_to_live"] or None,
    ]


def pins(context: Context) -> Exit:
    """Show which states are pinned, or let them go."""
    drops, older_than = context.options.drop, context.options.older_than or dt.timedelta()
    found = []
    with context.open(read_only=not drops) as history:
        for name in context.named(history):
            for pin in history.pins(name):
                is_dropped = drops and dt.datetime.now(dt.UTC) - pin["pinned_at"] >= older_than
                if is_dropped:
                    history.unpin(name, pin["snapshot"])
                found.append({"trigger": name, **pin, "dropped": is_dropped})
    if context.json:
        print(show.as_json(found))
        return Exit.DONE
    columns = ["trigger", "pinned (UTC)", "ends (UTC)", "by process", "manifest", "let go"]
    rows = [
        [
            one["trigger"],
            one["pinned_at"],
            one["ends_at"],
            one["process"],
            one["manifest"],
            "yes" if one["dropped"] else "",
        ]
        for one in found
    ]
    show.table("", columns, rows)
    return Exit.DONE


def purge(context: Context) -> Exit:
    """Drop what expired."""
    options = context.options
    now = options.now or dt.datetime.now(dt.UTC)
    purged: dict[str, Any] = {}
    with context.open(read_only=options.dry_run) as history:
        for name in context.named(history):
            purged.update(history.purge(context.described(name), now=now, dry_run=options.dry_run, force=options.force))
    if context.json:
        print(show.as_json({"dry_run": options.dry_run, "now": now, "triggers": purged}))
        return Exit.DONE
    title = "what would go" if options.dry_run else "what went"
    rows = [[name, one["entries"], show.size(one["bytes"]), one["segments"]] for name, one in purged.items()]
    show.table(title, ["trigger", "entries", "bytes", "files"], rows)
    return Exit.DONE


def change(context: Context) -> Exit:
    """Give a trigger another time to live."""
    options = context.options
    with context.open(read_only=False) as history:
        (name,) = context.named(history)
        stored = {**stored_settings(history, name), "history_time_to_live": options.time_to_live}
        trigger = dh.Trigger(name, **stored)
        before = history.change(trigger)
    after = trigger.history_time_to_live
    if context.json:
        print(show.as_json({"trigger": name, "before": before, "after": after}))
    else:
        show.table("", ["trigger", "time to live before", "time to live"], [[name, before, after]])
    return Exit.DONE


def maintain(context: Context) -> Exit:
    """Put small files together and roll filters up."""
    done: dict[str, Any] = {}
    with context.open(read_only=False) as history:
        for name in context.named(history):
            with show.progress(f"maintaining {show.cell(name)}", quiet=context.json) as progress:
                done.update(history.maintain(name, all=context.options.all, progress=progress))
        if context.options.trigger is None:
            with show.progress("maintaining mappers and delivery", quiet=context.json) as progress:
                done.update(history._shards.maintain_values(all=context.options.all, progress=progress))
    if context.json:
        print(show.as_json({"triggers": done}))
        return Exit.DONE
    rows = [[name, *one["merged"], one["rewritten"], one["rolled_up"]] for name, one in done.items()]
    show.table("", ["trigger", "files before", "files after", "entries rewritten", "entries rolled up"], rows)
    return Exit.DONE


def verify(context: Context) -> Exit:
    """Check every byte of a history."""
    checked: dict[str, int] = {}
    with context.open(read_only=True) as history:
        for name in context.named(history):
            with show.progress(f"checking {show.cell(name)}", quiet=context.json) as progress:
                checked[name] = history.verify(name, progress=progress)
        values = 0
        if context.options.trigger is None:
            with show.progress("checking mappers and delivery", quiet=context.json) as progress:
                values = history._shards.verify_values(progress=progress)
        log = history.audit.verify()
    if context.json:
        print(show.as_json({"whole": True, "bytes": checked, "value_bytes": values, "audit_bytes": log}))
        return Exit.DONE
    show.table("", ["trigger", "checked"], [[name, show.size(bytes_)] for name, bytes_ in checked.items()])
    if values:
        print(f"mappers and guaranteed delivery: {show.size(values)}")
    if log:
        print(f"the audit log: {show.size(log)}")
    print(f"every byte is what was written: {show.size(sum(checked.values()) + values + log)}")
    return Exit.DONE
