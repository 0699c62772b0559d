"""Settling many documents at once: what the history knows has ended, by rule, by a resolver, from a file."""

# ruff: noqa: SLF001 - a log is made of both

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import dochistory as dh
from dochistory._retrying import answer_of, listed

if TYPE_CHECKING:
    from dochistory.audit.log import AuditLog, State

OPEN: tuple["State", ...] = ("open", "process", "cut_off")
"""States of documents that are not settled, and are not being resubmitted."""

SETTLED: tuple["State", ...] = ("resubmitted", "duplicate")
"""States that nothing follows."""

BY = "reconcile"
"""Who decided, of a document that the history says was completed."""

_AT_ONCE = 4_096
"""The number of documents that a resolver is asked about at once."""


def completed(log: "AuditLog", trigger: str) -> list[int]:
    """The numbers of a trigger's open documents whose keys the history has as completed."""
    entries = log._listed(trigger, OPEN)
    entries = entries.filter(pc.is_valid(entries["key"]))
    if not entries.num_rows:
        return []
    settings = log._contents.trigger(trigger)
    verdicts = log.history.classify(pa.table({"uuid": entries["key"]}), settings)
    is_completed = pc.equal(verdicts["rule"].cast(pa.string()), "R9")
    numbers: list[int] = entries["number"].filter(is_completed).to_pylist()
    return numbers


def answers(log: "AuditLog", trigger: str, numbers: list[int], resolver: Any) -> dict[int, str]:
    """What a resolver says of open documents: number -> NEW, DUPLICATE or IN_DOUBT."""
    found: dict[int, str] = {}
    for start in range(0, len(numbers), _AT_ONCE):
        some = numbers[start : start + _AT_ONCE]
        given = resolver(_batch(log, trigger, some))
        said = listed(given, arrow=True) or []
        if len(said) != len(some):
            raise dh.SchemaError(f"[DH-SCHEMA] the resolver gave {len(said)} answers about {len(some)} documents")
        found |= {
            number: str(answer_of(answer)).replace("IN DOUBT", "IN_DOUBT")
            for number, answer in zip(some, said, strict=True)
        }
    return found


def _batch(log: "AuditLog", trigger: str, numbers: list[int]) -> pa.RecordBatch:
    """The documents, in the columns that a resolver gets."""
    entries = log._contents.chosen(numbers)
    documents = log.documents(numbers)
    asked = {
        "dh_key": entries["key"],
        "dh_count": entries["count"],
        "dh_trigger": pa.repeat(trigger, len(numbers)),
        "dh_reason": pc.utf8_slice_codeunits(entries["rule"].cast(pa.string()), 0, 8),
        "dh_started_at": pa.nulls(len(numbers), pa.timestamp("us", "UTC")),
        "dh_row": pa.array(range(len(numbers)), pa.uint32()),
    }
    for name, column in asked.items():
        documents = documents.append_column(name, column)
    return documents.combine_chunks().to_batches()[0]
