"""From `begin` to `complete` or `release`: what a document's entries say at each step."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import T0, column, documents, entries, rules, status_of, statuses, trigger


def test_begin_complete_and_redeliver(history: dh.History) -> None:
    claim = history.begin(documents(["a"]), trigger())
    assert statuses(claim.verdicts) == ["NEW"]
    assert status_of(history, ["a"]) == ["IN_DOUBT"]
    claim.complete()
    assert status_of(history, ["a"]) == ["DUPLICATE"]


def test_a_released_document_is_new_again(history: dh.History) -> None:
    claim = history.begin(documents(["a"]), trigger())
    claim.release()
    assert status_of(history, ["a"]) == ["NEW"]
    assert entries(history, trigger()) == []


def test_classifying_writes_nothing(history: dh.History) -> None:
    for _ in range(3):
        assert status_of(history, ["a", "b"]) == ["NEW", "NEW"]
    assert entries(history, trigger()) == []


def test_the_claim_hands_out_exactly_the_documents_to_process(history: dh.History) -> None:
    history.begin(documents(["done"]), trigger()).complete()
    history.begin(documents(["running"]), trigger())
    batch = documents(["a", "done", "b", "running", "c"], payload=[b"1", b"2", b"3", b"4", b"5"])
    claim = history.begin(batch, trigger())
    assert rules(claim.verdicts) == ["R8", "R9", "R8", "R11", "R8"]
    assert pa.table(claim.new).to_pylist() == [batch.to_pylist()[row] for row in (0, 2, 4)]
    assert claim.new.schema == batch.schema


def test_unevaluated_documents_are_handed_out_but_not_recorded(history: dh.History) -> None:
    claim = history.begin(documents(["a"]), trigger(detect_duplicates=False))
    claim_of_volatile = history.begin(documents(["b"], guaranteed=[False]), trigger())
    claim_without_history = history.begin(documents(["c"], redelivery_count=[0]), trigger(use_history=False))
    for one, rule in ((claim, "R0"), (claim_of_volatile, "R1"), (claim_without_history, "R12")):
        assert rules(one.verdicts) == [rule]
        assert one.new.num_rows == 1
        one.complete()
    assert entries(history, trigger()) == []


def test_rows_end_one_by_one(history: dh.History) -> None:
    claim = history.begin(documents(["a", "b", "c", "d"]), trigger())
    claim.complete(rows=[1])
    claim.release(rows=[2])
    assert status_of(history, ["a", "b", "c", "d"]) == ["IN_DOUBT", "DUPLICATE", "NEW", "IN_DOUBT"]


def test_rows_are_counted_in_the_batch_that_came_in(history: dh.History) -> None:
    history.begin(documents(["a", "b"]), trigger()).complete()
    claim = history.begin(documents(["a", "b", "c", "d"]), trigger())
    claim.complete(rows=[3])
    assert status_of(history, ["c", "d"]) == ["IN_DOUBT", "DUPLICATE"]


@pytest.mark.parametrize("shape", [list, tuple, set, pa.array, iter], ids=["list", "tuple", "set", "array", "iterator"])
def test_rows_may_be_named_in_any_shape(history: dh.History, shape: type) -> None:
    claim = history.begin(documents(["a", "b", "c"]), trigger())
    claim.complete(rows=shape([0, 2]))
    assert status_of(history, ["a", "b", "c"]) == ["DUPLICATE", "IN_DOUBT", "DUPLICATE"]


def test_completing_a_claim_leaves_documents_of_others_in_doubt(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger())
    claim = history.begin(documents(["a", "b"]), trigger())
    assert rules(claim.verdicts) == ["R11", "R8"]
    claim.complete()
    assert status_of(history, ["a", "b"]) == ["IN_DOUBT", "DUPLICATE"]


def test_completing_twice_changes_nothing(history: dh.History) -> None:
    claim = history.begin(documents(["a", "b"]), trigger())
    claim.complete(rows=[0])
    claim.complete(rows=[0])
    claim.complete()
    claim.complete()
    assert status_of(history, ["a", "b"]) == ["DUPLICATE", "DUPLICATE"]


def test_releasing_twice_changes_nothing(history: dh.History) -> None:
    claim = history.begin(documents(["a", "b"]), trigger())
    claim.release(rows=[0])
    claim.release(rows=[0])
    claim.release()
    claim.release()
    assert status_of(history, ["a", "b"]) == ["NEW", "NEW"]


def test_what_is_completed_stays_completed_when_released(history: dh.History) -> None:
    claim = history.begin(documents(["a", "b"]), trigger())
    claim.complete()
    with pytest.raises(dh.StateError, match="was completed"):
        claim.release()
    history.release(["a"], trigger())
    assert status_of(history, ["a", "b"]) == ["DUPLICATE", "DUPLICATE"]


def test_releasing_again_does_not_take_a_later_claim_away(history: dh.History) -> None:
    first = history.begin(documents(["a"]), trigger())
    first.release()
    history.begin(documents(["a"]), trigger())
    first.release()
    assert status_of(history, ["a"]) == ["IN_DOUBT"]


@pytest.mark.parametrize(
    "keys",
    [["a", "b"], pa.array(["a", "b"]), pa.array(["a", "b"], pa.string_view()), documents(["a", "b"])],
    ids=["list", "array", "views", "documents"],
)
def test_documents_end_by_key_from_anywhere(history: dh.History, keys: Any) -> None:
    history.begin(documents(["a", "b", "c"]), trigger())
    history.complete(keys, trigger())
    assert status_of(history, ["a", "b", "c"]) == ["DUPLICATE", "DUPLICATE", "IN_DOUBT"]


def test_documents_are_released_by_key_from_anywhere(history: dh.History) -> None:
    history.begin(documents(["a", "b", "c"]), trigger())
    history.release(["a", "b", "never seen"], trigger())
    assert status_of(history, ["a", "b", "c"]) == ["NEW", "NEW", "IN_DOUBT"]


def test_a_completed_entry_alone_makes_a_duplicate(history: dh.History) -> None:
    history.complete(["a"], trigger())
    assert rules(history.classify(documents(["a"]), trigger())) == ["R9"]


def test_two_triggers_never_meet(history: dh.History) -> None:
    orders, invoices = trigger("orders"), trigger("invoices")
    history.begin(documents(["a"]), orders).complete()
    assert status_of(history, ["a"], invoices) == ["NEW"]
    claim = history.begin(documents(["a"]), invoices)
    assert statuses(claim.verdicts) == ["NEW"]
    history.release(["a"], invoices)
    assert status_of(history, ["a"], orders) == ["DUPLICATE"]
    assert entries(history, invoices) == []


@pytest.mark.parametrize("name", ["a/b", "..", "..\\x", "Größe", "a b", "A", "x" * 200, "con"])
def test_triggers_may_have_any_name(history: dh.History, name: str) -> None:
    history.begin(documents(["k"]), trigger("a")).complete()
    history.begin(documents(["k"]), trigger(name)).complete()
    assert status_of(history, ["k"], trigger(name)) == ["DUPLICATE"]
    assert {row["trigger"] for row in entries(history, trigger(name))} == {name}


def test_entries_tell_key_status_and_start(history: dh.History) -> None:
    history.begin(documents(["a", "b"]), trigger(), now=T0).complete(rows=[0])
    history.begin(documents(["c"]), trigger(), now=T0 + timedelta(minutes=1))
    rows = {row["key"]: row for row in entries(history, trigger())}
    assert {key: row["status"] for key, row in rows.items()} == {"a": "completed", "b": "processing", "c": "processing"}
    assert [rows[key]["started_at"] for key in "abc"] == [T0, T0, T0 + timedelta(minutes=1)]
    assert {row["trigger"] for row in rows.values()} == {"orders"}


def test_entries_can_be_asked_for_by_status(history: dh.History) -> None:
    history.begin(documents(["a", "b"]), trigger()).complete(rows=[0])
    assert [row["key"] for row in entries(history, trigger(), status="processing")] == ["b"]
    assert [row["key"] for row in entries(history, trigger(), status="completed")] == ["a"]


def test_a_claim_knows_its_id_and_when_it_started(history: dh.History) -> None:
    first = history.begin(documents(["a"]), trigger(), now=T0)
    second = history.begin(documents(["b"]), trigger(), now=T0)
    assert first.id != second.id
    assert first.started_at == T0
    assert isinstance(first.started_at, datetime)
    assert first.started_at.tzinfo is not None


def test_a_document_the_resolver_calls_new_has_two_claims(history: dh.History) -> None:
    asked_new = trigger(resolver=lambda batch: ["NEW"] * batch.num_rows)
    first = history.begin(documents(["a"]), asked_new, now=T0)
    second = history.begin(documents(["a"]), asked_new, now=T0 + timedelta(hours=1))
    assert rules(second.verdicts) == ["R10>S1"]
    first.release()
    assert status_of(history, ["a"]) == ["IN_DOUBT"]
    second.complete()
    assert status_of(history, ["a"]) == ["DUPLICATE"]


def test_either_of_two_claims_completes_the_document(history: dh.History) -> None:
    asked_new = trigger(resolver=lambda batch: ["NEW"] * batch.num_rows)
    first = history.begin(documents(["a"]), asked_new)
    second = history.begin(documents(["a"]), asked_new)
    first.complete()
    assert status_of(history, ["a"]) == ["DUPLICATE"]
    second.release()
    assert status_of(history, ["a"]) == ["DUPLICATE"]


def test_one_document_at_a_time(history: dh.History) -> None:
    one = history.begin_one(uuid="a", redelivery_count=0, trigger=trigger())
    assert (one.status, one.action, one.rule) == ("NEW", "PROCESS", "R8")
    again = history.begin_one(uuid="a", redelivery_count=1, trigger=trigger())
    assert (again.status, again.action, again.rule) == ("IN_DOUBT", "LOG", "R11")
    one.release()
    one = history.begin_one(uuid="a", redelivery_count=1, trigger=trigger())
    assert one.rule == "R8"
    one.complete()
    last = history.begin_one(uuid="a", redelivery_count=2, trigger=trigger())
    assert (last.status, last.action, last.rule) == ("DUPLICATE", "DISCARD", "R9")


def test_a_failed_service_has_ended_too(history: dh.History) -> None:
    claim = history.begin(documents(["a"]), trigger())

    def service() -> None:
        raise RuntimeError("no such customer")

    try:
        service()
    except RuntimeError:
        claim.complete()
    assert column(history.classify(documents(["a"]), trigger()), "action") == ["DISCARD"]
