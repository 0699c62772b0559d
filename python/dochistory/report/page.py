"""A report as one self-contained HTML page: no network, no script."""

import shlex
from importlib.resources import files
from typing import Any

from dochistory.display import VERDICTS, cell, long_span, size, span
from dochistory.objects import is_url
from dochistory.report.model import Bar, Report
from dochistory.report.rules import RULES, explained


def html(report: Report) -> str:
    """The page. Text from outside, such as keys and names, is escaped.

    Args:
        report: the result of `gather`.

    Returns:
        str: the page.

    Raises:
        ImportError: Jinja is not installed; `pip install 'dochistory[cli]'` installs it.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError("the report needs Jinja: pip install 'dochistory[cli]'") from error
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters.update(
        cell=cell,
        size=size,
        span=span,
        long_span=long_span,
        share=share,
        explained=explained,
        pages=pages,
        quoted=quoted,
    )
    template = files("dochistory.report").joinpath("page.html").read_text(encoding="utf-8")
    tallest = max((_height(bar) for bar in report.bars), default=0)
    return environment.from_string(template).render(
        report=report,
        tallest=max(tallest, 1),
        colours=VERDICTS,
        rules=RULES,
        is_in_bucket=is_url(report.path),
    )


def _height(bar: Bar) -> int:
    return bar.begun + bar.duplicate + bar.in_doubt


def pages(rows: list[Any], most: int = 50) -> list[list[Any]]:
    """The rows in pages of equal length; the last may be shorter."""
    return [rows[at : at + most] for at in range(0, len(rows), most)]


def quoted(text: object) -> str:
    """A word of a command line, as a shell takes it."""
    return shlex.quote(str(text))


def share(part: float, whole: float, of: float = 100.0) -> str:
    """A part of a whole on a scale, for a drawing."""
    return f"{of * part / whole:.2f}" if whole else "0"
