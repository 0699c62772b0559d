"""Errors of commands: one sentence, and an exit status that programs can rely on."""

import re
import textwrap
from collections.abc import Mapping
from enum import IntEnum

import dochistory as dh


class Exit(IntEnum):
    """The exit statuses; `EXITS` says what they mean."""

    DONE = 0
    FOUND = 1
    INPUT = 2
    UNAVAILABLE = 3
    FUNCTION = 4
    UNFORESEEN = 70
    INTERRUPTED = 130
    PIPE_CLOSED = 141


EXITS: dict[Exit, str] = {
    Exit.DONE: "done",
    Exit.FOUND: "done, and something is wrong: damage, a failed check, a part that could not be done",
    Exit.INPUT: "invalid input (options, names, files, settings, credentials, no such history); a retry fails again",
    Exit.UNAVAILABLE: "temporary: the history is locked, or the operating system refuses; a retry may work",
    Exit.FUNCTION: "a service or resolver of yours failed; the error says what became of the documents",
    Exit.UNFORESEEN: "an internal error: --debug shows where",
    Exit.INTERRUPTED: "interrupted",
    Exit.PIPE_CLOSED: "the reader of a pipe closed it",
}
"""The one table of exit statuses: `--help` and `docs/cli.md` show it, and every command keeps to it."""


def exit_table() -> str:
    """The table for `--help`."""
    return "\n".join(["exit status:", *(hanging(f"  {status:<4} ", said) for status, said in EXITS.items())]) + "\n"


def hanging(first: str, text: str) -> str:
    """A text of 80 columns whose first line begins with `first`, and whose others are indented by that."""
    return textwrap.fill(text, 80, initial_indent=first, subsequent_indent=" " * len(first))


class CommandError(Exception):
    """A command cannot continue: what is wrong, where, and what to do about it."""

    def __init__(self, sentence: str, status: Exit = Exit.INPUT, code: str = "DH-INPUT") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status
        self.code = code


_STATUSES: tuple[tuple[type[Exception], Exit], ...] = (
    (dh.CorruptError, Exit.FOUND),
    (dh.LockedError, Exit.UNAVAILABLE),
    (dh.StorageError, Exit.UNAVAILABLE),
    (dh.FailedError, Exit.UNAVAILABLE),
    (dh.FencedError, Exit.UNAVAILABLE),
    (dh.DescriptorsError, Exit.UNAVAILABLE),
    (dh.DocHistoryError, Exit.INPUT),
    (FileNotFoundError, Exit.INPUT),
    (FileExistsError, Exit.INPUT),
    (NotADirectoryError, Exit.INPUT),
    (IsADirectoryError, Exit.INPUT),
    (OSError, Exit.UNAVAILABLE),
)

_BY_CODE = {
    "DH-BUCKET": Exit.INPUT,
    "DH-REGION": Exit.INPUT,
    "DH-FORBIDDEN": Exit.INPUT,
    "DH-CREDENTIALS": Exit.INPUT,
    "DH-EXTRA": Exit.INPUT,
    "DH-STORE": Exit.FOUND,
    "DH-MISSING": Exit.FOUND,
}
"""Errors of object stores that fail again, or that show damage; all others may pass."""

_REMEDIES = (
    (r'columns=\{["\'](\w+)["\']: ["\']?(\w+|…)["\']?\}', r"--column \1=\2"),
    (r"or give one trigger for all rows", "or pass --trigger NAME for all rows"),
    (r"purge with force=True, or --force,", "pass --force"),
    (
        r'with history_time_to_live=("[^"]*")',
        r"with history_time_to_live = \1 in the settings, or with --time-to-live \1 where none describe the trigger",
    ),
)
"""What an error of the library says to do in Python -> how to say it on the command line."""


def explained(error: Exception) -> CommandError | None:
    """The error as a command's failure; None for an internal error."""
    if isinstance(error, CommandError):
        return error
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            coded = re.match(r"\[(DH-[A-Z-]+)\] (.*)", str(error), re.DOTALL)
            code, text = (coded[1], coded[2]) if coded else ("DH-STORAGE", _said(error))
            return CommandError(in_options(text), _BY_CODE.get(code, status), code)
    return None


def done_but(left: Mapping[str, dh.DocHistoryError]) -> Exit:
    """How a command ends that has done everything, but for what is damaged: as its first error says.

    Raises:
        DocHistoryError: there is one.
    """
    for error in left.values():
        raise error
    return Exit.DONE


def in_options(text: str) -> str:
    """An error's text with the remedies of the command line."""
    for python, options in _REMEDIES:
        text = re.sub(python, options, text)
    return text


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())
