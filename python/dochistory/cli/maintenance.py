"""The commands for maintenance: `purge`, `maintain`, `change`, `pins`, `verify`."""

import argparse
import datetime as dt
from typing import Any

import dochistory as dh
from dochistory._damage import split, triggers_ever_used
from dochistory.cli import show
from dochistory.cli.context import Add, Context, duration, moment, trigger_option, yes_option
from dochistory.cli.failures import CommandError, Exit, done_but
from dochistory.cli.parser import add_group
from dochistory.settings import stored_settings


def add_to(commands: Any, add: Add) -> None:
    """Add the arguments of `purge`, `maintain`, `change`, `pins` and `verify`."""
    _add_purge(commands, add)
    maintained = add(
        commands,
        "maintain",
        maintain,
        "compact small files and build global filters",
        examples=["dochistory maintain", "dochistory maintain --trigger orders --all"],
    )
    trigger_option(maintained)
    maintained.add_argument("--all", action="store_true", help="compact as far as possible, not only as far as it pays")
    maintained.add_argument(
        "--grace",
        type=duration,
        metavar="TIME",
        help="in a bucket: how long objects stay that nothing needs any more (15 min)",
    )
    changed = add(
        commands,
        "change",
        change,
        "give a trigger another time to live",
        "The next purge uses it. Programs that still use the old one get [DH-CONFIG]: change their settings "
        "too. The kind of a trigger never changes.",
        examples=["dochistory change --trigger orders --time-to-live '60 days'"],
    )
    changed.add_argument("--trigger", metavar="NAME", required=True, help="this trigger").complete = "trigger"  # type: ignore[attr-defined]
    changed.add_argument("--time-to-live", type=duration, metavar="TIME", required=True, help="from now on: '30 days'")
    _add_pins(commands, add)
    verified = add(
        commands,
        "verify",
        verify,
        "check every byte of a history",
        examples=["dochistory verify", "dochistory verify --trigger orders"],
    )
    trigger_option(verified)


def _add_purge(commands: Any, add: Add) -> None:
    command = add(
        commands,
        "purge",
        purge,
        "drop what expired",
        "By the time to live that the history keeps of each trigger. Made for cron.",
        examples=["dochistory purge --dry-run", "dochistory purge --trigger orders"],
    )
    trigger_option(command)
    command.add_argument("--dry-run", action="store_true", help="only say what would go")
    command.add_argument("--now", type=moment, metavar="TIME", help="the time that counts as now: 2026-11-21")
    command.add_argument(
        "--force", action="store_true", help="even if --now is days ahead of the clock and every entry goes"
    )


def _add_pins(commands: Any, add: Add) -> None:
    ways = add_group(
        commands,
        "pins",
        "show the pinned snapshots of a history, or release them",
        "A pinned snapshot keeps its files. Spark plans that still read one fail when it is released.",
        view="list",
        examples=["dochistory pins", "dochistory pins release --older-than '1 day' --yes"],
    )
    for name, run, help_ in (
        ("list", pins, "show what is pinned"),
        ("release", pins_released, "let go of pinned snapshots"),
    ):
        example = f"dochistory pins {name} --older-than '1 day'{' --yes' if name == 'release' else ''}"
        command = add(ways, name, run, help_, examples=[example])
        trigger_option(command)
        command.add_argument("--older-than", type=duration, metavar="TIME", help="only those pinned longer ago: 1d")
        if name == "release":
            yes_option(command, "release them; otherwise nothing is changed")
        else:
            command.add_argument("--drop", action="store_true", help=argparse.SUPPRESS)


def pins(context: Context) -> Exit:
    """Show what is pinned."""
    if context.options.drop:
        context.warn("pins --drop is pins release --yes since 0.2.0")
    _pins(context, release=context.options.drop)
    return Exit.DONE


def pins_released(context: Context) -> Exit:
    """Release pinned snapshots."""
    found = _pins(context, release=context.options.yes)
    if found and not context.options.yes:
        raise CommandError("nothing was released: pass --yes to release these")
    return Exit.DONE


def _pins(context: Context, *, release: bool) -> int:
    """Show the selected snapshots, and release them if that is wanted; how many there are."""
    older_than = context.options.older_than or dt.timedelta()
    found = []
    with context.open(read_only=not release) as history:
        for name in context.named(history):
            for pin in history.pins(name):
                if dt.datetime.now(dt.UTC) - pin["pinned_at"] < older_than:
                    continue
                if release:
                    history.unpin(name, pin["snapshot"])
                found.append({"trigger": name, **pin, "dropped": release})
    if context.json:
        print(show.as_json(found))
        return len(found)
    columns = ["trigger", "pinned (UTC)", "ends (UTC)", "by process", "manifest", "released"]
    names = ("trigger", "pinned_at", "ends_at", "process", "manifest", "dropped")
    nothing = f"no {'such ' if context.options.trigger or older_than else ''}snapshot is pinned"
    show.listing(columns, [[one[name] for name in names] for one in found], nothing)
    return len(found)


def purge(context: Context) -> Exit:
    """Drop expired entries."""
    options = context.options
    now = options.now or dt.datetime.now(dt.UTC)
    how = {"now": now, "dry_run": options.dry_run, "force": options.force}
    with context.open(read_only=options.dry_run) as history:
        names = context.chosen(triggers_ever_used(history))
        gone, left = split(names, lambda name: history.purge(context.described(name), **how), or_locked=True)
    if options.trigger:
        done_but(left)
    purged = {name: one for of_one in gone.values() for name, one in of_one.items()}
    _show_purged(context, now, purged, left)
    return done_but(left)


def _show_purged(
    context: Context, now: dt.datetime, purged: dict[str, Any], left: dict[str, dh.DocHistoryError]
) -> None:
    is_dry = context.options.dry_run
    if context.json:
        told = {name: str(error) for name, error in left.items()}
        print(show.as_json({"dry_run": is_dry, "now": now, "triggers": purged, "not_purged": told}))
        return
    for name, error in left.items():
        context.warn(f"{name}: not purged: {error}")
    title = "what would go" if is_dry else "what went"
    rows = [
        [name, one["entries"], one["log_entries"], one["segments"], show.size(one["bytes"])]
        for name, one in purged.items()
    ]
    show.table(title, ["trigger", "entries", "in the log", "files", "size of files"], rows)
    if any(one["log_entries"] for one in purged.values()):
        print(f"entries in the log {'would go' if is_dry else 'went'} without a file of their own")


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
    options = context.options
    if options.grace is not None and not isinstance(context.place, str):
        raise CommandError(
            f"--grace means something for a bucket only, and {context.place} is a directory: leave it out"
        )
    done: dict[str, Any] = {}
    with context.open(read_only=False) as history:
        for name in context.named(history):
            with show.progress(f"maintaining {show.cell(name)}", quiet=context.json) as progress:
                done.update(history.maintain(name, all=options.all, progress=progress, grace=options.grace))
        if options.trigger is None:
            with show.progress("maintaining mappers and delivery", quiet=context.json) as progress:
                done.update(history._shards.maintain_values(all=options.all, progress=progress, grace=options.grace))
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
