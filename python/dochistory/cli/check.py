"""`dochistory check`: whether an object store keeps what a history rests on."""

import argparse
from dataclasses import asdict
from typing import Any

from dochistory import objects
from dochistory.cli import show
from dochistory.cli.context import Add, Context, storage_options
from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.times import positive


def add_to(commands: Any, add: Add) -> None:
    """The command's arguments."""
    command = add(
        commands,
        "check",
        check,
        "say whether an object store keeps what a history rests on",
        "Races of many writers for one name, reading and listing of what was just stored, names that are used again, "
        "clocks, and how long each request takes. Works in a folder of its own below the URL, and removes it.",
        examples=["dochistory check s3://bucket/x --storage-option aws_region=eu-west-1"],
        without=("--history", "--settings", "--lock-timeout"),
    )
    command.add_argument("url", metavar="URL", help="s3://bucket/path, gs://…, az://…, abfss://…")
    command.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help=argparse.SUPPRESS,
    )
    command.add_argument(
        "--rounds", type=positive, default=objects.ROUNDS, metavar="N", help=f"number of races ({objects.ROUNDS})"
    )


def check(context: Context) -> Exit:
    """Check a store."""
    url = context.options.url
    if not objects.is_url(url) and not url.startswith("file:"):
        raise CommandError(f"{url}: not a URL of an object store; `dochistory doctor` checks a history in a directory")
    if context.options.option:
        context.warn("--option is --storage-option now, as in all commands")
    options = storage_options("--option", context.options.option)
    client = objects.open_client(url, {**context.storage_options, **options})
    report = objects.check(client, rounds=context.options.rounds)
    if context.json:
        print(show.as_json({"keeps_promises": report.keeps_promises, **asdict(report)}))
    else:
        show.table(report.url, ["check", "result", "found"], [[c.name, c.result, c.found] for c in report.checks])
        rows = [[kind, *times.values()] for kind, times in report.latencies_ms.items()]
        show.table("requests", ["request", "number", "median ms", "worst ms"], rows)
        kept = "This store keeps" if report.keeps_promises else "This store does NOT keep"
        print(f"{kept} what a history rests on.")
    return Exit.DONE if report.keeps_promises else Exit.FOUND
