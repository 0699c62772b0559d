"""Doubts that outlive times and mappings: decided late, mapped by hand as well, purged around, listed and resolved."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

import pytest

import dochistory as dh
from tests.mapper.support import T0, errors, mapped, messages, pending, rules

Expiry = Literal["until_purged", "exact"]
EXPIRIES: list[Expiry] = ["until_purged", "exact"]


def at(seconds: int) -> dt.datetime:
    return T0 + dt.timedelta(seconds=seconds)


def begin(mapper: dh.MessageIdMapper, now: dt.datetime, **options: Any) -> list[str]:
    return rules(mapper.begin_send(messages(["a"]), now=now, **options))


def known(mapper: dh.MessageIdMapper, now: dt.datetime) -> dict[str, Any]:
    found: dict[str, Any] = mapper.lookup(["a"], now=now).to_pylist()[0]
    return found


def leave_mapped_doubt(mapper: dh.MessageIdMapper) -> None:
    """Id a is pending forever, and by hand mapped for 100 seconds."""
    assert begin(mapper, at(0), persist_until="forever") == ["M1"]
    assert errors(mapper.create(["a"], ["by hand"], 100, now=at(10))) == [None]


@pytest.mark.parametrize("expiry", EXPIRIES)
@pytest.mark.parametrize("by", ["channel", "single id"])
def test_duplicate_of_an_overdue_doubt_stays_one(history: dh.History, expiry: Expiry, by: str) -> None:
    mapper = history.mapper("out", expiry=expiry)
    assert begin(mapper, at(0), persist_until=100) == ["M1"]
    if by == "single id":
        assert errors(mapper.resolve(["a"], "duplicate")) == [None]
    decides = history.mapper("out", expiry=expiry, pending="duplicate" if by == "channel" else "error")
    assert begin(decides, at(200)) == ["M5"]
    mapper.purge(at(201))
    assert begin(mapper, at(201)) == ["M2"]
    assert known(mapper, at(201))["persist_until"] == at(200) + dt.timedelta(days=30)


@pytest.mark.parametrize(("first", "asked", "kept"), [(100, 50, 250), (1000, 50, 1000), (100, None, 207)])
def test_duplicate_is_kept_until_the_later_time(history: dh.History, first: int, asked: int | None, kept: int) -> None:
    mapper = history.mapper("out", pending="duplicate", expiry="exact", persist=7)
    assert begin(mapper, at(0), persist_until=first) == ["M1"]
    assert begin(mapper, at(200), persist_until=asked) == ["M5"]
    assert known(mapper, at(201))["persist_until"] == at(kept)
    assert begin(mapper, at(kept - 1)) == ["M2"]
    assert begin(mapper, at(kept)) == ["M1"]


def test_duplicate_of_a_doubt_forever_is_kept_forever(history: dh.History) -> None:
    mapper = history.mapper("out", pending="duplicate")
    assert begin(mapper, at(0), persist_until="forever") == ["M1"]
    assert begin(mapper, at(200), persist_until=50) == ["M5"]
    assert (mapped(mapper, ["a"]), known(mapper, at(201))["persist_until"]) == ([None], None)


@pytest.mark.parametrize("expiry", EXPIRIES)
def test_pending_and_resolve_know_a_mapped_doubt(history: dh.History, expiry: Expiry) -> None:
    mapper = history.mapper("out", expiry=expiry)
    mapper.begin_send(messages(["a", "b"]))
    assert errors(mapper.create(["a"], ["by hand"])) == [None]
    assert pending(mapper) == ["a", "b"]
    found = {row["id"]: row["found"] for batch in mapper.pending() for row in batch.to_pylist()}
    assert found == {"a": True, "b": False}
    assert errors(mapper.resolve(["a"], "process")) == [None]
    assert mapped(mapper, ["a"]) == ["by hand"], "a decision leaves the mapping"
    mapper.remove(["a"])
    assert rules(mapper.begin_send(messages(["a"]))) == ["M4"]


def test_mapping_counts_before_a_decision(mapper: dh.MessageIdMapper) -> None:
    leave_mapped_doubt(mapper)
    mapper.resolve(["a"], "process")
    assert begin(mapper, at(20)) == ["M2"]
    assert pending(mapper) == []
    assert errors(mapper.resolve(["a"], "process")) == ["NOT_PENDING"]


def test_doubt_whose_mapping_is_over_is_decided(history: dh.History) -> None:
    mapper = history.mapper("out", expiry="exact")
    leave_mapped_doubt(mapper)
    assert begin(mapper, at(200)) == ["M3"]
    assert pending(mapper) == ["a"]
    assert [row["found"] for batch in mapper.pending() for row in batch.to_pylist()] == [False]
    assert errors(mapper.resolve(["a"], "process")) == [None]
    assert mapped(mapper, ["a"], now=at(50)) == ["by hand"], "the mapping has kept its time"
    assert begin(mapper, at(200)) == ["M4"]


@pytest.mark.parametrize("expiry", EXPIRIES)
@pytest.mark.parametrize("by", ["create", "update", "unit"])
@pytest.mark.parametrize("is_in_file", [False, True])
def test_a_purge_leaves_a_doubt_that_is_mapped_too(
    history: dh.History, expiry: Expiry, by: str, is_in_file: bool
) -> None:
    mapper = history.mapper("out", expiry=expiry)
    if by == "unit":
        assert begin(mapper, at(0), persist_until="forever") == ["M1"]
        with mapper.unit_of_work() as unit:
            unit.create(["a"], ["by hand"], 100, now=at(10))
    else:
        leave_mapped_doubt(mapper)
    if by == "update":
        assert errors(mapper.update(["a"], ["again"], 50, now=at(20))) == [None]
    if is_in_file:
        mapper.create(["other"], None, 1, now=at(0))
        mapper.purge(at(5))
        mapper.maintain(all=True)
    mapper.purge(at(200))
    found = known(mapper, at(250))
    assert (found["found"], found["pending"]) == (expiry == "until_purged", True)
    mapper.remove(["a"], now=at(60))
    assert (known(mapper, at(250))["persist_until"], known(mapper, at(250))["pending"]) == (None, True)
    assert begin(mapper, at(250)) == ["M3"]


def test_a_mapping_leaves_the_time_of_a_doubt(mapper: dh.MessageIdMapper) -> None:
    assert begin(mapper, at(0), persist_until=1000) == ["M1"]
    mapper.create(["a"], ["by hand"], 100, now=at(10))
    assert known(mapper, at(20))["persist_until"] == at(110)
    mapper.update(["a"], ["by hand"], "forever", now=at(20))
    assert known(mapper, at(20))["persist_until"] is None
    mapper.remove(["a"])
    assert known(mapper, at(20))["persist_until"] == at(1000)
    assert mapper.purge(at(999), include_pending=True)["entries"] == 0
    assert mapper.purge(at(1000), include_pending=True)["entries"] == 1


@pytest.mark.parametrize(("doubt", "mapping"), [(100, 300), (300, 100)])
def test_an_asked_purge_waits_for_both_times(mapper: dh.MessageIdMapper, doubt: int, mapping: int) -> None:
    assert begin(mapper, at(0), persist_until=doubt) == ["M1"]
    mapper.create(["a"], ["by hand"], mapping, now=at(0))
    assert mapper.purge(at(299), include_pending=True)["entries"] == 0
    assert mapper.purge(at(300))["entries"] == 0
    assert mapper.purge(at(300), include_pending=True)["entries"] == 1
    assert begin(mapper, at(300)) == ["M1"]


def test_exact_mapping_of_a_late_sender_ends_on_time(history: dh.History) -> None:
    mapper = history.mapper("out", pending="process", expiry="exact")
    first = mapper.begin_send(messages(["a"]), now=at(0))
    second = mapper.begin_send(messages(["a"]), persist_until="forever", now=at(1))
    first.complete(["from-a"], persist_until=100, now=at(10))
    assert known(mapper, at(109))["found"]
    assert not known(mapper, at(110))["found"]
    second.abort(definite=True)
    assert known(mapper, at(109))["persist_until"] == at(110)
    assert not known(mapper, at(110))["pending"]


def test_first_row_of_an_id_in_an_update_counts(mapper: dh.MessageIdMapper) -> None:
    mapper.create(["a"], ["1"])
    assert errors(mapper.update(["a", "a"], ["2", "3"])) == [None, "EXISTS"]
    with mapper.unit_of_work() as unit:
        assert errors(unit.update(["a", "a"], ["4", "5"])) == [None, "EXISTS"]
    assert mapped(mapper, ["a"]) == ["4"]
    assert dh.MessageIdMapper.update.__doc__ is not None
    assert "EXISTS (" in dh.MessageIdMapper.update.__doc__


def test_a_mapping_that_is_over_gives_way_to_what_was_sent(history: dh.History) -> None:
    mapper = history.mapper("out", expiry="exact")
    send = mapper.begin_send(messages(["a", "b"]), now=T0)
    mapper.create(["a"], ["old"], persist_until=100, now=T0)
    mapper.create(["b"], ["first"], persist_until=1000, now=T0)
    send.complete(["new", "second"], now=T0 + dt.timedelta(seconds=700))
    found = mapper.lookup(["a", "b"], now=T0 + dt.timedelta(seconds=710))
    assert found["mapped_id"].to_pylist() == ["new", "first"]
