"""A claim that has ended refuses the other end: what it released may be another claim's by now."""

from datetime import timedelta

import pytest

import dochistory as dh
from dochistory import _native
from tests.support import T0, documents, status_of, trigger


def test_a_released_claim_completes_no_later_claims_document(history: dh.History) -> None:
    first = history.begin(documents(["a"]), trigger(), now=T0)
    first.release()
    second = history.begin(documents(["a"]), trigger(), now=T0)
    assert second.new.num_rows == 1
    for rows in (None, [0]):
        with pytest.raises(dh.StateError, match=r"\[DH-STATE\].*released.*begin them again"):
            first.complete(rows)
    first.release()
    second.release()
    assert status_of(history, ["a"]) == ["NEW"]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_what_a_later_claim_completes_is_kept_as_long_as_that(history: dh.History, is_loaded: bool) -> None:
    # Within a time partition, while the earlier one has completed it and the later one has not.
    asking = trigger(history_time_to_live="30 days", resolver=lambda rows: ["NEW"] * rows.num_rows)
    later = T0 + timedelta(hours=2)
    if is_loaded:
        second = history.begin(documents(["a"]), asking, now=later)
        history.load(documents(["a"], started_at=[T0]), asking)
    else:
        first = history.begin(documents(["a"]), asking, now=T0)
        second = history.begin(documents(["a"]), asking, now=later)
        first.complete()
    history.unpin(asking, history.pin(asking))
    history.maintain(asking, all=True)
    second.complete()
    history.purge(asking, now=T0 + timedelta(days=30, hours=1), force=True)
    assert status_of(history, ["a"], asking) == ["DUPLICATE"]
    history.purge(asking, now=later + timedelta(days=30), force=True)
    assert status_of(history, ["a"], asking) == ["NEW"]


def test_single_rows_refuse_the_other_end(history: dh.History) -> None:
    claim = history.begin(documents(["a", "b", "c"]), trigger(), now=T0)
    claim.release([1])
    claim.complete([0])
    with pytest.raises(dh.StateError, match="row 1 of this claim was released"):
        claim.complete([0, 1])
    with pytest.raises(dh.StateError, match="row 0 of this claim was completed"):
        claim.release([0])
    assert claim.released_rows == [1]
    claim.release([1])
    claim.complete([0])
    claim.complete()
    claim.complete()
    assert status_of(history, ["a", "b", "c"]) == ["DUPLICATE", "NEW", "DUPLICATE"]
    with pytest.raises(dh.StateError, match="this claim was completed"):
        claim.release()


def test_one_document_refuses_the_other_end(history: dh.History) -> None:
    released = history.begin_one(uuid="a", trigger=trigger(), now=T0)
    released.release()
    again = history.begin_one(uuid="a", trigger=trigger(), now=T0)
    with pytest.raises(dh.StateError, match="released"):
        released.complete()
    again.complete()
    again.complete()
    with pytest.raises(dh.StateError, match="completed"):
        again.release()
    assert status_of(history, ["a"]) == ["DUPLICATE"]


def test_a_staged_claim_refuses_the_other_end(history: dh.History) -> None:
    def staged() -> _native.StagedClaim:
        job = history._shards.reserve(trigger(), parts=1, now=T0)
        with dh.open(history.path, read_only=True, snapshot=job.snapshot) as pinned:
            receipt = pinned._shards.stage(documents(["a", "b"]), trigger(), job=job.token, part=0, attempt="0").receipt
        return job.commit([receipt])

    first = staged()
    first.release()
    second = staged()
    assert len(second) == 2
    for keys in (None, ["a"]):
        with pytest.raises(dh.StateError, match="released"):
            first.complete(keys)
    second.release(["b"])
    with pytest.raises(dh.StateError, match='document "b" of this claim was released'):
        second.complete(["a", "b"])
    second.complete()
    assert status_of(history, ["a", "b"]) == ["DUPLICATE", "NEW"]


def compact(history: dh.History) -> None:
    for _ in range(2):
        history.pin(trigger())
        history.maintain(all=True)


def test_a_replaced_claims_completion_outlives_maintenance(history: dh.History) -> None:
    ids = ["a", "b", "c"]
    slow = history.begin(documents(ids), trigger(), transaction=("app", 1), now=T0)
    slow.release([2])
    rerun = history.begin(documents(ids), trigger(), transaction=("app", 1), on_replay="rerun", now=T0)
    compact(history)
    slow.complete()
    assert status_of(history, ids) == ["DUPLICATE", "DUPLICATE", "IN_DOUBT"]
    rerun.release()
    compact(history)
    assert status_of(history, ids) == ["DUPLICATE", "DUPLICATE", "NEW"]


def test_a_claim_completes_after_its_applications_next_batch(history: dh.History) -> None:
    first = history.begin(documents(["a"]), trigger(), transaction=("app", 1), now=T0)
    history.begin(documents(["b"]), trigger(), transaction=("app", 2), now=T0).complete()
    compact(history)
    first.complete()
    compact(history)
    assert status_of(history, ["a", "b"]) == ["DUPLICATE", "DUPLICATE"]


def test_a_replaced_staged_claim_completes_and_takes_no_more(history: dh.History) -> None:
    ids = ["a", "b", "x"]
    history.begin(documents(["before"]), trigger(), now=T0).complete()
    job = history._shards.reserve(trigger(), parts=1, transaction=("app", 1), now=T0)
    with dh.open(history.path, read_only=True, snapshot=job.snapshot) as pinned:
        receipt = pinned._shards.stage(documents(ids), trigger(), job=job.token, part=0, attempt="0").receipt
    sooner = history.begin(documents(["x"]), trigger(), now=T0)
    staged = job.commit([receipt], most_lost=None)
    sooner.release()
    rerun = history.begin(documents(ids), trigger(), transaction=("app", 1), on_replay="rerun", now=T0)
    rerun.release()
    with pytest.raises(dh.StateError, match="its batch was begun again"):
        staged.decide_lost(documents(["x"]))
    assert status_of(history, ids) == ["NEW", "NEW", "NEW"]
    compact(history)
    staged.complete()
    assert status_of(history, ids) == ["DUPLICATE", "DUPLICATE", "NEW"]


LATE = T0 + timedelta(hours=3)
"""When everything of `T0` has expired."""


def test_a_purge_counts_no_release_of_what_it_took(history: dh.History) -> None:
    claim = history.begin(documents(["a", "b"]), trigger(), now=T0)
    assert history.purge(trigger(), LATE)["orders"]["entries"] == 2
    claim.release()
    assert history.entries("orders").read_all().num_rows == 0
    for dry_run in (True, False):
        gone = history.purge(trigger(), LATE, dry_run)["orders"]
        assert (gone["entries"], gone["log_entries"]) == (0, 0)
    assert status_of(history, ["a", "b"]) == ["NEW", "NEW"]


def test_rows_said_again_after_a_purge_change_nothing(history: dh.History) -> None:
    claim = history.begin(documents(["a", "b"]), trigger(), now=T0)
    claim.complete(rows=[0])
    history.purge(trigger(), LATE)
    claim.complete(rows=[0])
    assert status_of(history, ["a", "b"]) == ["NEW", "NEW"]
    claim.complete(rows=[0, 1])
    assert status_of(history, ["a", "b"]) == ["NEW", "DUPLICATE"], "only what was not completed before is recorded"


def test_keys_said_again_after_a_purge_change_nothing(history: dh.History) -> None:
    job = history._shards.reserve(trigger(), parts=1, now=T0)
    with dh.open(history.path, read_only=True, snapshot=job.snapshot) as pinned:
        receipt = pinned._shards.stage(documents(["a", "b"]), trigger(), job=job.token, part=0, attempt="0").receipt
    claim = job.commit([receipt])
    claim.complete(documents(["a"]))
    history.purge(trigger(), LATE)
    claim.complete(documents(["a"]))
    assert status_of(history, ["a", "b"]) == ["NEW", "NEW"]
    claim.complete(documents(["a", "b"]))
    assert status_of(history, ["a", "b"]) == ["NEW", "DUPLICATE"]
