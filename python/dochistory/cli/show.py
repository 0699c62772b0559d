"""Output for people and programs: tables, figures, progress. Rich makes tables pretty where it is installed."""

import datetime as dt
import json
import os
import shutil
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from dochistory.display import cell, size
from dochistory.progress import Bar

__all__ = ["as_json", "base64", "cell", "listing", "progress", "size", "table"]

TERMINAL = {
    "NEW": "green",
    "DUPLICATE": "yellow",
    "IN_DOUBT": "bold red",
    "processing": "bold red",
    "wrong": "bold red",
}
"""What stands out where a person looks: verdicts have the colours of `dochistory.display.VERDICTS`."""

ANSI = {text: {"green": "32", "yellow": "33"}.get(style, "1;31") for text, style in TERMINAL.items()}
"""The same without rich."""

_LEAST = 16
"""A column that is narrower than this cannot be read."""

MOST = 50
"""This many of the newest rows are shown, unless another number is asked for."""

Progress = Callable[[int, int], object]
"""Called with what is done, and all there is."""


def as_json(value: Any) -> str:
    """One JSON document: times in ISO 8601, durations in seconds, bytes in base64."""
    return json.dumps(value, default=_plain, ensure_ascii=False)


def base64(value: bytes) -> str:
    """Bytes, where there is text only."""
    return b64encode(value).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64(value)
    if isinstance(value, Path):
        return str(value)
    return str(value)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; numbers are aligned to the right.

    On a terminal it never gets wider than that: a table with one long column folds it, and any
    other is shown a row at a time. A pipe gets whole lines.
    """
    cells = [[cell(value) for value in row] for row in rows]
    right = [
        bool(rows) and all(value is None or isinstance(value, int) for value in column)
        for column in zip(*rows, strict=True)
    ] or [False] * len(columns)
    widths = [max(len(name), *(len(row[n]) for row in cells), 0) for n, name in enumerate(columns)]
    if not sys.stdout.isatty():
        _plain_table(title, columns, cells, right, widths)
        return
    wide = shutil.get_terminal_size().columns
    boxed, bare = _room(widths, wide - 3 * len(widths) - 1), _room(widths, wide - 2 * (len(widths) - 1))
    if boxed is not None and _rich_table(title, columns, cells, right, boxed):
        return
    if bare is None:
        _records(title, columns, cells, wide)
        return
    folded = [row for one in cells for row in _folded(one, bare)]
    _plain_table(title, columns, folded, right, [min(width, bare) for width in widths])


def listing(columns: Sequence[str], rows: Sequence[Sequence[Any]], nothing: str) -> None:
    """Print a table, or where there is no row a sentence, which says that the command worked."""
    if rows:
        table("", columns, rows)
    else:
        print(nothing)


def _room(widths: Sequence[int], wide: int) -> int | None:
    """The width that the widest column may have; None if the others leave it too little."""
    widest = max(widths, default=0)
    room = wide - (sum(widths) - widest)
    return max(room, 1) if room >= min(widest, _LEAST) else None


def _folded(row: Sequence[str], room: int) -> list[list[str]]:
    parts = [[text[at : at + room] for at in range(0, len(text), room)] or [""] for text in row]
    return [list(line) for line in zip_longest(*parts, fillvalue="")]


def _plain_table(
    title: str, columns: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool], widths: Sequence[int]
) -> None:
    if title:
        print(title)
    for row in ([*columns], *cells):
        fitted = (
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(row, widths, right, strict=True)
        )
        print("  ".join(fitted).rstrip())


def _records(title: str, columns: Sequence[str], cells: Sequence[Sequence[str]], wide: int) -> None:
    """A row at a time: a line for each of its values."""
    if title:
        print(title)
    width = max(len(name) for name in columns)
    for number, row in enumerate(cells):
        if number:
            print()
        for name, text in zip(columns, row, strict=True):
            first, *rest = _folded([text], max(wide - width - 2, _LEAST))
            print(f"{name.ljust(width)}  {_coloured(first[0])}")
            for more in rest:
                print(f"{'':{width}}  {more[0]}")


def _coloured(text: str) -> str:
    """A value in the colour of its verdict, where colours are wanted."""
    code = ANSI.get(text)
    return text if code is None or "NO_COLOR" in os.environ else f"\x1b[{code}m{text}\x1b[0m"


def _rich_table(
    title: str, columns: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool], room: int
) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    made = Table(title=title or None, title_justify="left", header_style="bold")
    for name, is_right in zip(columns, right, strict=True):
        made.add_column(name, justify="right" if is_right else "left", overflow="fold", max_width=room)
    for row in cells:
        made.add_row(*(Text(text, style=TERMINAL.get(text, "")) for text in row))
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
