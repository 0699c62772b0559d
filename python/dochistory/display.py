"""Values in a readable form, on a terminal, on a page and in a notebook."""

import datetime as dt
from typing import Any

__all__ = ["VERDICTS", "cell", "long_span", "size", "span"]

VERDICTS = {"NEW": "#2b8f4f", "DUPLICATE": "#ffe27a", "IN_DOUBT": "#6a0910"}
"""A colour for each verdict, the same everywhere; each has a contrast of at least 3:1 to both others."""


def cell(value: Any) -> str:
    """A value in a readable form, without control characters: keys come from outside."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dt.timedelta):
        return long_span(value)
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def size(count: float) -> str:
    """A number of bytes in a readable form."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def long_span(value: dt.timedelta) -> str:
    """A duration as it is written in settings: `7 days`, `1 day 12 hours`, `500 ms`."""
    rest, parts = value // dt.timedelta(microseconds=1), []
    for unit, length in (("day", 86_400_000_000), ("hour", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000)):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count:,} {unit}{'s' if count != 1 and unit in ('day', 'hour') else ''}")
    if rest:
        parts.append(f"{rest / 1000:g} ms")
    return " ".join(parts) or "0 s"


def span(value: dt.timedelta) -> str:
    """A duration in its two largest units: `3 d 4 h`."""
    seconds = int(value.total_seconds())
    parts = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count:,} {unit}")
    return " ".join(parts[:2]) or "0 s"
