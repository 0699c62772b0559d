"""`dochistory stats`: figures of a history, and exactly-once statistics where they are kept."""

from typing import Any

import dochistory as dh
from dochistory import metrics
from dochistory._damage import figures_beside_damage, triggers_ever_used
from dochistory.cli import show
from dochistory.cli.context import Add, Context, positive, trigger_option, yes_option
from dochistory.cli.failures import CommandError, Exit, done_but
from dochistory.cli.parser import add_group
from dochistory.statistics import Statistics


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    ways = add_group(
        commands,
        "stats",
        "show figures of a history, and exactly-once statistics where they are kept",
        view="show",
        examples=[
            "dochistory stats",
            "dochistory stats documents --trigger orders --limit 10",
            "dochistory stats clear --trigger orders --yes",
        ],
    )
    shown = add(ways, "show", stats, "show figures by trigger", examples=["dochistory stats --prometheus"])
    trigger_option(shown)
    shown.add_argument(
        "--prometheus", action="store_true", help="in Prometheus' text format, for a file that it scrapes"
    )
    listed = add(
        ways,
        "documents",
        documents_shown,
        "list the newest duplicates and documents in doubt",
        examples=["dochistory stats documents --trigger orders --limit 10"],
    )
    trigger_option(listed)
    listed.add_argument("--limit", type=positive, metavar="N", help="N documents at most (50; all with --json)")
    cleared = add(
        ways,
        "clear",
        statistics_clear,
        "forget the statistics, and no entry of the history",
        examples=["dochistory stats clear --trigger orders --yes"],
    )
    trigger_option(cleared, "the statistics of this trigger only; of all, if absent")
    yes_option(cleared, "clear them")


def _known(context: Context, history: dh.History) -> str | None:
    """The trigger of the option, which the history or its statistics have to know; None without the option."""
    name: str | None = context.options.trigger
    if name is not None:
        context.chosen({*history.triggers(), *Statistics(history).summary()})
    return name


def statistics_clear(context: Context) -> Exit:
    """Forget the statistics of one trigger, or of all."""
    with context.open(read_only=True) as history:
        name = _known(context, history)
        whose = show.cell(name) if name else "all triggers"
        if not context.options.yes:
            raise CommandError(f"this forgets the statistics of {whose}, for good: pass --yes if that is meant")
        Statistics(history).clear(name)
    if context.json:
        print(show.as_json({"cleared": name or "all"}))
    else:
        print(f"the statistics of {whose} are cleared; no entry was touched")
    return Exit.DONE


def statistics_shown(context: Context, history: dh.History, names: list[str]) -> dict[str, Any]:
    """The statistics, for `stats`; printed unless the output is for a program."""
    kept = Statistics(history)
    found = {name: one for name, one in kept.summary().items() if name in names}
    if context.json or not any(_was_counted(one) for one in found.values()):
        return found
    rows = [
        [name, one["new"], one["duplicate"], _by_rule(one["in_doubt"]), one["suspended"], one["rejected"]]
        for name, one in found.items()
    ]
    print()
    whose = "" if history.url is None else " of this machine"
    show.table(
        f"exactly-once statistics{whose}", ["trigger", "new", "duplicate", "in doubt", "suspended", "rejected"], rows
    )
    due = next((one["next_purge"] for one in found.values()), None)
    if due is not None:
        print(f"next purge at {show.cell(due)} UTC")
    return found


def documents_shown(context: Context) -> Exit:
    """The newest duplicates and documents in doubt."""
    options = context.options
    with context.open(read_only=True) as history:
        found = Statistics(history).documents(
            _known(context, history), limit=options.limit or (None if context.json else show.MOST)
        )
    if context.json:
        print(show.as_json({"documents": found.to_pylist()}))
        return Exit.DONE
    columns = ("time", "trigger", "status", "rule", "key", "name")
    nothing = "the statistics hold no duplicate and no document in doubt"
    show.listing(columns, [[row[name] for name in columns] for row in found.to_pylist()], nothing)
    return Exit.DONE


def _was_counted(one: dict[str, Any]) -> bool:
    return any(one[name] for name in ("new", "duplicate", "in_doubt", "suspended", "rejected"))


def _by_rule(in_doubt: dict[str, int]) -> str:
    total = sum(in_doubt.values())
    rules = ", ".join(f"{rule}: {count:,}" for rule, count in in_doubt.items())
    return f"{total:,} ({rules})" if rules else "0"


def stats(context: Context) -> Exit:
    """Show figures of a history."""
    with context.open(read_only=True) as history:
        names = context.chosen(triggers_ever_used(history))
        if context.options.prometheus:
            if context.json:
                raise CommandError("two formats given: pass --json or --prometheus")
            print(
                metrics.prometheus_text(history, Statistics(history), triggers=context.options.trigger and names),
                end="",
            )
            return Exit.DONE
        found, damaged = figures_beside_damage(history)
        # A damaged one beside the one that is named is none of its business.
        if context.options.trigger is not None:
            damaged = {name: one for name, one in damaged.items() if name in names}
            done_but(damaged)
        figures: dict[str, Any] = {**found, "triggers": {n: found["triggers"][n] for n in names if n not in damaged}}
        if context.json:
            figures["statistics"] = statistics_shown(context, history, names)
            figures["damaged"] = {name: str(error) for name, error in damaged.items()}
            print(show.as_json(figures))
            return done_but(damaged)
    print(figures["path"])
    if figures["created_at"]:
        print(f"made at {show.cell(figures['created_at'])} UTC, {figures['shards']} shards")
    for name, error in damaged.items():
        context.warn(f"{name}: no figures: {error}")
    _show_spaces(figures)
    columns = ["trigger", "entries", "in the log", "bytes", "segments", "filters", "oldest (UTC)", "time to live"]
    rows = [_row(name, one) for name, one in figures["triggers"].items()]
    show.table("", columns, rows)
    with context.open(read_only=True) as history:
        statistics_shown(context, history, names)
    return done_but(damaged)


def _show_spaces(figures: dict[str, Any]) -> None:
    """Mappers and streams of guaranteed delivery, if there are any, and are known."""
    spaces = [(f"mapper:{name}", one) for name, one in figures["mappers"].items()]
    spaces += [(f"delivery:{name}", one) for name, one in (figures["delivery"] or {}).items()]
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
