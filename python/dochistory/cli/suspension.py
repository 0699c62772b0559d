"""`dochistory suspension`: which triggers are suspended on this machine; suspend or resume one."""

from typing import Any

import dochistory as dh
from dochistory import suspension
from dochistory.cli import show
from dochistory.cli.context import Add, Context, trigger_option
from dochistory.cli.failures import CommandError, Exit


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "suspension",
        _suspended,
        "show which triggers are suspended on this machine; suspend or resume one",
    )
    command.add_argument(
        "action", nargs="?", choices=["list", "suspend", "resume"], default="list", help="list, if absent"
    )
    trigger_option(command, "the trigger to suspend or resume")
    command.add_argument("--reason", metavar="TEXT", default="suspended by hand", help="why, for the others")


def _suspended(context: Context) -> Exit:
    listed = context.options.action == "list"
    return suspension_list(context) if listed else suspension_change(context)


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
        raise CommandError("no trigger given: name it with --trigger NAME")
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
