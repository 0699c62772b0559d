"""A batch number that comes again with other rows: refused before anything is recorded, or looked up row by row."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import T0, documents, entries, rules, trigger

APP = ("app", 5)
DAYS_31 = timedelta(days=31)

Begin = Callable[..., Any]


def by_driver(history: dh.History, ids: Sequence[str | None], **options: Any) -> tuple[list[str], Any]:
    """One process decides: the rules, and the claim."""
    claim = history.begin(documents(ids), trigger(), now=T0, transaction=APP, **options)
    return rules(claim.verdicts), claim


def by_tasks(history: dh.History, ids: Sequence[str | None], **options: Any) -> tuple[list[str], Any]:
    """Tasks decide a part each, in another order; decided again where the commit asks for it."""
    receipts: list[bytes] | None = None
    for _ in range(2):
        parts = [list(enumerate(ids))[place::2][::-1] for place in range(2)]
        job = history._shards.reserve(trigger(), 2, transaction=APP, now=T0, receipts=receipts, **options)
        found: dict[int, str] = {}
        receipts = []
        with dh.open(history.path, snapshot=job.snapshot) as task:
            for place, part in enumerate(parts):
                table = documents([one for _, one in part])
                staged = task._shards.stage(table, trigger(), job=job.token, part=place, attempt="a")
                found.update(zip([row for row, _ in part], rules(staged.verdicts), strict=True))
                receipts.append(staged.receipt)
        try:
            return [found[row] for row in range(len(ids))], job.commit(receipts)
        except dh.ConflictError:
            job.abort()
    raise AssertionError("the second attempt knows the rows")


WAYS = pytest.mark.parametrize("begin", [by_driver, by_tasks])


def test_other_rows_under_a_finished_number_are_refused(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger(), transaction=APP).complete()
    with pytest.raises(
        dh.TransactionError, match=r"^\[DH-TRANSACTION\] batch 5 of application \"app\" was completed"
    ) as no:
        history.begin(documents(["c"]), trigger(), transaction=APP)
    for told in (
        "1 then, 1 now",
        "new checkpoint",
        "two queries",
        "filter",
        "restored",
        "Nothing was recorded",
        "look_up",
    ):
        assert told in str(no.value)
    assert rules(history.classify(documents(["a", "c"]), trigger())) == ["R9", "R8"]


@WAYS
@pytest.mark.parametrize("other", [["a"], ["a", "b", "c"], ["a", "c"], ["a", "b", "b"], ["a", "b", None], []])
@pytest.mark.parametrize("is_finished", [True, False])
def test_rows_that_differ_in_anything_are_refused(
    history: dh.History, begin: Begin, other: list[str | None], is_finished: bool
) -> None:
    claim = history.begin(documents(["a", "b"]), trigger(), transaction=APP)
    if is_finished:
        claim.complete()
    before = sorted((one["key"], one["status"]) for one in entries(history, trigger()))
    for on_replay in ("in_doubt", "rerun"):
        with pytest.raises(dh.TransactionError, match="other rows"):
            begin(history, other, on_replay=on_replay)
    assert sorted((one["key"], one["status"]) for one in entries(history, trigger())) == before
    assert history.transaction("orders", "app") == (5, "completed" if is_finished else "begun")


@WAYS
@pytest.mark.parametrize("first", [by_driver, by_tasks])
def test_same_rows_in_any_order_and_division_are_the_same_batch(
    history: dh.History, first: Begin, begin: Begin
) -> None:
    ids = ["a", "urn:b", None, "x" * 97, "7d444840-9dc0-4f5b-8b5c-5c5b7a2b1c01", "a", "c"]
    _, claim = first(history, ids)
    _, again = begin(history, ids[::-1])
    assert again.replay == "unfinished"
    claim.complete()
    found, last = begin(history, ids[::-1])
    assert last.replay == "finished"
    assert found == ["R9", "R9", "R9", "R4", "R3", "R9", "R9"]


@WAYS
def test_same_rows_after_a_purge_stay_done_and_others_are_new(history: dh.History, begin: Begin) -> None:
    history.begin(documents(["a", "b"]), trigger(), now=T0 - DAYS_31, transaction=APP).complete()
    history.purge(trigger(), now=T0)
    assert rules(history.classify(documents(["a"]), trigger())) == ["R8"]
    found, claim = begin(history, ["b", "a"])
    assert (found, claim.replay) == (["R9", "R9"], "finished")
    found, claim = begin(history, ["b", "c"], on_other_rows="look_up")
    assert (found, claim.replay) == (["R8", "R8"], "first")


@WAYS
def test_rows_released_by_themselves_are_new_in_a_replay(history: dh.History, begin: Begin) -> None:
    claim = history.begin(documents(["a", "b"]), trigger(), transaction=APP, now=T0)
    claim.release(rows=[1])
    claim.complete()
    found, again = begin(history, ["a", "b"])
    assert found == ["R9", "R8"]
    again.complete()
    assert begin(history, ["a", "b"])[0] == ["R9", "R9"]


def test_rows_that_were_suspended_are_new_in_a_replay(history: dh.History) -> None:
    is_down = True

    def resolver(asked: pa.RecordBatch) -> list[object]:
        return [dh.TransientError("down") if is_down else "IN_DOUBT"] * asked.num_rows

    asking = trigger(resolver=resolver, resolver_attempts=1)
    history.begin(documents(["b"]), asking, now=T0)
    first = history.begin(documents(["a", "b", "c"]), asking, transaction=("app", 1), now=T0)
    assert rules(first.verdicts) == ["R8", "R10>S4", "R10>S4"]
    first.complete()
    is_down = False
    again = history.begin(documents(["a", "b", "c"]), asking, transaction=("app", 1), now=T0)
    assert again.replay == "unfinished", "a part of it was left out"
    assert rules(again.verdicts) == ["R9", "R10>S3", "R8"]


@WAYS
def test_other_rows_are_looked_up_by_choice(history: dh.History, begin: Begin) -> None:
    history.begin(documents(["done"]), trigger()).complete()
    history.begin(documents(["a"]), trigger(), transaction=APP).complete()
    options = {"on_other_rows": "look_up"}
    found, claim = begin(history, ["a", "c", "done"], **options)
    assert (found, claim.replay) == (["R9", "R8", "R9"], "first")
    # From now on it is these rows that the number stands for.
    found, again = begin(history, ["c", "done", "a"], **options)
    assert (found, again.replay) == (["R11", "R9", "R9"], "unfinished")
    claim.complete()
    found, last = begin(history, ["a", "c", "done"], **options)
    assert (found, last.replay) == (["R9", "R9", "R9"], "finished")
    with pytest.raises(dh.TransactionError):
        begin(history, ["a"])


@WAYS
def test_rows_that_are_all_known_make_the_batch_known(history: dh.History, begin: Begin) -> None:
    history.begin(documents(["a", "b"]), trigger(), now=T0 - DAYS_31).complete()
    history.begin(documents(["a"]), trigger(), transaction=APP).complete()
    found, claim = begin(history, ["a", "b"], on_other_rows="look_up")
    claim.complete()
    history.purge(trigger(), now=T0)
    assert found == ["R9", "R9"]
    assert begin(history, ["b", "a"])[0] == ["R9", "R9"]


@WAYS
def test_other_rows_never_rerun_what_a_batch_left_open(history: dh.History, begin: Begin) -> None:
    first = history.begin(documents(["a", "b"]), trigger(), transaction=APP)
    found, claim = begin(history, ["b", "c"], on_replay="rerun", on_other_rows="look_up")
    assert found == ["R11", "R8"]
    claim.complete()
    assert rules(history.classify(documents(["a", "b", "c"]), trigger())) == ["R11", "R11", "R9"]
    first.complete()
    assert rules(history.classify(documents(["a", "b", "c"]), trigger())) == ["R9", "R9", "R9"]


@WAYS
def test_the_number_of_a_batch_that_was_rolled_back_is_free(history: dh.History, begin: Begin) -> None:
    history.begin(documents(["a", "b"]), trigger(), transaction=APP).release()
    found, claim = begin(history, ["b", "c"])
    assert (found, claim.replay) == (["R8", "R8"], "first")


def test_a_resolver_is_not_asked_about_a_batch_that_is_refused(history: dh.History) -> None:
    asked: list[int] = []

    def resolver(batch: pa.RecordBatch) -> list[str]:
        asked.append(batch.num_rows)
        return ["NEW"] * batch.num_rows

    history.begin(documents(["a"]), trigger(), transaction=APP)
    with pytest.raises(dh.TransactionError):
        history.begin(documents(["a", "b"]), trigger(resolver=resolver), transaction=APP)
    assert not asked


def test_a_large_batch_remembers_its_rows(history: dh.History) -> None:
    ids = [f"id-{number}" for number in range(150_000)]
    history.begin(documents(ids), trigger(), transaction=APP).complete()
    with dh.open(history.path) as reopened:
        assert reopened.begin(documents(ids[::-1]), trigger(), transaction=APP).replay == "finished"
        with pytest.raises(dh.TransactionError, match="150000 then, 149999 now"):
            reopened.begin(documents(ids[1:]), trigger(), transaction=APP)


def test_other_entries_under_a_known_number_are_refused(history: dh.History) -> None:
    def staged(*ids: str) -> list[bytes]:
        receipts = []
        for one in ids:
            job = history._shards.reserve(trigger(), reads=False)
            receipts.append(
                history._shards.stage_entries(documents([one]), trigger(), job=job.token, part=0, attempt="a")
            )
        return receipts

    assert history._shards.commit_entries(staged("a", "b"), trigger(), transaction=APP) == 2
    assert history._shards.commit_entries(staged("b", "a"), trigger(), transaction=APP) == 0
    with pytest.raises(dh.TransactionError, match="other rows"):
        history._shards.commit_entries(staged("a", "c"), trigger(), transaction=APP)
    assert rules(history.classify(documents(["a", "b", "c"]), trigger())) == ["R9", "R9", "R8"]
    assert history._shards.commit_entries(staged("a", "c"), trigger(), transaction=APP, on_other_rows="look_up") == 2
    assert rules(history.classify(documents(["a", "b", "c"]), trigger())) == ["R9", "R9", "R9"]


def test_what_is_done_with_other_rows_is_one_of_two_words(history: dh.History) -> None:
    for call in (
        lambda: history.begin(documents(["a"]), trigger(), on_other_rows="skip"),  # type: ignore[arg-type]
        lambda: history._shards.reserve(trigger(), on_other_rows="skip"),  # type: ignore[arg-type]
        lambda: history._shards.commit_entries([], trigger(), on_other_rows="skip"),  # type: ignore[arg-type]
    ):
        with pytest.raises(dh.ConfigError, match=r"on_other_rows is \"skip\"; allowed is \"error\" or \"look_up\""):
            call()


def _die_after_begin(path: Path) -> None:
    with dh.open(path) as history:
        history.begin(documents(["a", "b"]), trigger(), now=T0, transaction=APP)
        os.kill(os.getpid(), signal.SIGKILL)


@WAYS
def test_kill_before_complete_lets_only_the_same_rows_go_on(history_path: Path, begin: Begin) -> None:
    with dh.open(history_path, create=True):
        pass
    process = multiprocessing.get_context("spawn").Process(target=_die_after_begin, args=(history_path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with dh.open(history_path) as history:
        for on_replay in ("in_doubt", "rerun"):
            with pytest.raises(dh.TransactionError, match="was begun, and did not end"):
                begin(history, ["a", "b", "c"], on_replay=on_replay)
        assert begin(history, ["b", "a"])[0] == ["R11", "R11"]
        assert begin(history, ["b", "a"], on_replay="rerun")[0] == ["R8", "R8"]
