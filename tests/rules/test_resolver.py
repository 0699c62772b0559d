"""The resolver: asked last, once, about the undecided rows only, and told why they are undecided."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import T0, column, documents, entries, rules, status_of, statuses, trigger

Resolve = Callable[[pa.RecordBatch], Any]


class Recorder:
    """A resolver that remembers what it was asked."""

    def __init__(self, answer: str = "IN_DOUBT") -> None:
        self.batches: list[pa.RecordBatch] = []
        self.answer = answer

    def __call__(self, batch: pa.RecordBatch) -> list[str]:
        self.batches.append(batch)
        return [self.answer] * batch.num_rows


@pytest.fixture
def begun(history: dh.History) -> dh.History:
    """A history in which "p", "q" and "r" are processing and "c" is completed."""
    history.begin(documents(["p", "q", "r"]), trigger(), now=T0)
    history.begin(documents(["c"]), trigger(), now=T0).complete()
    return history


def resolved(history: dh.History, resolver: Resolve, **settings: Any) -> Any:
    """The verdicts on "p", "q" and "r"."""
    return history.classify(documents(["p", "q", "r"]), trigger(resolver=resolver, **settings), now=T0)


def test_it_is_asked_once_about_the_undecided_rows_only(begun: dh.History) -> None:
    resolver = Recorder()
    batch = documents(["n", "p", "c", None, "x" * 97, "q", "n"])
    verdicts = begun.classify(batch, trigger(resolver=resolver), now=T0)
    assert rules(verdicts) == ["R8", "R10>S3", "R9", "R3>S3", "R4>S3", "R10>S3", "R8+batch>S3"]
    assert len(resolver.batches) == 1
    assert column(resolver.batches[0], "dh_row") == [1, 3, 4, 5, 6]
    assert column(resolver.batches[0], "dh_reason") == ["R10", "R3", "R4", "R10", "R8+batch"]


def test_it_is_not_asked_when_nothing_is_undecided(begun: dh.History) -> None:
    resolver = Recorder()
    assert statuses(begun.classify(documents(["n", "c"]), trigger(resolver=resolver))) == ["NEW", "DUPLICATE"]
    assert resolver.batches == []


def test_it_is_asked_once_about_a_table_of_many_chunks(begun: dh.History) -> None:
    resolver = Recorder()
    table = pa.Table.from_batches([documents(["p", "n"]), documents([]), documents(["q"]), documents(["c", "r"])])
    verdicts = begun.classify(table, trigger(resolver=resolver))
    assert rules(verdicts) == ["R10>S3", "R8", "R10>S3", "R9", "R10>S3"]
    assert [column(batch, "uuid") for batch in resolver.batches] == [["p", "q", "r"]]
    assert column(resolver.batches[0], "dh_row") == [0, 2, 4]


def test_it_is_asked_once_whatever_the_number_of_threads(begun: dh.History) -> None:
    resolver = Recorder()
    ids = ["p", *(f"n{row}" for row in range(20_000)), "q"]
    begun.classify(documents(ids), trigger(resolver=resolver), threads=2)
    assert [column(batch, "dh_row") for batch in resolver.batches] == [[0, 20_001]]


def test_it_is_asked_once_when_documents_are_begun(begun: dh.History) -> None:
    resolver = Recorder("NEW")
    claim = begun.begin(documents(["p", "n"]), trigger(resolver=resolver))
    assert claim.new.column("uuid").to_pylist() == ["p", "n"]
    assert len(resolver.batches) == 1


def test_resolver_sees_every_column_and_the_reason(begun: dh.History) -> None:
    resolver = Recorder()
    batch = documents(["n", "p"], redelivery_count=[0, 3], payload=[b"one", b"two"], lines=[[1], [2, 3]])
    begun.classify(batch, trigger(resolver=resolver), now=T0)
    [asked] = resolver.batches
    assert isinstance(asked, pa.RecordBatch)
    [row] = asked.to_pylist()
    assert {name: row[name] for name in ("uuid", "redelivery_count", "payload", "lines")} == {
        "uuid": "p",
        "redelivery_count": 3,
        "payload": b"two",
        "lines": [2, 3],
    }
    added = {name: row[name] for name in row if name.startswith("dh_")}
    assert added == {
        "dh_trigger": "orders",
        "dh_key": "p",
        "dh_count": 3,
        "dh_reason": "R10",
        "dh_started_at": T0,
        "dh_row": 1,
    }
    assert asked.schema.field("dh_started_at").type == pa.timestamp("us", tz="UTC")


def test_it_is_told_a_start_time_only_of_what_is_processing(begun: dh.History) -> None:
    resolver = Recorder()
    begun.classify(documents(["p", None, "n", "n"]), trigger(resolver=resolver), now=T0)
    [asked] = resolver.batches
    assert column(asked, "dh_reason") == ["R10", "R3", "R8+batch"]
    assert [one and one.astimezone(UTC) for one in column(asked, "dh_started_at")] == [T0, None, None]
    assert column(asked, "dh_key") == ["p", None, "n"]


def test_without_the_history_it_is_told_the_counts(history: dh.History) -> None:
    resolver = Recorder()
    settings = trigger(use_history=False, resolver=resolver)
    verdicts = history.classify(documents(list("abcd"), redelivery_count=[0, 4, None, -1]), settings)
    assert rules(verdicts) == ["R12", "R13>S3", "R15>S3", "R15>S3"]
    assert column(resolver.batches[0], "dh_reason") == ["R13", "R15", "R15"]
    assert column(resolver.batches[0], "dh_count")[0] == 4


@pytest.mark.parametrize(
    "shape",
    [
        list,
        tuple,
        lambda words: pa.array(words, pa.string()),
        lambda words: pa.array(words, pa.large_string()),
        lambda words: pa.array(words, pa.string_view()),
        lambda words: pa.array(words, pa.string()).dictionary_encode(),
        lambda words: pa.chunked_array([pa.array(words[:1]), pa.array(words[1:])]),
        lambda words: pa.table({"status": words, "message": ["x", "y", "z"]}),
        lambda words: pa.RecordBatch.from_pydict({"status": words, "message": ["x", "y", "z"]}),
        lambda words: pa.table({"message": ["x", "y", "z"], "status": words}),
        lambda words: pa.table({"status": words}),
    ],
)
def test_it_may_answer_in_any_shape_of_column(begun: dh.History, shape: Callable[[list[str]], Any]) -> None:
    verdicts = resolved(begun, lambda _: shape(["NEW", "DUPLICATE", "IN DOUBT"]))
    assert rules(verdicts) == ["R10>S1", "R10>S2", "R10>S3"]


def test_its_messages_are_handed_on(begun: dh.History) -> None:
    answer = pa.table({"status": ["DUPLICATE", "IN_DOUBT", "NEW"], "message": ["seen on Monday", "ask Ada", None]})
    messages = column(resolved(begun, lambda _: answer), "message")
    assert messages[:2] == ["seen on Monday", "ask Ada"]


@pytest.mark.parametrize("answer", [None, "", "MAYBE", "new", " NEW", "NEW ", "IN-DOUBT", 42, b"NEW", ["NEW"]])
def test_answer_that_is_no_status_leaves_the_document_in_doubt(begun: dh.History, answer: Any) -> None:
    verdicts = resolved(begun, lambda _: ["NEW", answer, "DUPLICATE"])
    assert rules(verdicts) == ["R10>S1", "R10>S7", "R10>S2"]
    assert statuses(verdicts) == ["NEW", "IN_DOUBT", "DUPLICATE"]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        42,
        ["NEW"],
        ["NEW"] * 4,
        [],
        {"a", "NEW", "DUPLICATE"},
        frozenset("abc"),
        pa.table({"verdict": ["NEW"] * 3}),
    ],
)
def test_answer_of_wrong_length_leaves_all_rows_in_doubt(begun: dh.History, answer: Any) -> None:
    verdicts = resolved(begun, lambda _: answer)
    assert statuses(verdicts) == ["IN_DOUBT"] * 3
    assert set(rules(verdicts)) <= {"R10>S6", "R10>S7"}


@pytest.mark.parametrize("suspend", [True, False])
def test_an_error_for_a_row_leaves_that_row_in_doubt(begun: dh.History, suspend: bool) -> None:
    verdicts = resolved(
        begun, lambda _: ["NEW", RuntimeError("no such table"), "DUPLICATE"], suspend_and_retry_on_error=suspend
    )
    assert rules(verdicts) == ["R10>S1", "R10>S6", "R10>S2"]
    assert "no such table" in column(verdicts, "message")[1]


@pytest.mark.parametrize("suspend", [True, False])
def test_an_error_for_the_whole_call_leaves_every_row_in_doubt(begun: dh.History, suspend: bool) -> None:
    def resolve(_: pa.RecordBatch) -> Any:
        raise RuntimeError("no such table")

    verdicts = resolved(begun, resolve, suspend_and_retry_on_error=suspend)
    assert rules(verdicts) == ["R10>S6"] * 3
    assert statuses(verdicts) == ["IN_DOUBT"] * 3
    assert all("no such table" in message for message in column(verdicts, "message"))


def test_transient_errors_without_suspension_leave_rows_in_doubt(begun: dh.History) -> None:
    answers = ["NEW", dh.TransientError("later"), "DUPLICATE"]
    verdicts = resolved(begun, lambda _: answers, suspend_and_retry_on_error=False, resolver_attempts=1)
    assert rules(verdicts) == ["R10>S1", "R10>S5", "R10>S2"]


def test_a_subclass_of_the_transient_error_is_transient(begun: dh.History) -> None:
    class DownError(dh.TransientError):
        pass

    def resolve(_: pa.RecordBatch) -> Any:
        raise DownError("later")

    assert rules(resolved(begun, resolve)) == ["R10>S4"] * 3
    assert rules(resolved(begun, resolve, suspend_and_retry_on_error=False)) == ["R10>S5"] * 3


def test_document_resolved_as_new_begins_at_the_new_time(begun: dh.History) -> None:
    later = T0.replace(hour=13)
    begun.begin(documents(["p"]), trigger(resolver=Recorder("NEW")), now=later)
    started = {row["key"]: row["started_at"] for row in entries(begun, trigger(), status="processing")}
    assert started["p"] == later
    assert started["q"] == T0


def test_keyless_document_resolved_as_new_runs_unrecorded(history: dh.History) -> None:
    claim = history.begin(documents([None, "x" * 97]), trigger(resolver=Recorder("NEW")))
    assert rules(claim.verdicts) == ["R3>S1", "R4>S1"]
    assert claim.new.num_rows == 2
    claim.complete()
    assert entries(history, trigger()) == []


def test_it_may_use_the_history_itself(begun: dh.History) -> None:
    def resolve(batch: pa.RecordBatch) -> Any:
        return [str(one) for one in status_of(begun, ["c"])] * batch.num_rows

    assert statuses(resolved(begun, resolve)) == ["DUPLICATE"] * 3


def test_resolver_may_mix_pairs_with_errors(begun: dh.History) -> None:
    answers = [("NEW", "never shipped"), RuntimeError("no such table"), ("DUPLICATE", "shipped on Monday")]
    verdicts = resolved(begun, lambda _: answers)
    assert rules(verdicts) == ["R10>S1", "R10>S6", "R10>S2"]
    assert column(verdicts, "message") == ["never shipped", "RuntimeError: no such table", "shipped on Monday"]


def test_a_mapping_of_columns_may_hold_errors_and_messages(begun: dh.History) -> None:
    answer = {
        "status": ["IN_DOUBT", ValueError("broken"), "DUPLICATE"],
        "message": ["ask Ada", "while looking it up", None],
    }
    verdicts = resolved(begun, lambda _: answer)
    assert rules(verdicts) == ["R10>S3", "R10>S6", "R10>S2"]
    said = column(verdicts, "message")
    assert said[:2] == ["ask Ada", "while looking it up (ValueError: broken)"]
    assert said[2] not in (None, "")


@pytest.mark.parametrize("status", [pa.array(["NEW", "NEW", "DUPLICATE"]), ("NEW", "NEW", "DUPLICATE")])
def test_a_mapping_may_hold_any_sequences(begun: dh.History, status: Any) -> None:
    answer = {"status": status, "message": pa.array(["x", None, "z"])}
    verdicts = resolved(begun, lambda _: answer)
    assert rules(verdicts) == ["R10>S1", "R10>S1", "R10>S2"]
    assert column(verdicts, "message")[2] == "z"


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"message": ["x"] * 3},
        {"status": {"status": "NEW"}},
        {"status": ["NEW"]},
        {"status": "NEW"},
        {"status": None},
    ],
)
def test_a_mapping_that_does_not_fit_leaves_all_in_doubt(begun: dh.History, answer: Any) -> None:
    assert statuses(resolved(begun, lambda _: answer)) == ["IN_DOUBT"] * 3


class Failing:
    """A resolver that fails for the moment so many times, and remembers what it was asked."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.asked: list[list[str]] = []

    def __call__(self, batch: pa.RecordBatch) -> Any:
        self.asked.append(column(batch, "dh_key"))
        if len(self.asked) <= self.times:
            raise dh.TransientError(f"down for the {len(self.asked)}. time")
        return ["DUPLICATE"] * batch.num_rows


@pytest.mark.parametrize(("times", "rule"), [(0, "R10>S2"), (2, "R10>S2"), (3, "R10>S4")])
def test_a_failure_for_the_moment_counts_only_if_it_lasts(begun: dh.History, times: int, rule: str) -> None:
    resolver = Failing(times)
    assert rules(resolved(begun, resolver, resolver_backoff=0)) == [rule] * 3
    assert len(resolver.asked) == min(times + 1, 3)


def test_how_often_it_is_asked_is_a_setting(begun: dh.History) -> None:
    for attempts in (1, 5):
        resolver = Failing(99)
        verdicts = resolved(begun, resolver, resolver_attempts=attempts, resolver_backoff=0)
        assert len(resolver.asked) == attempts
        assert column(verdicts, "message")[0] == f"TransientError: down for the {attempts}. time"


def test_only_documents_that_it_failed_for_are_asked_about_again(begun: dh.History) -> None:
    asked: list[list[int]] = []

    def some(batch: pa.RecordBatch) -> list[Any]:
        asked.append(column(batch, "dh_row"))
        assert batch.schema.names[0] == "uuid"
        first = {
            0: ["DUPLICATE", dh.TransientError("busy"), dh.TransientError("busy")],
            1: ["NEW", dh.TransientError()],
        }
        return first.get(len(asked) - 1, [("IN_DOUBT", "at last")] * batch.num_rows)

    verdicts = resolved(begun, some, resolver_backoff=0)
    assert rules(verdicts) == ["R10>S2", "R10>S1", "R10>S3"]
    assert asked == [[0, 1, 2], [1, 2], [2]]
    assert column(verdicts, "message")[2] == "at last"


def test_second_answer_of_wrong_length_fails_only_its_rows(begun: dh.History) -> None:
    answers: list[Any] = [["NEW", dh.TransientError("busy"), dh.TransientError("busy")], ["NEW"]]
    verdicts = resolved(begun, lambda _: answers.pop(0), resolver_backoff=0)
    assert rules(verdicts) == ["R10>S1", "R10>S6", "R10>S6"]
    assert "1 answers for 2 rows" in column(verdicts, "message")[1]


def test_other_failures_are_not_tried_again(begun: dh.History) -> None:
    calls = []

    def broken(batch: pa.RecordBatch) -> Any:
        calls.append(batch)
        raise ValueError("broken")

    assert rules(resolved(begun, broken)) == ["R10>S6"] * 3
    assert len(calls) == 1


def test_beginning_asks_again_too_and_holds_no_lock_meanwhile(begun: dh.History) -> None:
    def resolver(batch: pa.RecordBatch) -> Any:
        begun.begin(documents(["other"]), trigger())
        return failing(batch)

    failing = Failing(2)
    claim = begun.begin(documents(["p"]), trigger(resolver=resolver, resolver_backoff=0))
    assert rules(claim.verdicts) == ["R10>S2"]
    assert len(failing.asked) == 3


def test_an_interrupt_ends_the_wait_for_a_resolver(begun: dh.History) -> None:
    import os
    import signal
    import threading

    def resolver(_: pa.RecordBatch) -> Any:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        raise dh.TransientError("down")

    with pytest.raises(KeyboardInterrupt):
        resolved(begun, resolver, resolver_backoff="25 s")
