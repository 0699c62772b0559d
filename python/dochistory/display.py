"""Values in a readable form, on a terminal and on a page; histories and claims in a notebook (`_repr_html_`)."""

import datetime as dt
from collections.abc import Sequence
from html import escape
from typing import Any

import dochistory as dh

__all__ = ["cell", "claim_html", "history_html", "size", "span"]


def cell(value: Any) -> str:
    """A value in a readable form, without control characters: keys come from outside."""
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
    """A number of bytes in a readable form."""
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


def history_html(history: dh.History) -> str:
    """A history: its triggers and their entries."""
    if history.closed:
        return f"<p>Document history <code>{escape(str(history.path))}</code>, closed</p>"
    figures = history.stats()
    rows = [
        [
            name,
            one["segment_entries"] + one["log_entries"],
            size(one["segment_bytes"] + one["log_bytes"] + one["filter_bytes"]),
            one["oldest_started_at"],
            one["history_time_to_live"] or None,
        ]
        for name, one in sorted(figures["triggers"].items())
    ]
    title = f"<p>Document history <code>{escape(str(history.path))}</code></p>"
    return title + _table(["trigger", "entries", "on disk", "oldest (UTC)", "time to live"], rows)


def claim_html(claim: dh.Claim) -> str:
    """A claim: the number of its documents with each verdict."""
    import pyarrow as pa  # here, for the command line shows values without it

    columns = ["status", "action", "rule"]
    verdicts = pa.table(claim.verdicts)
    plain = pa.table({name: verdicts[name].cast(pa.string()) for name in columns})
    counted = plain.group_by(columns).aggregate([([], "count_all")]).sort_by([("count_all", "descending")])
    rows = [[row[name] for name in (*columns, "count_all")] for row in counted.to_pylist()]
    number = "nothing to process" if claim.id is None else f"number {claim.id:,}"
    title = f"<p>Claim, {number}: {verdicts.num_rows:,} documents, begun {cell(claim.started_at)} UTC</p>"
    return title + _table([*columns, "documents"], rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
