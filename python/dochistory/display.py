"""How histories and claims show themselves in a notebook (`_repr_html_`)."""

from collections.abc import Sequence
from html import escape
from typing import Any

import pyarrow as pa

import dochistory as dh
from dochistory.readable import cell, size

__all__ = ["claim_html", "history_html"]


def history_html(history: dh.History) -> str:
    """A history: its triggers, and what they hold."""
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
    """A claim: how many of its documents got which verdict."""
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
