"""Verdicts as numbers mean what the verdicts in words say."""

from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import column, trigger

LONG = "x" * 97


def in_words(codes: pa.Array, ids: list[pa.Array]) -> list[tuple[Any, ...]]:
    """What the documentation says of the numbers."""
    words = dh.verdict_words().to_pylist()
    found = []
    for row, code in enumerate(codes.to_pylist()):
        word = words[-1 - code if code < 0 else code % 128]
        key = None if code < 0 else ids[code // 128][row].as_py()
        found.append((word["status"], word["action"], word["acknowledge"], word["rule"], key, word["message"]))
    return found


@pytest.mark.parametrize("names", [["uuid"], ["uuid", "track_id", "event_id"], ["event_id"]])
@pytest.mark.parametrize("settings", [{}, {"use_history": False}, {"detect_duplicates": False}])
def test_numbers_and_words_say_the_same(history: dh.History, names: list[str], settings: dict[str, Any]) -> None:
    orders = trigger(processing_mode="serial")
    history.begin(pa.record_batch({"uuid": ["done"]}), orders).complete()
    history.begin(pa.record_batch({"uuid": ["begun"]}), orders)
    values = ["done", "begun", "new", "", None, LONG, "new"]
    ids = {name: pa.array(values[n:] + values[:n], pa.string()) for n, name in enumerate(names)}
    counts = pa.array([0, 1, -1, 200, None, 0, 3], pa.int32())
    documents = pa.record_batch({**ids, "redelivery_count": counts})
    asked = trigger(processing_mode="serial", **settings)

    codes = history.classify_codes(documents, asked)
    verdicts = history.classify(documents, asked)

    assert codes.type == (pa.int8() if len(names) == 1 else pa.int16())
    columns = ("status", "action", "acknowledge", "rule", "key", "message")
    expected = list(zip(*(column(verdicts, name) for name in columns), strict=True))
    assert in_words(codes, list(ids.values())) == expected
    assert len(set(expected)) > 2


def test_codes_fit_the_byte_that_they_come_in(history: dh.History) -> None:
    assert dh.verdict_words().num_rows <= 128
    assert history.classify_codes(pa.record_batch({"uuid": pa.array([], pa.string())}), trigger()).to_pylist() == []
