"""Keys: the chain of id columns, the limit of 96 code points, and every form of column an id may come in."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import column, documents, entries, fresh_ids, rules, status_of, statuses, trigger

A = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
B = "7c9e6679-7425-40de-944b-e07fc1f90ae7"

FORMS: dict[str, Callable[[list[str | None]], pa.Array]] = {
    "utf8": lambda ids: pa.array(ids, pa.string()),
    "large_utf8": lambda ids: pa.array(ids, pa.large_string()),
    "utf8_view": lambda ids: pa.array(ids, pa.string_view()),
    "dictionary": lambda ids: pa.array(ids, pa.string()).dictionary_encode(),
    "dictionary int8 large": lambda ids: pa.array(ids, pa.dictionary(pa.int8(), pa.large_string())),
    "dictionary int64": lambda ids: pa.array(ids, pa.dictionary(pa.int64(), pa.string())),
    "dictionary uint16": lambda ids: pa.array(ids, pa.dictionary(pa.uint16(), pa.string())),
    "16 bytes": lambda ids: pa.array([None if one is None else uuid.UUID(one).bytes for one in ids], pa.binary(16)),
    "dictionary utf8_view": lambda ids: pa.DictionaryArray.from_arrays(
        pa.array([None if one is None else row for row, one in enumerate(ids)], pa.int32()),
        pa.array([one or "" for one in ids], pa.string_view()),
    ),
}


def batch_of(ids: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"uuid": ids})


@pytest.mark.parametrize("unit", ["x", "é", "€", "😀"])
def test_96_code_points_are_a_key_and_97_are_not(history: dh.History, unit: str) -> None:
    assert rules(history.classify(documents([unit * 95, unit * 96, unit * 97]), trigger())) == ["R8", "R8", "R4"]


def test_code_points_are_counted_not_graphemes_or_utf16_units(history: dh.History) -> None:
    accents = "e\u0301" * 48
    family = "👩\u200d👩\u200d👧" * 19
    assert [len(accents), len(family)] == [96, 95]
    assert rules(history.classify(documents([accents, accents + "x", family + "x", family + "xx"]), trigger())) == [
        "R8",
        "R4",
        "R8",
        "R4",
    ]


def test_long_keys_that_differ_only_at_the_end_are_different(history: dh.History) -> None:
    history.begin(documents(["😀" * 95 + "a"]), trigger()).complete()
    assert status_of(history, ["😀" * 95 + "a", "😀" * 95 + "b"]) == ["DUPLICATE", "NEW"]


def test_null_and_empty_ids_are_absent_and_blanks_are_a_value(history: dh.History) -> None:
    assert rules(history.classify(documents([None, "", " ", "\t", "\0"]), trigger())) == ["R3", "R3", "R8", "R8", "R8"]


def test_an_absent_id_falls_back_along_the_chain(history: dh.History) -> None:
    batch = documents(
        ["u", None, "", None, None],
        track_id=pa.array(["t", "t", None, "", None]),
        event_id=pa.array(["e", "e", "e", "e", ""]),
    )
    assert column(history.classify(batch, trigger()), "key") == ["u", "t", "e", "e", None]


def test_a_jms_message_falls_back_to_its_message_id_only(history: dh.History) -> None:
    batch = documents([None, "u", ""], jms_message_id=pa.array(["m", "m", None]), track_id=pa.array(["t", "t", "t"]))
    verdicts = history.classify(batch, trigger(kind="jms"))
    assert column(verdicts, "key") == ["m", "u", None]
    assert rules(verdicts) == ["R8", "R8", "R3"]


def test_a_messaging_document_does_not_know_jms_message_ids(history: dh.History) -> None:
    batch = documents([None], jms_message_id=pa.array(["m"]))
    assert rules(history.classify(batch, trigger())) == ["R3"]


def test_an_id_that_is_too_long_does_not_fall_back(history: dh.History) -> None:
    batch = documents(["x" * 97, None], track_id=pa.array(["t", "x" * 97]), event_id=pa.array(["e", "e"]))
    assert rules(history.classify(batch, trigger())) == ["R4", "R4"]


def test_one_value_is_one_key_whichever_column_it_comes_from(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger()).complete()
    batch = documents([None, None], track_id=pa.array(["a", None]), event_id=pa.array([None, "a"]))
    assert statuses(history.classify(batch, trigger())) == ["DUPLICATE", "DUPLICATE"]


def test_a_key_column_may_be_missing_when_another_is_there(history: dh.History) -> None:
    batch = pa.RecordBatch.from_pydict({"event_id": pa.array(["e", None])})
    assert rules(history.classify(batch, trigger())) == ["R8", "R3"]


def test_columns_may_go_by_other_names(history: dh.History) -> None:
    batch = pa.RecordBatch.from_pydict({"my_id": pa.array(["a", "b"]), "tries": pa.array([0, 1])})
    names = {"uuid": "my_id", "redelivery_count": "tries"}
    assert column(history.classify(batch, trigger(), columns=names), "key") == ["a", "b"]
    verdicts = history.classify(batch, trigger(use_history=False), columns=names)
    assert rules(verdicts) == ["R12", "R14"]


@pytest.mark.parametrize(
    "other", [A.upper(), A.title(), f"{{{A}}}", A.replace("-", ""), f" {A}", f"{A} ", f"urn:uuid:{A}"]
)
def test_another_spelling_of_a_uuid_is_another_id(history: dh.History, other: str) -> None:
    history.begin(documents([A]), trigger()).complete()
    assert other != A
    assert status_of(history, [A, other]) == ["DUPLICATE", "NEW"]


def test_neither_case_nor_normalisation_folds_text(history: dh.History) -> None:
    history.begin(documents(["Straße", "\u00e9"]), trigger()).complete()
    others = ["straße", "STRASSE", "e\u0301", "Straße\0", "Straße "]
    assert status_of(history, ["Straße", "\u00e9", *others]) == ["DUPLICATE", "DUPLICATE"] + ["NEW"] * len(others)


def test_texts_that_nearly_look_like_uuids_are_kept_apart(history: dh.History) -> None:
    near = [A[:-1] + "G", A[:8] + "_" + A[9:], A[:-1], A + "0", A[:19] + A[20:] + "-", "g" + A[1:]]
    history.begin(documents([A]), trigger()).complete()
    assert status_of(history, near) == ["NEW"] * len(near)
    history.begin(documents(near), trigger()).complete()
    assert status_of(history, [*near, A, B]) == ["DUPLICATE"] * (len(near) + 1) + ["NEW"]


@pytest.mark.parametrize("written", FORMS)
@pytest.mark.parametrize("read", FORMS)
def test_a_uuid_is_the_same_id_in_every_form_of_column(history: dh.History, written: str, read: str) -> None:
    history.begin(batch_of(FORMS[written]([A, None])), trigger()).complete()
    verdicts = history.classify(batch_of(FORMS[read]([B, A, None])), trigger())
    assert rules(verdicts) == ["R8", "R9", "R3"]
    assert column(verdicts, "key") == [B, A, None]


@pytest.mark.parametrize("form", FORMS)
def test_slices_see_their_own_rows(history: dh.History, form: str) -> None:
    ids = fresh_ids(100)
    history.begin(documents(ids[50:60]), trigger()).complete()
    whole = batch_of(FORMS[form]([None if row % 7 == 3 else one for row, one in enumerate(ids)]))
    for start in (0, 45, 49, 50, 51, 57, 87):
        verdicts = history.classify(whole.slice(start, 13), trigger())
        rows = range(start, start + 13)
        assert rules(verdicts) == ["R3" if row % 7 == 3 else "R9" if 50 <= row < 60 else "R8" for row in rows]
        assert column(verdicts, "key") == [None if row % 7 == 3 else ids[row] for row in rows]


def test_slices_see_their_own_counts_and_flags(history: dh.History) -> None:
    counts = pa.array([None if row % 5 == 0 else row % 3 for row in range(100)], pa.int64())
    flags = pa.array([None if row % 11 == 0 else row % 4 != 0 for row in range(100)])
    batch = documents([f"n{row}" for row in range(100)], redelivery_count=counts, guaranteed=flags)
    settings = trigger(use_history=False)
    whole = rules(history.classify(batch, settings))
    assert len(set(whole)) == 4
    for start in (1, 7, 8, 9, 63, 64, 65):
        assert rules(history.classify(batch.slice(start, 30), settings)) == whole[start : start + 30]


@pytest.mark.parametrize("integers", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_counts_may_be_integers_of_any_width(history: dh.History, integers: pa.DataType) -> None:
    batch = documents(list("abcde"), redelivery_count=pa.array([0, 1, -1, None, 127], integers))
    assert rules(history.classify(batch, trigger(use_history=False))) == ["R12", "R14", "R16", "R16", "R14"]


def test_chunked_tables_come_back_as_tables_of_the_same_rows(history: dh.History) -> None:
    ids = fresh_ids(10)
    history.begin(documents(ids[::2]), trigger()).complete()
    parts = [documents(ids[:3]), documents([]), documents(ids[3:4]), documents(ids[4:])]
    verdicts = history.classify(pa.Table.from_batches(parts), trigger())
    assert isinstance(verdicts, pa.Table)
    assert statuses(verdicts) == ["DUPLICATE", "NEW"] * 5


def test_chunks_may_have_different_dictionaries(history: dh.History) -> None:
    history.begin(documents(["b"]), trigger()).complete()
    chunks = [pa.array(part, pa.string()).dictionary_encode() for part in (["a", "b"], ["b", "c", "b"])]
    table = pa.table({"uuid": pa.chunked_array(chunks)})
    assert statuses(history.classify(table, trigger())) == ["NEW", "DUPLICATE", "DUPLICATE", "NEW", "DUPLICATE"]


def test_verdicts_are_columns_in_the_documented_types(history: dh.History) -> None:
    verdicts = history.classify(documents(["a"]), trigger())
    assert isinstance(verdicts, pa.RecordBatch)
    assert verdicts.schema.names == ["status", "action", "acknowledge", "rule", "key", "message"]
    words = pa.dictionary(pa.int8(), pa.string())
    assert [verdicts.schema.field(name).type for name in verdicts.schema.names[:4]] == [words] * 4


def test_no_documents_give_no_verdicts(history: dh.History) -> None:
    assert history.classify(documents([]), trigger()).num_rows == 0
    assert history.begin(documents([]), trigger()).new.num_rows == 0


@pytest.mark.parametrize(
    "convert",
    [
        lambda batch: pa.Table.from_batches([batch]),
        lambda batch: pa.RecordBatchReader.from_batches(batch.schema, [batch]),
        lambda batch: pl.DataFrame(pa.Table.from_batches([batch])),
        lambda batch: pl.DataFrame(pa.Table.from_batches([batch])).with_columns(pl.col("uuid").cast(pl.Categorical)),
        lambda batch: batch.to_pandas(),
        lambda batch: pd.DataFrame(batch.to_pydict()),
        lambda batch: duckdb.from_arrow(pa.Table.from_batches([batch])),
    ],
    ids=["table", "reader", "polars", "polars categorical", "pandas", "pandas from lists", "duckdb"],
)
def test_documents_come_from_any_arrow_speaker(history: dh.History, convert: Callable[[pa.RecordBatch], Any]) -> None:
    ids = fresh_ids(4)
    history.begin(documents(ids[:2]), trigger()).complete()
    batch = documents(ids, redelivery_count=pa.array([0, 1, 0, 1]), guaranteed=[True, True, True, False])
    verdicts = history.classify(convert(batch), trigger())
    assert rules(verdicts) == ["R9", "R9", "R8", "R1"]


def test_keys_come_back_from_the_history_as_they_went_in(history: dh.History) -> None:
    keys = [A, A.upper(), " ", "é" * 96, "x", A.replace("-", ""), "\0"]
    history.begin(documents(keys), trigger())
    assert sorted(row["key"] for row in entries(history, trigger())) == sorted(keys)
