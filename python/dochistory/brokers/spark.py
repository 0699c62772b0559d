"""Brokers' counts as expressions of Spark."""

from importlib import import_module
from typing import Any

from dochistory.brokers.columns import LARGEST, NUMBER, UNKNOWN


class SparkColumns:
    """Columns of Spark: expressions that stay in the JVM."""

    def __init__(self) -> None:
        self._functions: Any = import_module("pyspark.sql.functions")

    def ordinal(self, values: Any, first: int, absent: int) -> Any:
        """As `Columns`."""
        f = self._functions
        text = values.cast("string")
        # Read as text: this accepts every type, and a value that is no number does not stop a query under ANSI rules.
        number = f.when(text.rlike(NUMBER), f.trim(text)).cast("double")
        above = f.least(number - f.lit(first), f.lit(float(LARGEST))).cast("int")
        counted = f.when(number >= f.lit(first), above).otherwise(f.lit(UNKNOWN))
        return f.when(values.isNull() | (text == "NaN"), f.lit(absent)).otherwise(counted)

    def flag(self, values: Any) -> Any:
        """As `Columns`."""
        f = self._functions
        text = f.lower(f.trim(values.cast("string")))
        return (
            f.when(text.isin("true", "1"), f.lit(1)).when(text.isin("false", "0"), f.lit(0)).otherwise(f.lit(UNKNOWN))
        )

    def constant(self, values: Any, constant: int) -> Any:
        """As `Columns`."""
        del values
        return self._functions.lit(constant)

    def largest(self, *counts: Any) -> Any:
        """As `Columns`."""
        return self._functions.greatest(*counts)

    def combined(self, counts: list[Any], flag: Any) -> Any:
        """As `Columns`."""
        f = self._functions
        # Spark's function takes at least two arguments.
        shown = [*counts, counts[0] if flag is None else flag]
        largest = f.greatest(*shown)
        unreadable = (f.least(*counts, counts[0]) == f.lit(UNKNOWN)) & (largest == f.lit(0))
        return f.when(unreadable, f.lit(UNKNOWN)).otherwise(largest)
