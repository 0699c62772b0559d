"""The results of checks."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Check:
    """One check and its result."""

    name: str
    result: Literal["ok", "note", "wrong"]
    """`note`: something that only some need is missing; `wrong`: something does not work."""
    found: str
