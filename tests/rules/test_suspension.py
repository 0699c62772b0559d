"""Suspension: what comes after it in a batch waits, what came before it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from tests.support import IN_DOUBT, NEW, REJECT, SUSPEND, away, documents, entries, outcomes, rules, trigger


def transient(_: Any) -> Any:
    raise dh.TransientError("the other system is down")


def test_unavailable_history_suspends_from_its_first_row_on(history: dh.History, directory: Path) -> None:
    batch = documents(["a", None, "b", "c"], guaranteed=[False, True, True, False])
    with away(directory):
        verdicts = history.classify(batch, trigger())
    assert outcomes(verdicts) == [NEW, IN_DOUBT, SUSPEND, SUSPEND]
    assert rules(verdicts) == ["R1", "R3", "R5", "R5"]


def test_rejections_after_a_suspension_wait_too(history: dh.History, directory: Path) -> None:
    batch = documents(["a", "b", "c"], delivery_count=[100, 1, 100])
    with away(directory):
        verdicts = history.classify(batch, trigger(kind="jms"))
    assert outcomes(verdicts) == [REJECT, SUSPEND, SUSPEND]
    assert rules(verdicts) == ["R2", "R5", "R5"]


@pytest.mark.parametrize(("server", "own"), [(True, False), (False, True), (True, True)])
def test_either_switch_suspends(history: dh.History, directory: Path, server: bool, own: bool) -> None:
    settings = trigger(suspend_and_retry_on_error=server, suspend_on_failure=own)
    with away(directory):
        assert rules(history.classify(documents(["a"]), settings)) == ["R5"]


def test_unavailable_history_without_suspension_leaves_in_doubt(history: dh.History, directory: Path) -> None:
    with away(directory):
        verdicts = history.classify(documents(["a", "b"]), trigger(suspend_and_retry_on_error=False))
    assert outcomes(verdicts) == [IN_DOUBT, IN_DOUBT]
    assert rules(verdicts) == ["R7", "R7"]


def test_transient_resolver_failure_suspends_from_its_row_on(history: dh.History) -> None:
    history.begin(documents(["b"]), trigger())
    verdicts = history.classify(documents(["a", "b", "c"]), trigger(resolver=transient))
    assert outcomes(verdicts) == [NEW, SUSPEND, SUSPEND]
    assert rules(verdicts) == ["R8", "R10>S4", "R10>S4"]


def test_row_failing_transiently_keeps_earlier_answers(history: dh.History) -> None:
    history.begin(documents(["a", "b", "c"]), trigger())
    answers = ["NEW", dh.TransientError("later"), "DUPLICATE"]
    verdicts = history.classify(documents(["a", "b", "c"]), trigger(resolver=lambda _: answers, resolver_attempts=1))
    assert outcomes(verdicts) == [NEW, SUSPEND, SUSPEND]
    assert rules(verdicts) == ["R10>S1", "R10>S4", "R10>S4"]


def test_what_is_suspended_is_not_recorded(history: dh.History) -> None:
    history.begin(documents(["b"]), trigger())
    claim = history.begin(documents(["a", "b", "c"]), trigger(resolver=transient))
    assert claim.new.column("uuid").to_pylist() == ["a"]
    assert sorted(row["key"] for row in entries(history, trigger())) == ["a", "b"]


def test_beginning_on_an_unavailable_history_claims_nothing(history: dh.History, directory: Path) -> None:
    with away(directory):
        claim = history.begin(documents(["a", "b"]), trigger())
    assert rules(claim.verdicts) == ["R5", "R5"]
    assert claim.new.num_rows == 0
    assert rules(history.classify(documents(["a", "b"]), trigger())) == ["R8", "R8"]


def test_the_history_is_used_again_as_soon_as_it_is_back(history: dh.History, directory: Path) -> None:
    history.begin(documents(["a"]), trigger()).complete()
    with away(directory):
        assert rules(history.classify(documents(["a"]), trigger())) == ["R5"]
    assert rules(history.classify(documents(["a"]), trigger())) == ["R9"]


def test_suspension_of_one_trigger_leaves_the_others_alone(history: dh.History) -> None:
    for name in ("orders", "invoices"):
        history.begin(documents(["a"]), trigger(name))
    assert rules(history.classify(documents(["a", "b"]), trigger(resolver=transient))) == ["R10>S4", "R10>S4"]
    assert rules(history.classify(documents(["a", "b"]), trigger("invoices"))) == ["R11", "R8"]
