"""Completing and releasing by key: what is known without a look-up, and what is not."""

import datetime as dt
import uuid
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import T0, documents, entries, status_of, trigger

COUNT = 200
Make = Callable[[], list[str]]


def uuids() -> list[str]:
    return [str(uuid.uuid4()) for _ in range(COUNT)]


def texts() -> list[str]:
    return [f"order-{number}" for number in range(COUNT)]


of_both_forms = pytest.mark.parametrize("make", [uuids, texts])


def looked_up(history: dh.History) -> int:
    return history.stats("orders")["looked_up"]


def counts(changed: int, already: int = 0, unknown: int = 0) -> dict[str, int]:
    return {"changed": changed, "already": already, "unknown": unknown}


@of_both_forms
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("which", [slice(None), slice(None, None, 2), slice(5, 50), slice(70, None)])
def test_keys_in_the_order_of_their_claim_need_no_look_up(
    history: dh.History, make: Make, which: slice, is_first: bool
) -> None:
    # The first log that names keys by their places begins after the first such call.
    if not is_first:
        history.begin(documents(sooner := make()), trigger(), now=T0)
        history.complete(sooner, trigger(), now=T0)
    ids = [one if is_first else f"{one}x" for one in make()] if make is texts else make()
    history.begin(documents(["other"]), trigger(), now=T0)
    history.begin(documents(ids), trigger(), now=T0)
    before = looked_up(history)
    named = ids[which]
    # Beyond 64 keys that are left out it looks.
    is_looked_up = which.start == 70
    assert history.complete(named, trigger(), now=T0) == counts(len(named))
    assert looked_up(history) - before == (len(named) if is_looked_up else 0)
    ended = set(named)
    expected = ["DUPLICATE" if one in ended else "IN_DOUBT" for one in ids]
    assert status_of(history, ids) == expected
    assert history.complete(named, trigger(), now=T0) == counts(0, already=len(named))
    with dh.open(history.path, read_only=True) as again:
        assert status_of(again, ids) == expected


@of_both_forms
def test_released_keys_are_new_and_end_again(history: dh.History, make: Make) -> None:
    ids = make()
    history.begin(documents(ids), trigger(), now=T0)
    assert history.release(ids, trigger(), now=T0) == counts(COUNT)
    assert status_of(history, ids) == ["NEW"] * COUNT
    history.begin(documents(ids), trigger(), now=T0)
    assert history.complete(ids[:100], trigger(), now=T0) == counts(100)
    assert status_of(history, ids) == ["DUPLICATE"] * 100 + ["IN_DOUBT"] * 100


@pytest.mark.parametrize(
    "order", [lambda ids: ids[::-1], lambda ids: [*ids, "other"], lambda ids: [*ids, ids[0]], lambda ids: [None, *ids]]
)
def test_keys_in_another_order_end_alike(
    history: dh.History, order: Callable[[list[str]], Sequence[str | None]]
) -> None:
    ids = texts()
    history.begin(documents(ids), trigger(), now=T0)
    named: Sequence[str | None] = order(ids)
    unknown = sum(one == "other" for one in named)
    history.complete(named, trigger(), now=T0)
    assert status_of(history, ids) == ["DUPLICATE"] * COUNT
    assert status_of(history, ["other"]) == ["DUPLICATE" if unknown else "NEW"]


@pytest.mark.parametrize("is_sealed", [True, False])
def test_key_ends_whichever_claims_began_it(history: dh.History, is_sealed: bool) -> None:
    ids = texts()
    history.begin(documents(ids), trigger(), now=T0)
    if is_sealed:
        history.maintain(trigger(), all=True)
    asked = trigger(resolver=lambda rows: ["NEW"] * rows.num_rows)
    again = history.begin(documents(ids, redelivery_count=[1] * COUNT), asked, now=T0)
    assert again.new.num_rows == COUNT
    history.complete(ids, trigger(), now=T0)
    assert status_of(history, ids) == ["DUPLICATE"] * COUNT
    assert entries(history, trigger(), status="processing") == []


def test_claim_of_another_process_is_looked_up(history: dh.History) -> None:
    ids = texts()
    history.begin(documents(["mine"]), trigger(), now=T0)
    with dh.open(history.path) as other:
        other.begin(documents(ids), trigger(), now=T0)
    before = looked_up(history)
    assert history.complete(ids, trigger(), now=T0) == counts(COUNT)
    assert looked_up(history) - before == COUNT
    assert status_of(history, ids) == ["DUPLICATE"] * COUNT


def test_keys_whose_claim_ended_meanwhile_are_ended_already(history: dh.History) -> None:
    ids = texts()
    claim = history.begin(documents(ids), trigger(), now=T0)
    with dh.open(history.path) as other:
        assert other.complete(ids[:10], trigger(), now=T0) == counts(10)
    assert history.complete(ids[:20], trigger(), now=T0) == counts(10, already=10)
    claim.complete()
    assert history.complete(ids, trigger(), now=T0 + dt.timedelta(minutes=1)) == counts(0, already=COUNT)
    assert history.release(ids, trigger(), now=T0)["changed"] == 0


@of_both_forms
@pytest.mark.parametrize("is_other", [True, False])
def test_keys_that_were_loaded_since_are_looked_up(history: dh.History, make: Make, is_other: bool) -> None:
    ids = make()
    for _ in range(2):  # the log that names keys by their places begins after the first such call
        history.begin(documents([f"{one}y" for one in make()] if make is texts else make()), trigger(), now=T0)
        history.complete(["other"], trigger(), now=T0)
    history.begin(documents(ids), trigger(), now=T0)
    with dh.open(history.path) as other:
        loaded = documents(ids).append_column("status", pa.array(["processing"] * COUNT))
        (other if is_other else history).load(loaded, trigger(), now=T0)
    history.release(ids, trigger(), now=T0)
    assert set(status_of(history, ids)) == {"NEW"}
