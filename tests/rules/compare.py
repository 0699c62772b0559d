"""Sets the engine's verdicts beside the reference's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

import dochistory as dh
from tests.reference import trigger_rules as reference


def engine_trigger(name: str, settings: reference.Settings, resolver: Any) -> dh.Trigger:
    """The engine's trigger with the reference's settings."""
    return dh.Trigger(name, resolver=resolver, resolver_backoff="0 s", **asdict(settings))


def engine_answers(batch: pa.RecordBatch) -> list[Any]:
    """A resolver for the engine that answers what the column `answer` says."""
    return [_answer(one, dh.TransientError) for one in batch.column("answer").to_pylist()]


def reference_answers(undecided: list[reference.Undecided]) -> list[Any]:
    """The same resolver for the reference."""
    return [_answer(one.document["answer"], reference.TransientError) for one in undecided]


def _answer(word: str | None, transient: type[Exception]) -> Any:
    match word:
        case "a transient error":
            return transient("later, perhaps")
        case "an error":
            return ValueError("never")
        case _:
            return word


def rows_of(verdicts: Any) -> list[tuple[str | None, str, str, str, str | None]]:
    """Status, action, acknowledgement, rule and key of each row."""
    return [(row["status"], row["action"], row["acknowledge"], row["rule"], row["key"]) for row in verdicts.to_pylist()]


def compare(
    verdicts: Any, expected: Sequence[reference.Verdict], documents: Sequence[dict[str, Any]], label: str
) -> int:
    """Asserts that both agree on every row; returns the number of rows compared."""
    actual = rows_of(verdicts)
    wanted = [(one.status, one.action, one.acknowledge, one.rule, one.key) for one in expected]
    assert len(actual) == len(wanted) == len(documents), label
    differing = [row for row, pair in enumerate(zip(actual, wanted, strict=True)) if pair[0] != pair[1]]
    shown = [f"{documents[row]}\n  engine    {actual[row]}\n  reference {wanted[row]}" for row in differing[:5]]
    assert not differing, f"{label}: {len(differing)} of {len(documents)} rows differ\n" + "\n".join(shown)
    return len(actual)
