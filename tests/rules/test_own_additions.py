"""What the documented systems do not have: settings of our own, each with their behaviour by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import column, documents, outcomes, rules, statuses, trigger

DUPLICATE_NEXT = {"a": "DUPLICATE", "b": "IN_DOUBT", "c": "NEW"}


def knowing(answers: dict[str, str] = DUPLICATE_NEXT) -> Any:
    """A resolver that answers by key, and counts how often it is asked."""

    def resolver(batch: pa.RecordBatch) -> list[str]:
        asked.append(batch["dh_key"].to_pylist())
        return [answers[key] for key in asked[-1]]

    asked: list[list[str]] = []
    resolver.asked = asked  # type: ignore[attr-defined]
    return resolver


def test_resolvers_duplicate_is_completed_once(history: dh.History) -> None:
    history.begin(documents(["a", "b"]), trigger())
    asking = trigger(resolver=knowing())
    first = history.begin(documents(["a", "b"]), asking)
    assert rules(first.verdicts) == ["R10>S2", "R10>S3"]
    again = history.begin(documents(["a", "b"]), asking)
    assert rules(again.verdicts) == ["R9", "R10>S3"]
    assert asking.resolver.asked == [["a", "b"], ["b"]]  # type: ignore[union-attr]
    assert rules(history.classify(documents(["a", "b"]), trigger())) == ["R9", "R11"]


def test_resolvers_duplicate_ends_every_open_claim(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger())
    history.begin(documents(["a"]), trigger(resolver=lambda batch: ["NEW"] * batch.num_rows))
    history.begin(documents(["a"]), trigger(resolver=knowing()))
    states = [entry["status"] for entry in history.entries(trigger()).read_all().to_pylist()]
    assert set(states) == {"completed"}


def test_resolvers_duplicate_survives_reopening(directory: Path) -> None:
    with dh.open(directory, create=True) as history:
        history.begin(documents(["a"]), trigger())
        history.begin(documents(["a"]), trigger(resolver=knowing()))
    with dh.open(directory) as history:
        assert rules(history.classify(documents(["a"]), trigger())) == ["R9"]


def test_resolvers_duplicate_outlasts_a_late_release(history: dh.History) -> None:
    slow = history.begin(documents(["a"]), trigger())
    history.begin(documents(["a"]), trigger(resolver=knowing()))
    slow.release()
    assert rules(history.classify(documents(["a"]), trigger())) == ["R9"]


def test_classify_records_no_resolution(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger())
    history.classify(documents(["a"]), trigger(resolver=knowing()))
    assert rules(history.classify(documents(["a"]), trigger())) == ["R11"]


def test_without_complete_resolved_all_ask_again(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger())
    asking = trigger(resolver=knowing(), complete_resolved=False)
    for _ in range(3):
        assert rules(history.begin(documents(["a"]), asking).verdicts) == ["R10>S2"]
    assert rules(history.classify(documents(["a"]), trigger())) == ["R11"]


@pytest.mark.parametrize(
    ("columns", "rule"), [({"guaranteed": [True, False]}, "R1"), ({"redelivery_count": [1, 9]}, "R2")]
)
def test_a_copy_that_was_not_asked_about_contradicts_nothing(
    history: dh.History, columns: dict[str, list[Any]], rule: str
) -> None:
    history.begin(documents(["a"]), trigger())
    asking = trigger(resolver=knowing(), max_redelivery_count=5)
    assert rules(history.begin(documents(["a", "a"], **columns), asking).verdicts) == ["R10>S2", rule]
    assert rules(history.classify(documents(["a"]), trigger())) == ["R9"]


def test_contradictory_answers_complete_nothing(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger())
    contradicting = trigger(resolver=lambda batch: ["DUPLICATE", "NEW"][: batch.num_rows])
    claim = history.begin(documents(["a", "a"]), contradicting)
    assert rules(claim.verdicts) == ["R10>S2", "R10>S1"]
    assert rules(history.classify(documents(["a"]), trigger())) == ["R11"]


def test_batch_without_any_id_is_refused_by_column(history: dh.History) -> None:
    batch = pa.table({"message_id": pa.array([None, "", None], pa.string())})
    with pytest.raises(dh.SchemaError, match=r"none of the 3 documents has an id: message_id is null or empty"):
        history.begin(batch, trigger(), columns={"uuid": "message_id"})


def test_batch_with_one_id_is_begun(history: dh.History) -> None:
    assert rules(history.begin(documents([None, "a", None]), trigger()).verdicts) == ["R3", "R8", "R3"]


@pytest.mark.parametrize(
    ("of", "columns", "rule"),
    [
        (trigger(without_ids="in_doubt"), {}, "R3"),
        (trigger(resolver=lambda batch: ["NEW"] * batch.num_rows), {}, "R3>S1"),
        (trigger(use_history=False), {}, "R16"),
        (trigger(), {"guaranteed": [False, False]}, "R1"),
    ],
)
def test_batch_without_ids_that_is_meant_is_begun(
    history: dh.History, of: dh.Trigger, columns: dict[str, Any], rule: str
) -> None:
    assert rules(history.begin(documents([None, None], **columns), of).verdicts) == [rule, rule]


def test_single_document_without_id_is_in_doubt(history: dh.History) -> None:
    assert rules(history.begin(documents([None]), trigger()).verdicts) == ["R3"]
    assert history.begin_one(trigger=trigger()).rule == "R3"


def test_redelivered_too_often_is_rejected(history: dh.History) -> None:
    most = trigger(max_redelivery_count=3)
    batch = documents(["a", "b", "c", "d"], redelivery_count=[2, 3, 4, None])
    claim = history.begin(batch, most)
    assert outcomes(claim.verdicts)[1:3] == [(None, "REJECT", "NOW")] * 2
    assert rules(claim.verdicts) == ["R8", "R2", "R2", "R8"]
    assert column(history.begin(batch, trigger()).verdicts, "rule") == ["R11", "R8", "R8", "R11"]


def test_a_claim_counts_its_verdicts(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger()).complete()
    claim = history.begin(documents(["a", "b", "c", None]), trigger())
    assert claim.counts == dh.count_verdicts(claim.verdicts)
    assert statuses(claim.verdicts) == ["DUPLICATE", "NEW", "NEW", "IN_DOUBT"]


def test_document_without_id_is_warned_of_once_and_counted(
    history: dh.History, caplog: pytest.LogCaptureFixture
) -> None:
    nameless = documents([None])
    for _ in range(2):
        assert rules(history.begin(nameless, trigger()).verdicts) == ["R3"]
    assert history.begin_one(uuid=None, trigger=trigger()).rule == "R3"
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("orders: a document has no id, so it is in doubt (R3), and nobody processes it")
    assert history.stats("orders")["begun_without_id"] == 3
    assert dh.metrics.history_metrics(history)["orders"]["begun_without_id"] == 3
    assert 'dochistory_begun_without_id_total{trigger="orders"} 3\n' in dh.metrics.prometheus_text(history)


@pytest.mark.parametrize(
    ("of", "audit"),
    [(trigger(), True), (trigger(), False), (trigger(without_ids="in_doubt"), None)],
    ids=["kept", "told", "meant"],
)
def test_document_without_id_that_is_kept_is_only_counted(
    history: dh.History, caplog: pytest.LogCaptureFixture, of: dh.Trigger, audit: bool | None
) -> None:
    history.begin(documents([None]), of, audit=audit)
    assert (caplog.records, history.stats("orders")["begun_without_id"]) == ([], 1)
