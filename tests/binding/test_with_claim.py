"""Claims as context managers: only `complete` says that a service has ended; `RolledBack` releases."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import documents, trigger

ORDERS = trigger()
KEYS = ["a", "b", "c"]


def whole(history: dh.History) -> Any:
    return history.begin(documents(KEYS), ORDERS)


def one(history: dh.History) -> Any:
    return history.begin_one(uuid="a", trigger=ORDERS)


def staged(history: dh.History) -> Any:
    job = history._shards.reserve(ORDERS, parts=1)
    with dh.open(history.path, snapshot=job.snapshot) as task:
        part = task._shards.stage(documents(KEYS), ORDERS, job=job.token, part=0, attempt="0")
    return job.commit([part.receipt])


every_claim = pytest.mark.parametrize("begin", [whole, one, staged])


def statuses(history: dh.History) -> dict[str, str]:
    entries = history.entries(ORDERS).read_all()
    return dict(zip(entries["key"].to_pylist(), entries["status"].to_pylist(), strict=True))


@every_claim
def test_the_block_is_given_the_claim(history: dh.History, begin: Callable[[dh.History], Any]) -> None:
    claim = begin(history)
    with claim as given:
        assert given is claim


@every_claim
def test_what_is_completed_in_the_block_stays_so(history: dh.History, begin: Callable[[dh.History], Any]) -> None:
    with begin(history) as claim:
        claim.complete()
    assert set(statuses(history).values()) == {"completed"}


@every_claim
def test_leaving_the_block_ends_nothing(history: dh.History, begin: Callable[[dh.History], Any]) -> None:
    with begin(history) as claim:
        pass
    assert set(statuses(history).values()) == {"processing"}
    claim.complete()
    assert set(statuses(history).values()) == {"completed"}


@every_claim
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_exception_ends_nothing_and_is_raised(
    history: dh.History, begin: Callable[[dh.History], Any], kind: type[BaseException]
) -> None:
    with pytest.raises(kind, match="in the service"), begin(history):
        raise kind("in the service")
    assert set(statuses(history).values()) == {"processing"}


@every_claim
def test_rolled_back_releases_and_is_raised(history: dh.History, begin: Callable[[dh.History], Any]) -> None:
    class Undone(dh.RolledBack):
        pass

    with pytest.raises(Undone, match="undone"), begin(history):
        raise Undone("undone")
    assert statuses(history) == {}
    assert history.begin_one(uuid="a", redelivery_count=1, trigger=ORDERS).status == "NEW"


def test_rolled_back_leaves_completed_rows_as_they_are(history: dh.History) -> None:
    claim = history.begin(documents(KEYS), ORDERS)
    claim.complete(rows=[1])
    with pytest.raises(dh.RolledBack), claim:
        raise dh.RolledBack
    assert statuses(history) == {"b": "completed"}


def test_rolled_back_after_complete_is_an_error(history: dh.History) -> None:
    claim = history.begin_one(uuid="a", trigger=ORDERS)
    claim.complete()
    with pytest.raises(dh.StateError, match="DH-STATE") as raised, claim:
        raise dh.RolledBack
    assert isinstance(raised.value.__context__, dh.RolledBack)
    assert statuses(history) == {"a": "completed"}


def test_rolled_back_of_a_claim_on_nothing_changes_nothing(history: dh.History) -> None:
    history.begin(documents(KEYS), ORDERS).complete()
    with pytest.raises(dh.RolledBack), history.begin(documents(KEYS), ORDERS):
        raise dh.RolledBack
    assert set(statuses(history).values()) == {"completed"}


def test_rows_are_the_places_of_what_is_new(history: dh.History) -> None:
    history.begin(documents(["b"]), ORDERS).complete()
    batch = documents(["a", "b", "c", "c", "d"])
    claim = history.begin(batch, ORDERS)
    assert claim.rows.type == pa.uint32()
    assert claim.rows.to_pylist() == [0, 2, 4]
    assert batch.take(claim.rows).equals(claim.new)
    claim.complete(rows=claim.rows.slice(1))
    assert statuses(history) == {"a": "processing", "b": "completed", "c": "completed", "d": "completed"}


def test_rows_of_a_claim_on_nothing_are_none(history: dh.History) -> None:
    assert history.begin(documents([]), ORDERS).rows.to_pylist() == []
