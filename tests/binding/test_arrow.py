"""Columns go in and out without a copy where they can, in types that stay what they were."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import column, documents, fresh_ids, rules, statuses, trigger

A, B = fresh_ids(2)


def address(array: Any) -> int:
    """Where an array's values are."""
    found: int = array.buffers()[-1].address
    return found


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_the_key_column_is_the_id_column_itself(history: dh.History, text: pa.DataType) -> None:
    ids = pa.array([*fresh_ids(1000), None], text)
    verdicts = history.classify(pa.RecordBatch.from_pydict({"uuid": ids}), trigger())
    assert address(verdicts.column("key")) == address(ids)
    assert verdicts.column("key").equals(ids)


def test_a_dictionary_of_ids_comes_back_as_it_is(history: dh.History) -> None:
    ids = pa.array([A, B, None, A], pa.string()).dictionary_encode()
    verdicts = history.classify(pa.RecordBatch.from_pydict({"uuid": ids}), trigger())
    assert address(verdicts.column("key").dictionary) == address(ids.dictionary)
    assert column(verdicts, "key") == [A, B, None, A]


def test_keys_are_gathered_where_they_come_from_several_columns(history: dh.History) -> None:
    tracks = pa.array([b"\x00" * 15 + b"\x01", None, b"\x00" * 16], pa.binary(16))
    batch = documents([None, "u", ""], track_id=tracks)
    keys = ["00000000-0000-0000-0000-000000000001", "u", "00000000-0000-0000-0000-000000000000"]
    assert column(history.classify(batch, trigger()), "key") == keys


def test_empty_ids_have_no_key(history: dh.History) -> None:
    assert column(history.classify(documents(["", "a", None]), trigger()), "key") == [None, "a", None]


def test_a_dictionary_may_hold_a_null(history: dh.History) -> None:
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array(["a", None]))
    verdicts = history.classify(pa.RecordBatch.from_pydict({"uuid": ids}), trigger())
    assert column(verdicts, "key") == ["a", None, None, "a"]
    assert rules(verdicts) == ["R8", "R3", "R3", "R8+batch"]


def test_uuids_may_have_their_own_type(history: dh.History) -> None:
    plain = pa.array([bytes(range(16)), None], pa.binary(16))
    batch = pa.RecordBatch.from_pydict({"uuid": pa.ExtensionArray.from_storage(pa.uuid(), plain)})
    assert column(history.classify(batch, trigger()), "key") == ["00010203-0405-0607-0809-0a0b0c0d0e0f", None]
    assert history.begin(batch, trigger(name="other")).new.schema == batch.schema


@pytest.mark.parametrize("integers", [pa.uint8(), pa.uint16(), pa.uint32()])
def test_counts_may_be_unsigned(history: dh.History, integers: pa.DataType) -> None:
    batch = documents(["a", "b", "c"], redelivery_count=pa.array([0, 200, None], integers))
    assert rules(history.classify(batch, trigger(use_history=False))) == ["R12", "R14", "R16"]


def test_columns_of_nulls_alone_say_nothing(history: dh.History) -> None:
    nulls = pa.nulls(2)
    batch = pa.RecordBatch.from_pydict({"uuid": nulls, "event_id": ["a", "b"], "guaranteed": nulls})
    assert rules(history.classify(batch, trigger())) == ["R8", "R8"]
    batch = documents(["a", "b"], redelivery_count=nulls)
    assert rules(history.classify(batch, trigger(use_history=False))) == ["R16", "R16"]


def test_columns_may_come_twice_as_long_as_nobody_asks_for_them(history: dh.History) -> None:
    both = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array([1]), pa.array([2])], ["uuid", "n", "n"])
    assert rules(history.classify(both, trigger())) == ["R8"]
    both = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["b"])], ["uuid", "uuid"])
    with pytest.raises(dh.SchemaError, match="several columns"):
        history.classify(both, trigger())


def test_an_error_of_the_producer_is_told(history: dh.History) -> None:
    def batches() -> Any:
        yield documents(["a"])
        raise OSError("the line went dead")

    reader = pa.RecordBatchReader.from_batches(documents(["a"]).schema, batches())
    with pytest.raises(dh.SchemaError, match="the line went dead"):
        history.classify(reader, trigger())


def test_an_error_on_the_way_to_the_columns_stays_what_it_is(history: dh.History) -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        history.classify(Broken(), trigger())


@pytest.mark.parametrize("what", [pa.array(["a"]), pa.chunked_array([["a"]])], ids=["array", "chunked"])
def test_a_column_alone_is_no_table(history: dh.History, what: Any) -> None:
    with pytest.raises(dh.SchemaError):
        history.classify(what, trigger())


def test_verdicts_are_whole(history: dh.History) -> None:
    history.begin(documents(["c"]), trigger()).complete()
    claim = history.begin(documents([A, "c", None, A, "x" * 97]), trigger())
    claim.verdicts.validate(full=True)
    assert claim.verdicts is claim.verdicts
    assert [message is None for message in column(claim.verdicts, "message")] == [True, False, False, False, False]


def test_messages_come_with_every_verdict_but_new(history: dh.History) -> None:
    verdicts = history.classify(documents([A, None, A]), trigger(processing_mode="serial"))
    assert verdicts.schema.field("message").type == pa.string()
    assert [row["message"] is None for row in verdicts.to_pylist()] == [True, False, False]


def test_what_is_new_keeps_its_columns_and_their_types(history: dh.History) -> None:
    rows: dict[str, Any] = {
        "uuid": pa.array([A, B, A]),
        "price": pa.array([1, 2, 3], pa.decimal128(9, 2)),
        "lines": pa.array([[1], None, [2, 3]], pa.list_(pa.int16())),
        "view": pa.array(["v" * 20, None, "w"], pa.string_view()),
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
        "deep": pa.array([{"a": 1}, None, {"a": 2}], pa.struct([("a", pa.int64())])),
        "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int8())),
    }
    batch = pa.RecordBatch.from_pydict(rows).replace_schema_metadata({"written": "by hand"})
    new = history.begin(batch, trigger()).new
    assert isinstance(new, pa.RecordBatch)
    assert new.schema.equals(batch.schema, check_metadata=True)
    assert new.equals(batch.slice(0, 2))


def test_what_is_new_of_a_table_is_a_table(history: dh.History) -> None:
    table = pa.Table.from_batches([documents([A, "c"]), documents([]), documents([A, B])])
    history.begin(documents(["c"]), trigger()).complete()
    claim = history.begin(table, trigger())
    assert isinstance(claim.verdicts, pa.Table)
    assert isinstance(claim.new, pa.Table)
    assert column(claim.new, "uuid") == [A, B]


def test_a_stream_is_read_once(history: dh.History) -> None:
    reader = pa.RecordBatchReader.from_batches(documents([A]).schema, iter([documents([A]), documents([B])]))
    claim = history.begin(reader, trigger())
    assert column(claim.new, "uuid") == [A, B]
    assert statuses(claim.verdicts) == ["NEW", "NEW"]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_a_part_of_a_batch_may_have_no_rows(history: dh.History, kind: pa.DataType) -> None:
    batch = pa.RecordBatch.from_pydict({"uuid": pa.array(["a", None, "ccc"], kind)})
    for part in [batch.slice(0, 0), batch.slice(2, 0), batch.slice(3)]:
        verdicts = history.classify(part, trigger())
        verdicts.validate(full=True)
        assert verdicts.num_rows == len(history.classify_codes(part, trigger())) == 0
    parts = pa.Table.from_batches([batch.slice(3), batch, batch.slice(1, 0)])
    assert column(history.classify(parts, trigger()), "key") == ["a", None, "ccc"]


def test_empty_tables_have_no_verdicts(history: dh.History) -> None:
    table = documents([]).schema.empty_table()
    assert history.classify(table, trigger()).num_rows == 0
    assert history.classify(pa.Table.from_batches([], documents([]).schema), trigger()).num_rows == 0
    assert history.begin(table, trigger()).new.schema == table.schema


def test_the_resolver_gets_rows_of_any_chunk_and_type(history: dh.History) -> None:
    asked: list[pa.RecordBatch] = []

    def resolve(batch: pa.RecordBatch) -> pa.Array:
        asked.append(batch)
        return pa.array(["DUPLICATE"] * batch.num_rows)

    parts = [documents([None, A], payload=[{"n": 1}, {"n": 2}]), documents([B, None], payload=[{"n": 3}, {"n": 4}])]
    history.classify(pa.Table.from_batches(parts), trigger(resolver=resolve))
    assert column(asked[0], "payload") == [{"n": 1}, {"n": 4}]
    assert column(asked[0], "dh_row") == [0, 3]


def test_document_columns_never_hide_the_resolvers_own(history: dh.History) -> None:
    asked: list[pa.RecordBatch] = []
    history.classify(documents([None], dh_row=["mine"]), trigger(resolver=asked.append))
    assert column(asked[0], "dh_row") == [0]


@pytest.mark.parametrize(
    "keys", ["abc", b"abc", 3, None, [1], [b"a"], pa.array([1])], ids=lambda keys: type(keys).__name__
)
def test_keys_that_are_no_text_are_refused(history: dh.History, keys: Any) -> None:
    with pytest.raises(dh.SchemaError):
        history.complete(keys, trigger())
    assert history.triggers() == []


def test_keys_are_counted_by_what_became_of_them(history: dh.History) -> None:
    history.begin(documents([A, B]), trigger())
    assert history.complete([A, "never begun"], trigger()) == {"changed": 1, "already": 0, "unknown": 1}
    assert history.complete([A, B], trigger()) == {"changed": 1, "already": 1, "unknown": 0}
