"""Functions of the user's that an option names as MODULE:FUNCTION."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

import dochistory as dh
from dochistory import _services
from dochistory.cli.failures import CommandError, Exit


class FunctionError(CommandError):
    """A function of the user's failed. The command says what that means for the documents."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, Exit.FUNCTION, "DH-FUNCTION")

    def with_effect(self, effect: str, status: Exit = Exit.FUNCTION) -> CommandError:
        """The same kind of error, with what it means for the documents, and what to do."""
        said = type(self)(f"{self.sentence}; {effect}")
        said.status = status
        return said


class FunctionRolledBackError(FunctionError, dh.RolledBack):
    """The function said by `RolledBack` that its work was undone."""


def function(spelt: str, what: str) -> Callable[[Any], Any]:
    """The function `MODULE:FUNCTION`, looked for in the working directory, too.

    Whatever it raises is a `FunctionError`: its own ConnectionError is no failure of the history's
    storage, and its own TypeError no error of this program.

    Args:
        spelt: module and function.
        what: what it is for an error: `service`, `resolver`.

    Raises:
        CommandError: it cannot be imported, or is no function.
        ConfigError: [DH-CONFIG] it is a coroutine function or a generator function.
    """
    module, _, name = spelt.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # the module is the user's, and may raise anything
        raise CommandError(f"the {what} {spelt!r} cannot be imported: {_said(error)}") from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise CommandError(f"the {what} {spelt!r} is not a function")
    run = _services.plain(found, f"the {what}", what=repr(spelt))

    def called(given: Any) -> Any:
        try:
            return run(given)
        except dh.RolledBack as error:
            raise FunctionRolledBackError(f"the {what} {spelt!r} was rolled back: {_said(error)}") from error
        except (Exception, SystemExit) as error:
            raise FunctionError(f"the {what} {spelt!r} failed: {_said(error)}") from error

    return called


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
