"""The rows of the cross product: every kind of key in every state of the history, with every count and eligibility."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import dochistory as dh
from tests.reference import trigger_rules as reference
from tests.reference.trigger_rules import Kind
from tests.support import trigger

ELIGIBLE = (True, False, None)
COUNTS = (None, -5, -1, 0, 1, 2, 99, 100, 101)
STATES = ("absent", "processing", "completed", "released", "completed only")
ANSWERS = ("NEW", "DUPLICATE", "IN_DOUBT", "IN DOUBT", None, "MAYBE", "an error", "a transient error")
USABLE = ("uuid", "text", "blank", "96", "second, first null", "second, first empty")
UNUSABLE = ("null", "empty", "97", "97, second usable", "second 97")

COLUMN_NAMES = {
    "messaging": ("uuid", "track_id", "event_id", "redelivery_count", "guaranteed"),
    "jms": ("uuid", "jms_message_id", None, "delivery_count", "persistent"),
}


@dataclass(frozen=True)
class Row:
    """A document, and the state its key is to have in the history."""

    document: dict[str, Any]
    state: str


def rows(kind: Kind) -> list[Row]:
    """The whole product; the answers of the resolver vary fastest. No two rows share a usable key."""
    serial = itertools.count()
    classes = [*itertools.product(USABLE, STATES), *itertools.product(UNUSABLE, ["absent"])]
    product = itertools.product(classes, ELIGIBLE, COUNTS, ANSWERS)
    return [
        Row(document(kind, key_class, next(serial), eligible, count, answer), state)
        for (key_class, state), eligible, count, answer in product
    ]


def document(
    kind: Kind, key_class: str, number: int, eligible: bool | None, count: int | None, answer: str | None
) -> dict[str, Any]:
    """One document of the product."""
    first, second, third, count_column, eligible_column = COLUMN_NAMES[kind]
    ids = _ids(key_class, number)
    columns: dict[str, Any] = {str(first): ids[0], str(second): ids[1]}
    if third is not None:
        columns[third] = None if key_class in ("null", "empty") else f"event {number}"
    return columns | {str(count_column): count, str(eligible_column): eligible, "answer": answer}


def _ids(key_class: str, number: int) -> tuple[str | None, str | None]:
    text = f"order {number:07}"
    match key_class:
        case "uuid":
            return str(uuid.UUID(int=(number + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)), text
        case "text":
            return text, None
        case "blank":
            return f"{number:017b}".replace("0", " ").replace("1", "\t"), text
        case "96":
            return text + "é😀" * ((96 - len(text)) // 2) + "z" * (len(text) % 2), None
        case "second, first null":
            return None, f"second {number}"
        case "second, first empty":
            return "", f"second {number}"
        case "null":
            return None, None
        case "empty":
            return "", ""
        case "97":
            return text + "€" * (97 - len(text)), None
        case "97, second usable":
            return text + "x" * (97 - len(text)), f"second {number}"
        case _:
            return None, text + "😀" * (97 - len(text))


def as_batch(kind: Kind, documents: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """The documents as columns; a column that no document has is left out."""
    *id_columns, count_column, eligible_column = COLUMN_NAMES[kind]
    types: dict[str | None, pa.DataType] = dict.fromkeys([*id_columns, "answer"], pa.string())
    types |= {count_column: pa.int32(), eligible_column: pa.bool_()}
    present = documents[0].keys()
    return pa.RecordBatch.from_pydict(
        {name: pa.array([one[name] for one in documents], types[name]) for name in present}
    )


def without(documents: Iterable[dict[str, Any]], *names: str | None) -> list[dict[str, Any]]:
    """The documents without some columns."""
    return [{name: value for name, value in one.items() if name not in names} for one in documents]


def prepare(history: dh.History, name: str, kind: Kind, prepared: Sequence[Row]) -> dict[str, reference.State]:
    """Brings every usable key into its state, and tells which the reference is to find."""
    settings = trigger(name, kind)
    known: dict[str, reference.State] = {}
    keys = {state: list(_keys(kind, prepared, state)) for state in STATES}
    begun = keys["processing"] + keys["completed"] + keys["released"]
    claim = history.begin(pa.RecordBatch.from_pydict({"uuid": pa.array(begun, pa.string())}), settings)
    first_released = len(begun) - len(keys["released"])
    claim.complete(rows=range(len(keys["processing"]), first_released))
    claim.release(rows=range(first_released, len(begun)))
    history.complete(keys["completed only"], settings)
    known |= dict.fromkeys(keys["processing"], "processing")
    known |= dict.fromkeys(keys["completed"] + keys["completed only"], "completed")
    return known


def _keys(kind: Kind, prepared: Sequence[Row], state: str) -> Iterator[str]:
    for row in prepared:
        key = reference.key_of(row.document, kind)
        if row.state == state and key is not None and len(key) <= reference.LONGEST_KEY:
            yield key
