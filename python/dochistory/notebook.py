"""What a notebook shows (`_repr_html_`): the figures, and first of all what is unfinished."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import dochistory as dh
from dochistory.display import VERDICTS, cell, size, span

if TYPE_CHECKING:
    from dochistory.audit import AuditLog
    from dochistory.statistics import Statistics

__all__ = ["audit_html", "claim_html", "history_html", "mapper_html", "statistics_html"]

_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL = "text-align:left;padding:.2em .8em .2em 0;border-bottom:1px solid #8884"
_BAD = "color:#c0261d;font-weight:600"
_MOST = 20
"""The maximum number of rows of a list that are shown."""


def history_html(history: dh.History) -> str:
    """A history: what waits, and its triggers."""
    path = escape(history.url or str(history.path))
    if history.closed:
        return f"<p>Document history <code>{path}</code>, closed</p>"
    from dochistory import overview  # here, because it imports what this package imports

    # Counting what is unfinished reads all entries, and a notebook shows a value after every cell.
    seen = overview.look(history, in_progress=False)
    columns = ["trigger", "entries", "on disk", "time to live", "audit log", "new", "duplicates", "in doubt", "purge"]
    rows = [
        [
            one.name,
            one.entries,
            size(one.bytes),
            one.time_to_live,
            one.waiting,
            one.counts["new"],
            one.counts["duplicate"],
            one.counts["in_doubt"],
            f"overdue by {span(one.overdue)}" if one.overdue else "nothing is due",
        ]
        for one in seen.triggers
    ]
    waits = "".join(f'<li style="{_BAD}">{escape(cell(sentence))}</li>' for sentence in seen.unfinished)
    return (
        f"<p>Document history <code>{path}</code></p>" + _table(columns, rows) + (f"<ul>{waits}</ul>" if waits else "")
    )


def claim_html(claim: dh.Claim) -> str:
    """A claim: the number of its documents with each verdict, and how many have not ended."""
    import pyarrow as pa  # here, for the command line shows values without it

    columns = ["status", "action", "rule"]
    verdicts = pa.table(claim.verdicts)
    plain = pa.table({name: verdicts[name].cast(pa.string()) for name in columns})
    counted = plain.group_by(columns).aggregate([([], "count_all")]).sort_by([("count_all", "descending")])
    rows = [[row[name] for name in (*columns, "count_all")] for row in counted.to_pylist()]
    number = "nothing to process" if claim.id is None else f"number {claim.id:,}"
    title = f"<p>Claim, {number}: {verdicts.num_rows:,} documents, begun {cell(claim.started_at)} UTC</p>"
    return title + _table([*columns, "documents"], rows)


def statistics_html(statistics: "Statistics") -> str:
    """Statistics: the counts of each trigger."""
    rows = [
        [name, one["new"], one["duplicate"], _by_rule(one["in_doubt"]), one["suspended"], one["rejected"]]
        for name, one in statistics.summary().items()
    ]
    shown = escape(statistics.url or str(statistics.path))
    whose = ", of this machine" if statistics.url else ""
    title = f"<p>Exactly-once statistics of <code>{shown}</code>{whose}</p>"
    return title + _table(["trigger", "new", "duplicates", "in doubt", "suspended", "rejected"], rows)


def _by_rule(counted: Mapping[str, int]) -> str:
    rules = ", ".join(f"{rule}: {count:,}" for rule, count in counted.items())
    return f"{sum(counted.values()):,} ({rules})" if rules else "0"


def mapper_html(mapper: dh.MessageIdMapper) -> str:
    """A message id mapper: what is pending."""
    rows: list[list[Any]] = []
    count = 0
    for batch in mapper.pending():
        count += batch.num_rows
        if len(rows) < _MOST:
            found = batch.select(["id", "pending_since", "resolved"]).slice(0, _MOST - len(rows))
            rows += [list(row.values()) for row in found.to_pylist()]
    waiting = _waiting(count, "pending", "no id is pending")
    title = f"<p>Message id mapper <code>{escape(mapper.name)}</code>: {waiting}</p>"
    return title + (_table(["id", "pending since (UTC)", "resolved"], rows) if rows else "")


def audit_html(log: "AuditLog") -> str:
    """An audit log: how many documents are in which state, and the oldest that wait."""
    from dochistory.overview import WAITING  # here, because it imports what this package imports

    entries = log.list()
    counted = entries.group_by("state").aggregate([([], "count_all")]).sort_by("state").to_pylist()
    waiting = [row for row in entries.to_pylist() if row["state"] in WAITING]
    title = f"<p>Audit log: {_waiting(len(waiting), 'waiting', 'no document waits')}</p>"
    names = ["number", "trigger", "key", "rule", "state", "time"]
    states = _table(["state", "documents"], [[row["state"], row["count_all"]] for row in counted])
    oldest = [[row[name] for name in names] for row in waiting[:_MOST]]
    return title + states + (_table(names, oldest) if oldest else "")


def _waiting(count: int, some: str, none: str) -> str:
    return f'<span style="{_BAD}">{count:,} {some}</span>' if count else none


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f'<th scope="col" style="{_CELL}">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(value: Any) -> str:
    colour = VERDICTS.get(value) if isinstance(value, str) else None
    if colour is None:
        return f'<td style="{_CELL}">{escape(cell(value))}</td>'
    ink = "#fff" if value == "IN_DOUBT" else "#000"
    shown = f'<span style="background:{colour};color:{ink};padding:0 .4em;border-radius:.2em">{value}</span>'
    return f'<td style="{_CELL}">{shown}</td>'
