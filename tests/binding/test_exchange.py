"""What is remembered of the types of batches, from call to call, never stands in for the types of another batch."""

from __future__ import annotations

import gc
import resource
import threading
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import column, documents, rules, trigger

IDS = ["a", None, "id of a document"]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


class Loose(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """A type that takes itself for any other of its kind, whatever it is stored as."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "dochistory.tests.loose")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Loose:
        return cls(storage)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loose)

    def __hash__(self) -> int:
        return 1


def test_batches_of_other_types_may_follow_each_other(history: dh.History) -> None:
    for text in TEXTS:
        for integers in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
            ids, counts = pa.array(IDS, text), pa.array([0, 1, 2], integers)
            batch = pa.RecordBatch.from_pydict({"uuid": ids, "redelivery_count": counts})
            verdicts = history.classify(batch, trigger())
            verdicts.validate(full=True)
            assert verdicts.schema.field("key").type == text
            assert (column(verdicts, "key"), rules(verdicts)) == (IDS, ["R8", "R3", "R8"])
            by_count = history.classify(batch, trigger(use_history=False))
            assert rules(by_count) == ["R12", "R14", "R14"]


def test_extension_types_that_compare_equal_are_told_apart(history: dh.History) -> None:
    for storage in [pa.string(), pa.large_string(), pa.string(), pa.binary(16), pa.large_string()]:
        plain = pa.array([b"0123456789abcdef"] * 3 if storage == pa.binary(16) else IDS, storage)
        batch = pa.RecordBatch.from_arrays([pa.ExtensionArray.from_storage(Loose(storage), plain)], ["uuid"])
        keys = column(history.classify(batch, trigger()), "key")
        assert keys == (["30313233-3435-3637-3839-616263646566"] * 3 if storage == pa.binary(16) else IDS)


def test_names_and_metadata_are_those_of_the_batch_at_hand(history: dh.History) -> None:
    for number in range(30):
        field = pa.field("uuid", pa.string(), metadata={"n": str(number % 3)})
        schema = pa.schema([field, pa.field(f"n{number % 10}", pa.int64())], metadata={"batch": str(number % 20)})
        batch = pa.record_batch([[f"id {number}"], [number]], schema=schema)
        new = history.begin(batch, trigger()).new
        assert new.equals(batch)
        assert new.schema.equals(schema, check_metadata=True)


def test_verdicts_outlive_the_documents_and_the_history(directory: Any) -> None:
    with dh.open(directory, create=True) as history:
        kept = [history.classify(documents([f"id {n}", None]), trigger()) for n in range(50)]
        codes = [history.classify_codes(documents([f"id {n}", None]), trigger()) for n in range(50)]
    assert [column(verdicts, "key") for verdicts in kept] == [[f"id {n}", None] for n in range(50)]
    assert {(tuple(rules(verdicts)), tuple(column(verdicts, "action"))) for verdicts in kept} == {
        (("R8", "R3"), ("PROCESS", "LOG"))
    }
    assert {tuple(array.to_pylist()) for array in codes} == {tuple(codes[0].to_pylist())}


@pytest.mark.parametrize("text", TEXTS, ids=str)
def test_columns_outlive_their_batch_and_the_documents(history: dh.History, text: pa.DataType) -> None:
    history.begin(documents(["id 3", "id 4"]), trigger())
    kept: list[tuple[Any, list[Any]]] = []
    for number in range(300):
        ids = [None if row % 3 == number % 3 else f"id {number + row}" for row in range(number % 40)]
        # Nulls of a part may begin anywhere in a byte.
        batch = pa.RecordBatch.from_pydict({"uuid": pa.array([None, *ids, "last"], text)}).slice(number % 11)
        verdicts = history.classify(batch, trigger())
        verdicts.validate(full=True)
        assert column(verdicts, "key") == column(batch, "uuid")
        array = verdicts.column(number % 6)
        words = [array.dictionary] if isinstance(array, pa.DictionaryArray) else []
        kept += [(part, part.to_pylist()) for part in [array[1:], *words]]
        del batch, verdicts, array, words
        if number % 50 == 0:
            gc.collect()
    assert [part.to_pylist() for part, _ in kept] == [values for _, values in kept]


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 8191, 8192, 8193])
def test_what_is_new_has_no_messages_however_much_it_is(history: dh.History, rows: int) -> None:
    verdicts = history.classify(documents([f"id {row}" for row in range(rows)]), trigger())
    verdicts.validate(full=True)
    assert verdicts.column("message").null_count == verdicts.num_rows == rows
    assert column(verdicts, "message") == [None] * rows


def test_nothing_is_left_of_verdicts_that_nobody_keeps(history: dh.History) -> None:
    batch = documents([f"id {n}" for n in range(100_000)])

    def most_memory_after(calls: int) -> int:
        for _ in range(calls):
            history.classify(batch, trigger())
            history.classify_codes(batch, trigger())
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    # Each verdict takes more than 500 KiB.
    assert most_memory_after(100) - most_memory_after(10) < 25_000


def test_threads_with_other_types_do_not_mix_them_up(history: dh.History) -> None:
    failures: list[str] = []

    def classify(text: pa.DataType) -> None:
        batch = pa.RecordBatch.from_pydict({"uuid": pa.array(IDS, text)})
        for _ in range(200):
            verdicts = history.classify(batch, trigger())
            if verdicts.schema.field("key").type != text or column(verdicts, "key") != IDS:
                failures.append(str(verdicts.schema))

    threads = [threading.Thread(target=classify, args=(text,)) for text in TEXTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("kind", [pa.month_day_nano_interval(), pa.struct([("a", pa.int8())]), pa.list_(pa.int8())])
def test_columns_that_nobody_asks_for_may_be_of_any_type(history: dh.History, kind: pa.DataType) -> None:
    for text in TEXTS:
        batch = pa.RecordBatch.from_arrays([pa.array(IDS, text), pa.nulls(3, kind)], ["uuid", "other"])
        claim = history.begin(batch, trigger(name=str(text)))
        assert claim.new.schema == batch.schema
        assert column(claim.new, "uuid") == ["a", IDS[2]]
