"""Names that a user types: near misses are told."""

import difflib
from collections.abc import Iterable

_LISTED = 10
"""Maximum number of names in an error."""


def near(word: str, names: Iterable[str]) -> str:
    """`; did you mean 'orders'?`, or nothing if no name is close."""
    found = difflib.get_close_matches(word, list(names), 1, 0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def counted(number: int, noun: str) -> str:
    """A number of things: `1 entry`, `1,004 entries`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def numbered(noun: str, numbers: Iterable[int]) -> str:
    """Things by their numbers: `document 7`, `documents 1, 2, 5`, the first ones if there are many."""
    there = sorted(numbers)
    more = f" and {len(there) - _LISTED:,} more" if len(there) > _LISTED else ""
    return f"{noun}{'s' if len(there) > 1 else ''} {', '.join(map(str, there[:_LISTED]))}{more}"


def known(names: Iterable[str]) -> str:
    """The names for an error: `bills, orders`, the first ones if there are many."""
    there = sorted(names)
    more = f" and {len(there) - _LISTED:,} more" if len(there) > _LISTED else ""
    return (", ".join(there[:_LISTED]) or "none yet") + more
