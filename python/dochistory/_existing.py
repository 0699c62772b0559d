"""Errors about a history that has to be there, of functions that do not take `create=True`."""

from collections.abc import Iterator
from contextlib import contextmanager

from dochistory._native import OpenError

_ADVICE = "; create=True makes one"


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
