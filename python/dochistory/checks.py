"""What was looked at, and what was found."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    result: Literal["ok", "note", "wrong"]
    """`note`: something that only some need is missing; `wrong`: something does not work."""
    found: str
