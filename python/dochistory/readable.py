"""Values as people read them, on a terminal as on a page."""

import datetime as dt
from typing import Any


def cell(value: Any) -> str:
    """A value as people read it. Nothing in it can steer a terminal: keys come from outside."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def size(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def span(value: dt.timedelta) -> str:
    """A duration in its two largest units: `3 d 4 h`."""
    seconds = int(value.total_seconds())
    parts = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count:,} {unit}")
    return " ".join(parts[:2]) or "0 s"
