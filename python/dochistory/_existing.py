"""Whether a history has to be there: errors and warnings of functions that do not take `create=True`."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from dochistory._native import OpenError

LOGGER = "dochistory"
_ADVICE = "; create=True makes one"

T = TypeVar("T")


@contextmanager
def needed() -> Iterator[None]:
    """Within this, the error about a missing history does not advise what only `dochistory.open` takes.

    Raises:
        OpenError: [DH-OPEN] as the block raises it.
    """
    try:
        yield
    except OpenError as error:
        if _ADVICE not in str(error):
            raise
        raise OpenError(str(error).replace(_ADVICE, ": name the directory or the URL of one")) from None


def or_made(place: str, opening: Callable[[bool], T]) -> T:
    """Open a history, or make it, with a warning: where the path is mistyped, every document would be NEW.

    Args:
        place: the place for people.
        opening: opens it; told whether to make it.

    Raises:
        OpenError: [DH-OPEN] as `opening`.
    """
    try:
        return opening(False)
    except OpenError as error:
        if _ADVICE not in str(error):
            raise
    made = opening(True)
    logging.getLogger(LOGGER).warning(
        "%s: a new history was made here, which knows no document; if there should be one, correct the path", place
    )
    return made
