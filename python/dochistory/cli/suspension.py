"""`dochistory suspension`: which triggers are suspended on this machine; suspend or resume one."""

from typing import Any

import dochistory as dh
from dochistory import suspension
from dochistory.cli import show
from dochistory.cli.context import Add, Context, create_option, trigger_option
from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.parser import add_group


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    ways = add_group(
        commands,
        "suspension",
        "show which triggers are suspended on this machine; suspend or resume one",
        view="list",
        examples=["dochistory suspension", "dochistory suspension suspend --trigger orders --reason 'moving'"],
    )
    add(
        ways,
        "list",
        suspension_list,
        "show what is suspended",
        examples=["dochistory suspension"],
        without=("--storage-option", "--lock-timeout"),
    )
    suspended = add(
        ways,
        "suspend",
        suspension_suspend,
        "suspend a trigger",
        examples=["dochistory suspension suspend --trigger orders --reason 'moving'"],
    )
    resumed = add(
        ways,
        "resume",
        suspension_resume,
        "resume a trigger",
        examples=["dochistory suspension resume --trigger orders"],
    )
    for command in (suspended, resumed):
        trigger_option(command, "the trigger")
        create_option(command)
    suspended.add_argument("--reason", metavar="TEXT", default="suspended by hand", help="why, for the others")


def suspension_list(context: Context) -> Exit:
    """Show what is suspended on this machine."""
    found = suspension.suspended(context.options.history and context.place)
    if context.json:
        print(show.as_json({"suspended": [vars(one) for one in found]}))
        return Exit.DONE
    columns = ("history", "trigger", "cause", "since", "polls", "next_poll", "reason")
    whose = "of this history " if context.options.history else ""
    nothing = f"no trigger {whose}is suspended on this machine"
    show.listing(columns, [[getattr(one, name) for name in columns] for one in found], nothing)
    return Exit.DONE


def suspension_suspend(context: Context) -> Exit:
    """Suspend a trigger by hand."""
    one, was = _one(context)
    one.suspend(context.options.reason)
    return _told(context, "is suspended", suspended=True, was=was)


def suspension_resume(context: Context) -> Exit:
    """Resume a trigger."""
    one, was = _one(context)
    one.resume()
    return _told(context, "is resumed" if was else "was not suspended", suspended=False, was=was)


def _one(context: Context) -> tuple[dh.Suspension, bool]:
    name = context.options.trigger
    if name is None:
        raise CommandError("no trigger given: name it with --trigger NAME")
    one = dh.Suspension(context.place, dh.Trigger(name), storage_options=context.bucket_options)
    was = one.status is not None
    if not was:  # what is suspended is known, even if the history cannot be opened
        with context.open(read_only=True) as history:
            context.is_new(history, name)
    return one, was


def _told(context: Context, word: str, *, suspended: bool, was: bool) -> Exit:
    name = context.options.trigger
    if context.json:
        print(show.as_json({"trigger": name, "suspended": suspended, "was": was}))
    else:
        print(f"{show.cell(name)} {word}")
    return Exit.DONE
