"""`dochistory completion`: the completion of a shell, made by shtab from the arguments of the command line.

Names of triggers are completed too: the shell asks `dochistory names`, which reads the history that
the settings or the environment name.
"""

import argparse
import sys
from typing import Any

from dochistory.cli.context import Add, Context
from dochistory.cli.failures import CommandError, Exit
from dochistory.cli.parser import OF_A_HISTORY

SHELLS = ("bash", "zsh", "fish")

_ASK = "dochistory names 2>/dev/null"


def add_to(commands: Any, add: Add) -> None:
    """Add the command's arguments."""
    command = add(
        commands,
        "completion",
        completion,
        "print a shell's completion",
        'bash: eval "$(dochistory completion bash)"; zsh: the same with zsh, after compinit; '
        "fish: dochistory completion fish | source",
        examples=["dochistory completion bash"],
        without=(*OF_A_HISTORY, "--json"),
    )
    command.add_argument("shell", choices=SHELLS)
    add(commands, "names", names, "print the names of the triggers, for completion", hidden=True)


def completion(context: Context) -> Exit:
    """Print the completion."""
    try:
        import shtab
    except ImportError as error:
        raise CommandError("completion needs shtab: pip install 'dochistory[cli]'") from error
    whole = context.options.whole
    _mark(whole, {"file": shtab.FILE, "directory": shtab.DIRECTORY, "trigger": shtab.cmd(_ASK)})
    sys.stdout.write(shtab.complete(whole, context.options.shell))
    return Exit.DONE


def _mark(parser: argparse.ArgumentParser, ways: dict[str, Any]) -> None:
    """Turn the marks of the arguments into what shtab knows."""
    for action in parser._actions:  # noqa: SLF001 - argparse shows its actions in no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                _mark(below, ways)
        mark = getattr(action, "complete", None) or ("file" if action.metavar == "FILE" else None)
        if isinstance(mark, str):
            action.complete = ways[mark]  # type: ignore[attr-defined]


def names(context: Context) -> Exit:
    """Print the names of the triggers."""
    with context.open(read_only=True) as history:
        for name in history.triggers():
            print(name)
    return Exit.DONE
