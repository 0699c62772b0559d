"""Documents that one claim began twice, or others ended meanwhile: what becomes of them, also after the log went."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import dochistory as dh
from tests.binding.test_other_rows import by_tasks
from tests.support import T0, documents, fresh_ids, rules, status_of, trigger

NEW: dict[str, Any] = {"resolver": lambda batch: ["NEW"] * batch.num_rows}
LARGE = 200


def copies_by_setting() -> dh.Trigger:
    return trigger(in_batch="new")


def copies_by_resolver() -> dh.Trigger:
    return trigger(processing_mode="concurrent", **NEW)


BOTH = pytest.mark.parametrize("made", [copies_by_setting, copies_by_resolver])
Made = Callable[[], dh.Trigger]


def begin(history: dh.History, ids: list[str], made: Made, **options: object) -> dh.Claim:
    claim = history.begin(documents(ids), made(), now=T0, **options)  # type: ignore[arg-type]
    assert claim.new.num_rows == len(ids)
    return claim


def put_away(history: dh.History) -> None:
    """Put the log into segments, by a purge that has something to do in it."""
    history.begin(documents(["long ago"]), trigger(), now=T0 - timedelta(days=60)).complete()
    history.purge(trigger(), now=T0)
    assert status_of(history, ["long ago"]) == ["NEW"]


@BOTH
@pytest.mark.parametrize("ids", [["b", "b", "q"], ["q", "b", "b"], ["b", *map(str, range(LARGE)), "b"]])
def test_released_copies_stay_new_after_the_log_went(history: dh.History, made: Made, ids: list[str]) -> None:
    begin(history, ids, made).release([row for row, one in enumerate(ids) if one == "b"])
    assert status_of(history, ["b"]) == ["NEW"]
    put_away(history)
    assert status_of(history, ["b"]) == ["NEW"]


@BOTH
@pytest.mark.parametrize("ids", [["b", "b", "q"], ["b", *map(str, range(LARGE)), "b"]])
def test_copies_released_by_key_stay_new_after_the_log_went(history: dh.History, made: Made, ids: list[str]) -> None:
    begin(history, ids, made)
    others = list(dict.fromkeys(ids))
    assert history.release(others, trigger()) == {"changed": len(others), "already": 0, "unknown": 0}
    assert set(status_of(history, others)) == {"NEW"}
    put_away(history)
    assert set(status_of(history, others)) == {"NEW"}


@BOTH
def test_a_document_is_released_with_its_last_copy(history: dh.History, made: Made) -> None:
    claim = begin(history, ["b", "b", "q"], made)
    claim.release([1])
    assert status_of(history, ["b"]) == ["IN_DOUBT"]
    put_away(history)
    assert status_of(history, ["b"]) == ["IN_DOUBT"]
    claim.release([0])
    assert status_of(history, ["b"]) == ["NEW"]
    assert sorted(claim.released_rows) == [0, 1]


@BOTH
@pytest.mark.parametrize("rows", [[0], None])
def test_a_document_is_over_with_one_completed_copy(history: dh.History, made: Made, rows: list[int] | None) -> None:
    claim = begin(history, ["b", "b", "q"], made)
    claim.release([1])
    claim.complete(rows)
    assert status_of(history, ["b"]) == ["DUPLICATE"]
    put_away(history)
    assert status_of(history, ["b"]) == ["DUPLICATE"]


@BOTH
def test_a_document_with_a_completed_copy_is_not_released(history: dh.History, made: Made) -> None:
    claim = begin(history, ["b", "b", "q"], made)
    claim.complete([0])
    claim.release([1])
    claim.release()
    assert status_of(history, ["b", "q"]) == ["DUPLICATE", "NEW"]


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("is_put_away", [False, True])
@pytest.mark.parametrize("transaction", [None, ("app", 1)])
def test_a_claim_completes_what_was_released_by_key(
    history: dh.History, transaction: tuple[str, int] | None, is_put_away: bool, others: bool
) -> None:
    claim = history.begin(documents(["k", "l"]), trigger(), now=T0, transaction=transaction)
    if others:
        with dh.open(history.path) as other:
            other.release(["k"], trigger())
            if is_put_away:
                put_away(other)
    else:
        history.release(["k"], trigger())
        if is_put_away:
            put_away(history)
    assert status_of(history, ["k"]) == ["NEW"]
    claim.complete()
    assert status_of(history, ["k", "l"]) == ["DUPLICATE", "DUPLICATE"]
    if transaction:
        again = history.begin(documents(["k", "l"]), trigger(), now=T0, transaction=transaction)
        assert (rules(again.verdicts), again.replay) == (["R9", "R9"], "finished")


def test_one_document_completes_what_was_released_by_key(history: dh.History) -> None:
    one = history.begin_one(uuid="k", trigger=trigger(), now=T0)
    history.release(["k"], trigger())
    one.complete()
    assert status_of(history, ["k"]) == ["DUPLICATE"]


def test_own_released_rows_stay_released_beside_others(history: dh.History) -> None:
    claim = history.begin(documents(["j", "k", "l"]), trigger(), now=T0)
    claim.release([0])
    history.release(["k"], trigger())
    claim.complete()
    assert status_of(history, ["j", "k", "l"]) == ["NEW", "DUPLICATE", "DUPLICATE"]


def test_a_rerun_leaves_what_it_does_not_run_in_doubt(history: dh.History) -> None:
    asking = trigger(**NEW)
    first = history.begin(documents(["g"]), trigger(), now=T0, transaction=("B", 0))
    history.begin(documents(["g", "h"]), asking, now=T0, transaction=("A", 0))
    again = history.begin(documents(["g", "h"]), trigger(), now=T0, transaction=("A", 0), on_replay="rerun")
    assert (rules(again.verdicts), again.new["uuid"].to_pylist()) == (["R11", "R8"], ["h"])
    first.release()
    assert status_of(history, ["g", "h"]) == ["IN_DOUBT", "IN_DOUBT"]
    again.release()
    assert status_of(history, ["g", "h"]) == ["IN_DOUBT", "NEW"]
    put_away(history)
    assert status_of(history, ["g", "h"]) == ["IN_DOUBT", "NEW"]


@pytest.mark.parametrize("is_put_away", [False, True])
def test_a_staged_claim_completes_what_was_released_by_key(history: dh.History, is_put_away: bool) -> None:
    _, claim = by_tasks(history, ["k", "l", "m"])
    claim.release(["m"])
    with dh.open(history.path) as other:
        other.release(["k"], trigger())
        if is_put_away:
            put_away(other)
    assert status_of(history, ["k", "l", "m"]) == ["NEW", "IN_DOUBT", "NEW"]
    claim.complete()
    assert status_of(history, ["k", "l", "m"]) == ["DUPLICATE", "DUPLICATE", "NEW"]


def test_many_keys_are_completed_after_others_ended_the_log(history: dh.History) -> None:
    ids = [*fresh_ids(70_000), *map(str, range(LARGE))]
    claim = history.begin(documents(ids), trigger(), now=T0)
    with dh.open(history.path) as other:
        other.release([ids[7], "3"], trigger())
        put_away(other)
    assert status_of(history, [ids[7], "3", "4"]) == ["NEW", "NEW", "IN_DOUBT"]
    claim.complete()
    assert set(status_of(history, ids)) == {"DUPLICATE"}


@pytest.mark.parametrize("is_put_away", [False, True])
def test_a_doubt_that_a_finished_batch_left_is_new_once_released(history: dh.History, is_put_away: bool) -> None:
    def begin_again() -> dh.Claim:
        return history.begin(documents(["x", "y"]), trigger(), now=T0, transaction=("a", 0))

    history.begin(documents(["x"]), trigger(), now=T0)
    first = begin_again()
    assert rules(first.verdicts) == ["R11", "R8"]
    first.complete()
    if is_put_away:
        put_away(history)
    again = begin_again()
    assert (rules(again.verdicts), again.replay) == (["R11", "R9"], "finished")
    history.release(["x"], trigger())
    again = begin_again()
    assert (rules(again.verdicts), again.replay, again.new["uuid"].to_pylist()) == (["R8", "R9"], "finished", ["x"])
    again.complete()
    again = begin_again()
    assert (rules(again.verdicts), again.replay) == (["R9", "R9"], "finished")
