"""`dochistory backup`: a copy of a history while others write to it."""

import os
from typing import Any

import dochistory as dh
from dochistory.cli import show
from dochistory.cli.context import Add, Context
from dochistory.cli.failures import CommandError, Exit
from dochistory.objects import is_url


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "backup",
        backup,
        "copy a history and check the copy",
        "Others may write to the history meanwhile; the copy holds all that was acknowledged before it began. It is a "
        "history like any other, and can be opened where it lies.",
        examples=[
            "dochistory backup /backup/orders.history",
            "dochistory --history s3://bucket/orders.history backup /backup/orders.history",
            "dochistory backup s3://bucket/backup/orders.history",
        ],
    )
    command.add_argument(
        "target", metavar="DIR|URL", help="a directory that does not exist yet, or a place in a bucket"
    )


def backup(context: Context) -> Exit:
    """Copy a history."""
    target: str = context.options.target
    if not is_url(target) and os.path.lexists(path := dh.local_path(target)):
        raise CommandError(f"{path}: exists already: name a new directory")
    source = context.place if isinstance(context.place, str) else context.directory
    with show.progress("checking the copy", quiet=context.json) as progress:
        size = dh.backup(
            source,
            target,
            lock_timeout=context.lock_timeout,
            progress=progress,
            storage_options=context.storage_options,
        )
    if context.json:
        print(show.as_json({"backup": target, "bytes": size}))
    else:
        print(f"{target}: a checked copy of {context.place}, {show.size(size)}")
    return Exit.DONE
