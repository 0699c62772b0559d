"""The entries of an audit log: their columns, and the entries of a batch's documents in doubt."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import dochistory as dh
from dochistory import _columns
from dochistory.audit import store

APPLICATION = "dochistory.audit"
"""The name under which the history remembers resubmissions: its transactions are (this, number of the event)."""

TIME = pa.timestamp("us", "UTC")
KEPT = pa.schema(
    [
        ("time", TIME),
        ("trigger", pa.string()),
        ("key", pa.string()),
        ("rule", pa.string()),
        ("message", pa.string()),
        ("count", pa.int64()),
        ("row", pa.int64()),
        ("application", pa.string()),
        ("batch", pa.int64()),
    ]
)

ENTRIES = pa.schema(
    [
        store.NUMBER,
        *KEPT,
        ("state", pa.string()),
        ("changed_at", TIME),
        ("by", pa.string()),
        ("note", pa.string()),
    ]
)
"""The columns of `AuditLog.list`.

`number` names the document; `time` is when it was kept; `trigger`, `key`, `rule` and `message` are its verdict's,
`count` its redelivery count and `row` its row in the batch; `application` and `batch` the transaction it came in, if
any; `state` what became of it, `changed_at` since when (null while it is open), `by` and `note` who decided, and why.
"""

_COUNT = {"messaging": "redelivery_count", "jms": "delivery_count"}


def of_batch(
    documents: Any,
    verdicts: Any,
    trigger: dh.Trigger,
    columns: Mapping[str, str],
    transaction: tuple[str, int] | None,
    now: dt.datetime | None,
) -> pa.Table | None:
    """The entries of a batch's documents in doubt, each with its document; None if there is none.

    Raises:
        SchemaError: [DH-SCHEMA] documents and verdicts are not of one batch.
    """
    judged = _columns.verdicts_of(verdicts)
    rows = _columns.rows_where(judged["status"], "IN_DOUBT")
    if not len(rows):
        return None
    table = _columns.table_of(documents)
    _columns.same_rows(table, judged)
    counts = _integers(table, count_column(trigger, columns))
    found, whole, size = judged.take(rows), _columns.without_views(table).take(rows), len(rows)
    application, batch = transaction or (None, None)
    entries = pa.table(
        {
            "time": pa.repeat(pa.scalar(now or dt.datetime.now(dt.UTC), TIME), size),
            "trigger": pa.repeat(trigger.name, size),
            "key": _columns.text(found["key"]),
            "rule": _columns.text(found["rule"]),
            "message": _columns.text(found["message"]),
            "count": counts.take(rows).cast(pa.int64()),
            "row": rows,
            "application": pa.array([application] * size, pa.string()),
            "batch": pa.array([batch] * size, pa.int64()),
        },
        schema=KEPT,
    )
    entries = entries.append_column(store.DOCUMENT, whole.to_struct_array())
    return entries.replace_schema_metadata(store.settings_of(trigger))


def count_column(trigger: dh.Trigger, columns: Mapping[str, str]) -> str:
    """The documents' column with their redelivery counts."""
    return columns.get(_COUNT[trigger.kind], _COUNT[trigger.kind])


def _integers(table: pa.Table, name: str) -> Any:
    """A column of integers; nulls if there is none of this name."""
    return table[name] if name in table.column_names else pa.chunked_array([pa.nulls(table.num_rows, pa.int64())])
