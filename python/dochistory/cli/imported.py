"""Functions of the user's that an option names as MODULE:FUNCTION."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

from dochistory.cli.failures import CommandError


def function(spelt: str, what: str) -> Callable[[Any], Any]:
    """The function `MODULE:FUNCTION`, looked for in the working directory, too.

    Args:
        spelt: module and function.
        what: what it is for an error: `service`, `resolver`.

    Raises:
        CommandError: it cannot be imported, or is no function.
    """
    module, _, name = spelt.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # the module is the user's, and may raise anything
        raise CommandError(f"the {what} {spelt!r} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise CommandError(f"the {what} {spelt!r} is not a function")
    made: Callable[[Any], Any] = found
    return made
