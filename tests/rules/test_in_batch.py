"""The same key more than once in one batch: row order is arrival order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import DUPLICATE, IN_DOUBT, NEW, documents, outcomes, rules, statuses, trigger


def always(answer: Any) -> Any:
    """A resolver that gives every row the same answer."""
    return lambda batch: [answer] * batch.num_rows


def test_serial_calls_the_later_copies_duplicates(history: dh.History) -> None:
    verdicts = history.classify(documents(["a", "b", "a", "a"]), trigger(processing_mode="serial"))
    assert outcomes(verdicts) == [NEW, NEW, DUPLICATE, DUPLICATE]
    assert rules(verdicts) == ["R8", "R8", "R8+batch", "R8+batch"]


def test_concurrent_without_a_resolver_doubts_the_later_copies(history: dh.History) -> None:
    verdicts = history.classify(documents(["a", "b", "a"]), trigger(processing_mode="concurrent"))
    assert outcomes(verdicts) == [NEW, NEW, IN_DOUBT]
    assert rules(verdicts) == ["R8", "R8", "R8+batch"]


@pytest.mark.parametrize(
    ("answer", "outcome", "step"),
    [("NEW", NEW, "S1"), ("DUPLICATE", DUPLICATE, "S2"), ("IN_DOUBT", IN_DOUBT, "S3"), (None, IN_DOUBT, "S7")],
)
def test_concurrent_trigger_asks_resolver_about_later_copies(
    history: dh.History, answer: str | None, outcome: Any, step: str
) -> None:
    verdicts = history.classify(documents(["a", "a", "a"]), trigger(resolver=always(answer)))
    assert outcomes(verdicts) == [NEW, outcome, outcome]
    assert rules(verdicts) == ["R8", f"R8+batch>{step}", f"R8+batch>{step}"]


@pytest.mark.parametrize("mode", ["serial", "concurrent"])
@pytest.mark.parametrize(("setting", "outcome"), [("duplicate", DUPLICATE), ("in_doubt", IN_DOUBT), ("new", NEW)])
def test_copies_setting_overrides_the_mode_and_the_resolver(
    history: dh.History, mode: str, setting: str, outcome: Any
) -> None:
    asked: list[Any] = []
    settings = trigger(processing_mode=mode, in_batch=setting, resolver=asked.append)
    verdicts = history.classify(documents(["a", "a"]), settings)
    assert outcomes(verdicts) == [NEW, outcome]
    assert rules(verdicts) == ["R8", "R8+batch"]
    assert asked == []


@pytest.mark.parametrize(
    ("settings", "outcome"),
    [
        ({"processing_mode": "serial"}, DUPLICATE),
        ({"processing_mode": "concurrent"}, IN_DOUBT),
        ({"in_batch": "new"}, NEW),
        ({"in_batch": "duplicate"}, DUPLICATE),
        ({"in_batch": "in_doubt", "processing_mode": "serial"}, IN_DOUBT),
    ],
)
def test_only_the_first_copy_that_the_resolver_calls_new_is_new(
    history: dh.History, settings: dict[str, str], outcome: Any
) -> None:
    history.begin(documents(["a"]), trigger())
    verdicts = history.classify(documents(["a", "b", "a"]), trigger(resolver=always("NEW"), **settings))
    assert outcomes(verdicts) == [NEW, NEW, outcome]
    assert rules(verdicts) == ["R10>S1", "R8", "R10>S1+batch"]


def test_copy_that_the_resolver_calls_not_new_keeps_its_answer(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger())
    answers = ["IN_DOUBT", "NEW", "DUPLICATE", "NEW"]
    settings = trigger(processing_mode="serial", resolver=lambda _: answers)
    assert rules(history.classify(documents(["a"] * 4), settings)) == ["R10>S3", "R10>S1", "R10>S2", "R10>S1+batch"]


def test_copies_of_what_is_completed_are_all_duplicates(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger()).complete()
    verdicts = history.classify(documents(["a", "a"]), trigger(in_batch="new"))
    assert rules(verdicts) == ["R9", "R9"]


def test_a_document_that_is_not_evaluated_is_no_first_copy(history: dh.History) -> None:
    batch = documents(["a", "a", "a"], guaranteed=[False, True, True])
    assert rules(history.classify(batch, trigger())) == ["R1", "R8", "R8+batch"]


def test_a_document_that_is_not_evaluated_is_no_later_copy(history: dh.History) -> None:
    batch = documents(["a", "a"], guaranteed=[True, False])
    assert rules(history.classify(batch, trigger())) == ["R8", "R1"]


def test_a_rejected_message_is_no_first_copy(history: dh.History) -> None:
    batch = documents(["a", "a"], delivery_count=[100, 1])
    assert rules(history.classify(batch, trigger(kind="jms"))) == ["R2", "R8"]


def test_without_the_history_copies_do_not_know_each_other(history: dh.History) -> None:
    batch = documents(["a", "a"], redelivery_count=[0, 0])
    assert rules(history.classify(batch, trigger(use_history=False, processing_mode="serial"))) == ["R12", "R12"]


def test_documents_without_a_key_are_no_copies_of_each_other(history: dh.History) -> None:
    verdicts = history.classify(documents([None, "", None]), trigger(processing_mode="serial"))
    assert rules(verdicts) == ["R3", "R3", "R3"]


def test_copies_meet_across_the_chunks_of_a_table(history: dh.History) -> None:
    table = pa.Table.from_batches([documents(["a", "b"]), documents(["b", "a"])])
    verdicts = history.classify(table, trigger(processing_mode="serial"))
    assert statuses(verdicts) == ["NEW", "NEW", "DUPLICATE", "DUPLICATE"]


def test_copies_meet_across_the_columns_of_the_key_chain(history: dh.History) -> None:
    batch = documents(["a", None], track_id=pa.array([None, "a"], pa.string()))
    assert rules(history.classify(batch, trigger())) == ["R8", "R8+batch"]


def test_many_copies_among_many_documents_are_all_found(history: dh.History) -> None:
    ids = [f"order {row % 10_007}" for row in range(50_000)]
    verdicts = statuses(history.classify(documents(ids), trigger(processing_mode="serial")))
    assert verdicts == ["NEW"] * 10_007 + ["DUPLICATE"] * (50_000 - 10_007)


def test_beginning_records_only_the_copy_that_is_to_be_processed(history: dh.History) -> None:
    settings = trigger(processing_mode="serial")
    claim = history.begin(documents(["a", "b", "a"], note=["first", "other", "copy"]), settings)
    assert claim.new.column("note").to_pylist() == ["first", "other"]
    claim.complete()
    assert statuses(history.classify(documents(["a", "b"]), settings)) == ["DUPLICATE", "DUPLICATE"]
