"""`dochistory repair`: report the damage and what a repair would drop; repair only with `--yes`."""

from collections.abc import Mapping, Sequence
from typing import Any

import dochistory as dh
from dochistory.cli import show
from dochistory.cli.context import Add, Context, trigger_option, yes_option
from dochistory.cli.failures import Exit

_SHOWN = 10
"""The maximum number of ids of a finding that are printed."""


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "repair",
        repair,
        "say what is damaged and what a repair would drop",
        "With --yes, repair: what can be read stays, filters are rebuilt, and every file that goes out of use is "
        "kept in a directory repaired-<time> within the history. Exit status 1 without --yes if there is damage, with "
        "it if not all of it could be repaired.",
        examples=[
            "dochistory repair",
            "dochistory repair --yes",
            "dochistory --history s3://bucket/orders.history repair",
        ],
    )
    trigger_option(command, "this trigger only; needed where its name is lost")
    yes_option(command, "repair; otherwise nothing is changed")


def repair(context: Context) -> Exit:
    """Look for damage; with `--yes`, repair it."""
    options = context.options
    with show.progress("looking at files", quiet=context.json) as progress:
        told: Mapping[str, Any] = dh.repair(
            context.place if isinstance(context.place, str) else context.directory,
            options.trigger,
            apply=options.yes,
            lock_timeout=context.lock_timeout,
            progress=progress,
            storage_options=context.storage_options if isinstance(context.place, str) else None,
        )
    findings: Sequence[Mapping[str, Any]] = told["findings"]
    status = Exit.DONE if not findings or told["repaired"] else Exit.FOUND
    if context.json:
        print(show.as_json(told))
        return status
    if not findings:
        print("every byte of every file is what was written: there is nothing to repair")
        return status
    for one in findings:
        print(_described(one))
    print(_outcome(told))
    return status


def _described(one: Mapping[str, Any]) -> str:
    lines = [f"{show.cell(one['file'])}, byte {one['byte']}: {show.cell(one['reason'])}"]
    whose = [who for who in ("trigger", "mapper", "delivery") if one[who] is not None]
    lines += [f"  {who:9} {show.cell(one[who])}" for who in whose]
    lines.append(f"  remedy    {one['remedy']}")
    lines.append(f"  drops     {_count(one['dropped_entries'], exact=one['exact'], least=one['dropped_at_least'])}")
    if one["first_started_at"] is not None:
        first, last = show.cell(one["first_started_at"]), show.cell(one["last_started_at"])
        lines.append(f"  begun     {first} to {last} UTC")
    if one["last_kept_until"] is not None:
        first, last = show.cell(one["first_kept_until"]), show.cell(one["last_kept_until"])
        lines.append(f"  kept till {first} to {last} UTC")
    if one["bytes"]:
        lines.append(f"  bytes     {one['bytes']:,} cannot be read")
    if one["returned_entries"] != 0:
        lines.append(f"  goes back {_count(one['returned_entries'], exact=False)}")
    if documents := one.get("documents"):
        said = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in documents[:_SHOWN])
        lines.append(f"  documents {said}{', …' if len(documents) > _SHOWN else ''} of the audit log")
    if one["ids"]:
        more = f", and {len(one['ids']) - _SHOWN:,} more (--json)" if len(one["ids"]) > _SHOWN else ""
        lines.append(f"  ids       {', '.join(show.cell(key) for key in one['ids'][:_SHOWN])}{more}")
    if one["reopened_entries"] != 0:
        lines.append(f"  in doubt  {_count(one['reopened_entries'], exact=False)}")
    lines.append(f"  that is   {one['meaning']}")
    return "\n".join(lines)


def _count(entries: int | None, *, exact: bool, least: int = 0) -> str:
    if entries is None:
        return f"an unknown number of ids{f', {least:,} at least' if least else ''}"
    return f"{'' if exact else 'at most '}{entries:,} ids"


def _outcome(told: Mapping[str, Any]) -> str:
    if told["repaired"]:
        places = " and ".join(str(told[place]) for place in ("kept_in", "audit_kept_in") if told[place])
        kept = f"; what went out of use is in {places}" if places else ""
        return f"repaired{kept}"
    if any(one["remedy"] == "impossible" for one in told["findings"]):
        return "not all of it can be repaired: what cannot was left as it is; restore the history from a backup"
    return "nothing was changed: back the directory up, then repair it with --yes"
