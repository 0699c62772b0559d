"""The operations on columns that the brokers' functions use."""

from typing import Any, Protocol

UNKNOWN = -1
"""The redelivery count of a document whose broker does not say."""

LARGEST = 2**31 - 1
"""The largest count; greater ones are cut off."""

NUMBER = r"^\s*[+-]?[0-9]{1,18}(\.0*)?\s*$"
"""Text that is a count, for regular expressions of Arrow as well as of Java."""


class Columns(Protocol):
    """Columns of Arrow, or of Spark."""

    def ordinal(self, values: Any, first: int, absent: int) -> Any:
        """`values` less `first`; `absent` for null, -1 for a value below `first` or no number."""
        ...

    def flag(self, values: Any) -> Any:
        """1 for true, 0 for false, -1 for null and other values."""
        ...

    def constant(self, values: Any, constant: int) -> Any:
        """The same number for every value."""
        ...

    def largest(self, *counts: Any) -> Any:
        """The maximum of the counts."""
        ...

    def combined(self, counts: list[Any], flag: Any) -> Any:
        """The maximum of the counts and the flag, if there is one; but a count of -1 wins over 0."""
        ...
