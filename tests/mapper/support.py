"""What the mapper's tests share: messages as columns, and verdicts as plain rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

T0 = datetime(2024, 3, 10, 12, 0, 0, tzinfo=UTC)


def messages(ids: Sequence[str | None], **columns: Sequence[Any]) -> pa.RecordBatch:
    """Messages with these ids, and further columns as given."""
    return pa.RecordBatch.from_pydict(
        {"id": pa.array(list(ids), pa.string()), **{name: pa.array(values) for name, values in columns.items()}}
    )


def rules(judged: Any) -> list[str]:
    """The rule of each row."""
    found: list[str] = judged.verdicts["rule"].to_pylist()
    return found


def actions(judged: Any) -> list[str]:
    """The action of each row."""
    found: list[str] = judged.verdicts["action"].to_pylist()
    return found


def statuses(judged: Any) -> list[str | None]:
    """The status of each row."""
    found: list[str | None] = judged.verdicts["status"].to_pylist()
    return found


def errors(answer: pa.RecordBatch) -> list[str | None]:
    """The error of each row."""
    found: list[str | None] = answer["error"].to_pylist()
    return found


def mapped(mapper: Any, ids: Sequence[str | None], **options: Any) -> list[Any]:
    """What each id is mapped to; False where it is not mapped."""
    return [row["mapped_id"] if row["found"] else False for row in mapper.lookup(list(ids), **options).to_pylist()]


def pending(mapper: Any) -> list[str]:
    """The ids that are pending."""
    return sorted(row["id"] for batch in mapper.pending() for row in batch.to_pylist())


def listed(mapper: Any) -> dict[str, Any]:
    """All entries: id -> what it is mapped to."""
    return {row["id"]: row["mapped_id"] for batch in mapper.entries() for row in batch.to_pylist()}
