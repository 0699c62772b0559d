"""Output for people and programs: tables, figures, progress. Rich makes tables pretty where it is installed."""

import datetime as dt
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dochistory.display import cell, size
from dochistory.progress import Bar

__all__ = ["as_json", "cell", "progress", "size", "table"]

MOST = 50
"""This many of the newest rows are shown, unless another number is asked for."""

Progress = Callable[[int, int], object]
"""Called with what is done, and all there is."""


def as_json(value: Any) -> str:
    """One JSON document: times in ISO 8601, durations in seconds."""
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Path):
        return str(value)
    return str(value)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; numbers are aligned to the right."""
    cells = [[cell(value) for value in row] for row in rows]
    right = [
        bool(rows) and all(value is None or isinstance(value, int) for value in column)
        for column in zip(*rows, strict=True)
    ] or [False] * len(columns)
    if sys.stdout.isatty() and _rich_table(title, columns, cells, right):
        return
    widths = [max(len(name), *(len(row[n]) for row in cells), 0) for n, name in enumerate(columns)]
    if title:
        print(title)
    for row in ([*columns], *cells):
        fitted = (
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(row, widths, right, strict=True)
        )
        print("  ".join(fitted).rstrip())


def _rich_table(title: str, columns: Sequence[str], cells: list[list[str]], right: Sequence[bool]) -> bool:
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        return False
    made = Table(title=title or None, title_justify="left", header_style="bold")
    for name, is_right in zip(columns, right, strict=True):
        made.add_column(name, justify="right" if is_right else "left", overflow="fold")
    for row in cells:
        made.add_row(*(escape(text) for text in row))
    Console().print(made)
    return True


@contextmanager
def progress(label: str, *, quiet: bool = False) -> Iterator[Progress | None]:
    """A bar on standard error, if that is a terminal; else None."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with Bar(label) as bar:
        yield bar
