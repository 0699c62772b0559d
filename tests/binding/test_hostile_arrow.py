"""Arrow data that is not valid: a typed error or an answer, whatever stands in offsets, views, indices and bitmaps."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dochistory as dh
from tests.support import trigger

ROWS = 4
small = st.integers(-3, 40)


def buffer(numbers: list[int], width: str) -> Any:
    return pa.py_buffer(struct.pack(f"<{len(numbers)}{width}", *numbers))


def asked(history: dh.History, column: Any) -> list[Any] | None:
    """The verdicts' statuses, or None where the column is refused in words."""
    try:
        table = pa.RecordBatch.from_arrays([column], ["uuid"])
        found: list[Any] = history.classify(table, trigger()).column("status").to_pylist()
    except dh.SchemaError as error:
        return None if str(error).startswith("[DH-SCHEMA]") else [str(error)]
    return found


some = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)


@some
@given(st.lists(st.integers(0, 20), min_size=ROWS, max_size=ROWS), st.integers(0, 255))
def test_text_whose_offsets_go_back_is_refused(history: dh.History, offsets: list[int], nulls: int) -> None:
    # The last offset says how long the values are: an importer cannot know better, so it is true here.
    given_offsets = [0, *offsets[: ROWS - 1], 20]
    parts = [pa.py_buffer(bytes([nulls])), buffer(given_offsets, "i"), pa.py_buffer(b"x" * 20)]
    column = pa.Array.from_buffers(pa.string(), ROWS, parts)
    rises = given_offsets == sorted(given_offsets)
    assert (asked(history, column) is not None) == rises


@some
@given(st.lists(small, min_size=ROWS, max_size=ROWS), st.integers(0, 15))
def test_an_index_past_its_dictionary_is_refused(history: dh.History, indices: list[int], valid: int) -> None:
    keys = pa.Array.from_buffers(pa.int32(), ROWS, [pa.py_buffer(bytes([valid])), buffer(indices, "i")])
    values = pa.array(["a", "b", "c"])
    column = pa.DictionaryArray.from_arrays(keys, values, safe=False)
    is_good = all(0 <= index < 3 for row, index in enumerate(indices) if valid >> row & 1)
    assert (asked(history, column) is not None) == is_good


@some
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3), st.integers(0, 40)), min_size=ROWS, max_size=ROWS))
def test_a_view_past_its_buffers_is_refused(history: dh.History, views: list[tuple[int, int, int]]) -> None:
    packed = b"".join(struct.pack("<i4sii", length, b"abcd", number, start) for length, number, start in views)
    column = pa.Array.from_buffers(
        pa.string_view(), ROWS, [None, pa.py_buffer(packed), pa.py_buffer(b"y" * 30), pa.py_buffer(b"z" * 20)]
    )
    sizes = [30, 20]
    is_good = all(length <= 12 or (number < 2 and start + length <= sizes[number]) for length, number, start in views)
    assert (asked(history, column) is not None) == is_good


@pytest.mark.parametrize("content", [b"\xff\xfe\xfd", b"\x80" * 97, b"\0" * 96])
def test_id_that_is_not_utf8_is_refused_or_decided_as_others(history: dh.History, content: bytes) -> None:
    column = pa.Array.from_buffers(pa.string(), 1, [None, buffer([0, len(content)], "i"), pa.py_buffer(content)])
    assert asked(history, column) in (None, ["NEW"])
