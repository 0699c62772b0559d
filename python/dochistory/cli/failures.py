"""Errors of commands: one sentence, and an exit status that programs can rely on."""

import re
from enum import IntEnum

import dochistory as dh


class Exit(IntEnum):
    """The exit statuses; `docs/cli.md` and `--help` list them."""

    DONE = 0
    FOUND = 1
    """The command did its work and found something wrong: damage, a failed check."""
    INPUT = 2
    """What the command was given makes no sense; asked again it fails again."""
    UNAVAILABLE = 3
    """The history cannot be used now: locked, or the operating system refuses."""
    UNFORESEEN = 70
    """A fault of the program itself."""
    INTERRUPTED = 130
    PIPE_CLOSED = 141


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
    (OSError, Exit.UNAVAILABLE),
)

_BY_CODE = {
    "DH-BUCKET": Exit.INPUT,
    "DH-REGION": Exit.INPUT,
    "DH-FORBIDDEN": Exit.INPUT,
    "DH-EXTRA": Exit.INPUT,
    "DH-STORE": Exit.FOUND,
    "DH-MISSING": Exit.FOUND,
}
"""Errors of object stores that fail again, or that show damage; all others may pass."""


def explained(error: Exception) -> CommandError | None:
    """The error as a command's failure; None for an internal error."""
    if isinstance(error, CommandError):
        return error
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            coded = re.match(r"\[(DH-[A-Z]+)\] (.*)", str(error), re.DOTALL)
            code, text = (coded[1], coded[2]) if coded else ("DH-STORAGE", _said(error))
            return CommandError(text, _BY_CODE.get(code, status), code)
    return None


def _said(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())
