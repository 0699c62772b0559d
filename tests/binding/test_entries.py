"""Listing a part of the entries: by key range, by time, by state."""

from datetime import timedelta
from itertools import pairwise

import pyarrow as pa
import pytest

import dochistory as dh
from tests.support import T0, documents, fresh_ids, trigger

DAYS = [T0 + timedelta(days=n) for n in range(5)]


@pytest.fixture
def filled(history: dh.History) -> dict[str, int]:
    """UUIDs and other ids of five days, some in segments and the last day in the log: id -> day."""
    orders = trigger(history_time_to_live="30 days")
    days: dict[str, int] = {}
    for number, day in enumerate(DAYS):
        ids = [*fresh_ids(50), *(f"day-{number}-{n}" for n in range(20))]
        days |= dict.fromkeys(ids, number)
        claim = history.begin(documents(ids), orders, now=day)
        claim.complete(rows=range(35))
        if number < 4:
            history.unpin(orders, history.pin(orders))  # a pin seals the log
    return days


def keys(history: dh.History, **wanted: object) -> list[str]:
    found: list[str] = pa.table(history.entries("orders", **wanted))["key"].to_pylist()  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64, 1000])
def test_the_parts_hold_every_entry_once(history: dh.History, filled: dict[str, int], parts: int) -> None:
    found = [key for part in range(parts) for key in keys(history, part=(part, parts))]
    assert sorted(found) == sorted(filled)
    assert parts == 1 or max(len(keys(history, part=(part, parts))) for part in range(parts)) < len(filled)


@pytest.mark.parametrize("status", [None, "processing", "completed"])
def test_a_range_of_time_holds_what_began_in_it(
    history: dh.History, filled: dict[str, int], status: str | None
) -> None:
    everything = keys(history, status=status)
    for number, (since, before) in enumerate(pairwise(DAYS)):
        found = keys(history, status=status, since=since, before=before)
        assert sorted(found) == sorted(key for key in everything if filled[key] == number)
    assert sorted(keys(history, status=status, since=DAYS[4])) == sorted(k for k in everything if filled[k] == 4)
    assert keys(history, status=status, before=DAYS[0]) == []


def test_a_part_that_there_is_not_is_refused(history: dh.History) -> None:
    with pytest.raises(dh.ConfigError, match="there is no part 3 of 3"):
        history.entries("orders", part=(3, 3))
    with pytest.raises(dh.ConfigError, match="since is 'today'; allowed is a datetime with a time zone"):
        history.entries("orders", since="today")  # type: ignore[arg-type]
