"""What the tests share: documents as columns, triggers with the history switched on, verdicts as plain rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

import dochistory as dh

T0 = datetime(2024, 3, 10, 12, 0, 0, tzinfo=UTC)
"""A fixed clock for tests that pass `now`."""

NEW = ("NEW", "PROCESS", "AFTER_SERVICE")
DUPLICATE = ("DUPLICATE", "DISCARD", "NOW")
IN_DOUBT = ("IN_DOUBT", "LOG", "NOW")
SUSPEND = (None, "SUSPEND", "NO")
REJECT = (None, "REJECT", "NOW")


def trigger(name: str = "orders", kind: Any = "messaging", **settings: Any) -> dh.Trigger:
    """A trigger that detects duplicates by the history, and forgets after two hours, unless told otherwise."""
    return dh.Trigger(name, kind=kind, **{"history_time_to_live": "2 hours", **settings})


def documents(ids: Iterable[str | None], **columns: Sequence[Any]) -> pa.RecordBatch:
    """Documents with these uuids, and further columns as given."""
    arrays: dict[str, Any] = {"uuid": pa.array(list(ids), pa.string())}
    arrays.update(
        {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    )
    return pa.RecordBatch.from_pydict(arrays)


def fresh_ids(count: int) -> list[str]:
    """Random UUIDs in their canonical form."""
    return [str(uuid.uuid4()) for _ in range(count)]


def outcomes(verdicts: Any) -> list[tuple[str | None, str, str]]:
    """Status, action and acknowledgement of each row."""
    return [(row["status"], row["action"], row["acknowledge"]) for row in verdicts.to_pylist()]


def column(verdicts: Any, name: str) -> list[Any]:
    """One column as a list."""
    values: list[Any] = verdicts.column(name).to_pylist()
    return values


def statuses(verdicts: Any) -> list[str | None]:
    """The status of each row."""
    return column(verdicts, "status")


def rules(verdicts: Any) -> list[str]:
    """The rule of each row."""
    return column(verdicts, "rule")


def status_of(
    history: dh.History, ids: Iterable[str], of: dh.Trigger | None = None, **options: Any
) -> list[str | None]:
    """The status each id would have if it came now."""
    return statuses(history.classify(documents(ids), of or trigger(), **options))


def entries(history: dh.History, of: dh.Trigger, **options: Any) -> list[dict[str, Any]]:
    """The entries of a trigger as rows."""
    rows: list[dict[str, Any]] = pa.RecordBatchReader.from_stream(history.entries(of, **options)).read_all().to_pylist()
    return rows


@contextmanager
def away(directory: Path) -> Iterator[None]:
    """Takes the history's files away for a while."""
    elsewhere = directory.with_suffix(".away")
    directory.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(directory)
