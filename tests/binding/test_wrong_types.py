"""Arguments of a wrong type: the error names the argument, what was given, and what is allowed."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import documents, trigger

MESSAGES = pa.table({"id": ["m-1"]})
POLL = pa.table({"stream": ["s"], "header": ["(0-0-1-0)"]})

WRONG: list[tuple[str, Callable[[dh.History, Any], Any]]] = [
    ("create", lambda history, given: dh.open(history.path, create=given)),
    ("read_only", lambda history, given: dh.open(history.path, read_only=given)),
    ("snapshot", lambda history, given: dh.open(history.path, snapshot=given)),
    ("history", lambda _, given: dh.Consumer(given, trigger())),
    ("history", lambda _, given: dh.Statistics(given)),
    ("history", lambda _, given: dh.Sweeper(given)),
    ("history", lambda _, given: dh.Suspension(given, trigger())),
    ("history", lambda _, given: dh.backup(given, "copy")),
    ("target", lambda history, given: dh.backup(history, given)),
    ("triggers", lambda history, given: dh.Sweeper(history, given)),
    ("on_replay", lambda history, given: history.begin(documents(["a"]), trigger(), on_replay=given)),
    ("on_other_rows", lambda history, given: history.begin(documents(["a"]), trigger(), on_other_rows=given)),
    ("uuid", lambda history, given: history.begin_one(trigger=trigger(), uuid=given)),
    ("guaranteed", lambda history, given: history.begin_one(trigger=trigger(), uuid="a", guaranteed=given)),
    ("dry_run", lambda history, given: history.purge(trigger(), dry_run=given)),
    ("all", lambda history, given: history.maintain(trigger(), all=given)),
    ("status", lambda history, given: history.entries(trigger(), given)),
    ("channel", lambda history, given: history.mapper(given)),
    ("pending", lambda history, given: history.mapper("m", pending=given)),
    ("mirror", lambda history, given: history.mapper("m", mirror=given)),
    ("expiry", lambda history, given: history.mapper("m", expiry=given)),
    ("qos", lambda history, given: history.mapper("m").begin_send(MESSAGES, qos=given)),
    ("transactional", lambda history, given: history.mapper("m").create(["a"], ["b"], transactional=given)),
    ("decision", lambda history, given: history.mapper("m").resolve(["a"], given)),
    ("definite", lambda history, given: history.mapper("m").begin_send(MESSAGES).abort(definite=given)),
    ("stream", lambda history, given: history.delivery(given)),
    ("keep_rows", lambda history, given: history.delivery(keep_rows=given)),
    ("stream", lambda history, given: history.delivery().settle(given, 1)),
    ("subscriber", lambda history, given: history.delivery_out(given)),
    ("publisher", lambda history, given: history.delivery_out("s", publisher=given)),
]
NO_NUMBERS: list[tuple[str, Callable[[dh.History, Any], Any]]] = [
    ("redelivery_count", lambda history, given: history.begin_one(trigger=trigger(), uuid="a", redelivery_count=given)),
    ("threads", lambda history, given: history.delivery().receive(threads=given)),
    ("start", lambda history, given: history.delivery_out("s", start=given)),
    ("log_received", lambda history, given: history.delivery().settle("s", given)),
    ("offset", lambda history, given: history.delivery_out("s", start=0).on_confirmation(given)),
    ("epoch", lambda history, given: history.delivery_out("s", start=0).on_resend_request(given, 0)),
    ("per_message", lambda history, given: history.delivery_out("s", start=0).build([1], per_message=given)),
]


@pytest.mark.parametrize(("name", "call"), [*WRONG, *NO_NUMBERS], ids=lambda one: one if isinstance(one, str) else "")
def test_a_wrong_type_is_refused_by_the_arguments_name(
    history: dh.History, name: str, call: Callable[[dh.History, Any], Any]
) -> None:
    given: Any = "no number" if any(call is one for _, one in NO_NUMBERS) else 7
    with pytest.raises(dh.ConfigError) as raised:
        call(history, given)
    assert str(raised.value).startswith(f"[DH-CONFIG] {name} is {given!r}; allowed is ")


SURROGATE: Any = "a\udc80"
NO_TEXT: dict[str, Callable[[dh.History], Any]] = {
    "channel": lambda history: history.mapper(SURROGATE),
    "subscriber": lambda history: history.delivery_out(SURROGATE),
    "on_replay": lambda history: history.begin(documents(["a"]), trigger(), on_replay=SURROGATE),
}


@pytest.mark.parametrize(("name", "call"), NO_TEXT.items(), ids=NO_TEXT)
def test_a_lone_surrogate_is_no_text(history: dh.History, name: str, call: Callable[[dh.History], Any]) -> None:
    with pytest.raises(dh.ConfigError) as raised:
        call(history)
    assert str(raised.value).startswith(f"[DH-CONFIG] {name} is 'a\\udc80'; allowed is ")


def test_a_key_with_a_lone_surrogate_is_told(history: dh.History) -> None:
    with pytest.raises(dh.SchemaError, match=r"key 0 is '\\udc80'; allowed is text or None"):
        history.complete(["\udc80"], trigger())


@pytest.mark.parametrize("given", ["id", 7, {"uuid": 7}, {7: "uuid"}])
@pytest.mark.parametrize(
    "call",
    [
        lambda history, columns: history.classify(documents(["a"]), trigger(), columns=columns),
        lambda history, columns: history.begin(documents(["a"]), trigger(), columns=columns),
        lambda history, columns: history.load(documents(["a"]), trigger(), columns=columns),
        lambda history, columns: history.mapper("m").begin_send(MESSAGES, columns=columns),
        lambda history, columns: history.mapper("m").unit_of_work().take(MESSAGES, columns=columns),
        lambda history, columns: history.delivery(first_contact=True).receive(POLL, columns=columns),
    ],
    ids=["classify", "begin", "load", "begin_send", "take", "receive"],
)
def test_columns_that_map_no_names_are_refused(history: dh.History, call: Any, given: Any) -> None:
    with pytest.raises(dh.ConfigError) as raised:
        call(history, given)
    assert f"columns is {given!r}; allowed is a mapping of names to names of columns" in str(raised.value)


@pytest.mark.parametrize("rows", [7, "id", [None], [1.5], [2**70]])
def test_rows_that_are_no_numbers_are_told(history: dh.History, rows: Any) -> None:
    said = f"rows are {rows!r}; allowed is an Arrow array or an iterable of row numbers"
    for end in (history.begin(documents(["a"]), trigger()).complete, history.mapper("m").begin_send(MESSAGES).abort):
        with pytest.raises(TypeError) as raised:
            end(rows=rows)
        assert str(raised.value) == said


def test_an_empty_path_is_told() -> None:
    for how in (dh.open, dh.local_path, dh.repair):
        with pytest.raises(dh.ConfigError, match="path is empty; needed is the directory of a history, or the URL"):
            how("")


NAMED: dict[str, Callable[[dh.History, Any], Any]] = {
    "stats": lambda history, name: history.stats(name),
    "entries": lambda history, name: history.entries(name),
    "purge": lambda history, name: history.purge(name),
    "maintain": lambda history, name: history.maintain(name),
    "verify": lambda history, name: history.verify(name),
    "pins": lambda history, name: history.pins(name),
}


@pytest.mark.parametrize("call", NAMED.values(), ids=NAMED)
def test_a_name_that_the_history_lacks_is_refused(history: dh.History, call: Callable[[dh.History, Any], Any]) -> None:
    with pytest.raises(dh.ConfigError, match='no trigger "ordres"; it has none yet'):
        call(history, "ordres")
    history.begin(documents(["a"]), trigger()).complete()
    with pytest.raises(dh.ConfigError, match=r'no trigger "ordres"; it has "orders"\. One that is about to begin'):
        call(history, "ordres")
    call(history, "orders")
    call(history, trigger("ordres"))


def test_snapshot_of_a_trigger_that_nobody_began_is_empty(history: dh.History) -> None:
    with dh.open(history.path, snapshot=history.pin("soon")) as pinned:
        assert pinned.entries("soon").read_all().num_rows == 0


def test_counts_with_gaps_of_pandas_are_refused_with_a_remedy(history: dh.History) -> None:
    rows = pa.table({"uuid": ["a", "b"], "redelivery_count": pa.array([1.0, None])})
    with pytest.raises(dh.SchemaError, match=r'"redelivery_count" is Float64; .*\.astype\("Int64"\)'):
        history.classify(rows, trigger())


MASKS: list[Callable[[dh.History, Any], Any]] = [
    lambda history, rows: history.begin(documents(["a", "b"]), trigger()).complete(rows=rows),
    lambda history, rows: history.begin(documents(["a", "b"]), trigger()).release(rows=rows),
    lambda history, rows: history.mapper("m").begin_send(pa.table({"id": ["a", "b"]})).complete(["x"], rows=rows),
]


@pytest.mark.parametrize("end", MASKS)
def test_mask_is_not_taken_for_row_numbers(history: dh.History, end: Callable[[dh.History, Any], Any]) -> None:
    with pytest.raises(dh.SchemaError, match=r"rows hold False; allowed are row numbers: of a mask, numpy.flatnonzero"):
        end(history, [False, True])
    assert set(history.classify(documents(["a", "b"]), trigger())["status"].to_pylist()) <= {"NEW", "IN_DOUBT"}
