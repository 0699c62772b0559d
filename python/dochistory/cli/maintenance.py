"""The commands for maintenance: `pins`, `purge`, `change`, `maintain`, `verify`."""

import datetime as dt
from typing import Any

import dochistory as dh
from dochistory.cli import show
from dochistory.cli.context import Context
from dochistory.cli.failures import Exit
from dochistory.settings import stored_settings


def pins(context: Context) -> Exit:
    """Show the pinned states, or remove pins."""
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
    """Drop expired entries."""
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
    """Compact small segments and build global filters."""
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
    show.table(
        "", ["trigger", "files before", "files after", "entries rewritten", "entries added to global filters"], rows
    )
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
