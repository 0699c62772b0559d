"""Listing a part of the entries: by key range, by time, by state."""

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

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
        history.entries(trigger(), part=(3, 3))
    with pytest.raises(dh.ConfigError, match="since is 'today'; allowed is a datetime with a time zone"):
        history.entries("orders", since="today")  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [None, "processing", "completed"])
def test_keys_find_what_a_listing_tells_of_them(
    history: dh.History, filled: dict[str, int], status: str | None
) -> None:
    listed = {row["key"]: row for row in history.entries("orders", status).read_all().to_pylist()}  # type: ignore[arg-type]
    wanted = [*list(filled)[::7], "never", None, "", "x" * 200, next(iter(filled)).upper()]
    for given in (wanted, pa.array(wanted, pa.string()), wanted * 2):
        found = history.entries("orders", status, keys=given).read_all().to_pylist()  # type: ignore[arg-type]
        assert len(found) == len({row["key"] for row in found})
        assert {row["key"]: row for row in found} == {key: row for key, row in listed.items() if key in wanted}
    since, before = DAYS[1], DAYS[3]
    found = keys(history, keys=list(filled), status=status, since=since, before=before)
    assert sorted(found) == sorted(key for key in listed if filled[key] in (1, 2))
    parts = [keys(history, keys=list(filled), status=status, part=(part, 5)) for part in range(5)]
    assert sorted(key for part in parts for key in part) == sorted(listed)


def test_keys_tell_each_open_claim_once_and_no_released_one(history: dh.History) -> None:
    orders = trigger(resolver=lambda batch: ["NEW"] * batch.num_rows)
    first = history.begin(documents(["twice", "released"]), orders, now=DAYS[0])
    history.unpin(orders, history.pin(orders))
    history.begin(documents(["twice"]), orders, now=DAYS[1])
    first.release(rows=[1])
    found = history.entries("orders", keys=["twice", "released", "twice"]).read_all()
    assert sorted(found["started_at"].to_pylist()) == DAYS[:2]
    assert found["status"].to_pylist() == ["processing"] * 2
    assert found.to_pylist() == sorted(
        history.entries("orders").read_all().to_pylist(),
        key=lambda row: found["started_at"].to_pylist().index(row["started_at"]),
    )


def test_a_look_up_by_keys_reads_no_other_pages(history_path: Path) -> None:
    orders, ids = trigger(), fresh_ids(60_000)
    with dh.open(history_path, create=True) as history:
        history.begin(documents(ids), orders, now=DAYS[0]).complete()
        history.unpin(orders, history.pin(orders))
    (segment,) = history_path.glob("triggers/*/segment-*")
    content = bytearray(segment.read_bytes())
    place = len(content) // 3
    content[place] ^= 0xFF
    segment.write_bytes(content)
    with dh.open(history_path, read_only=True) as history:
        # A listing comes past the damaged page; the look-ups of nearly all keys do not.
        with pytest.raises(Exception, match="DH-CORRUPT"):
            history.entries("orders").read_all()
        before = history.stats("orders")
        told = [_told(history, key) for key in ids[:500]]
        after = history.stats("orders")
    assert told.count(1) >= 450
    assert told.count(0) == 0
    assert after["looked_up"] - before["looked_up"] <= 500
    assert after["filter_positives"] - before["filter_positives"] <= 500


def _told(history: dh.History, key: str) -> int:
    """How many entries of a key are told; -1 if its page is damaged."""
    try:
        return len(keys(history, keys=[key]))
    except dh.CorruptError:
        return -1


def test_listing_of_processing_skips_files_without_any(tmp_path: Path) -> None:
    # Whether a key is completed is looked up in all files: once in a while that hits the damaged page of 150.
    assert any(_lists_beside_damage(tmp_path / f"{turn}.history") for turn in range(3))


def _lists_beside_damage(history_path: Path) -> bool:
    """Whether what is in progress is listed although a file without such entries is damaged."""
    orders = trigger()
    with dh.open(history_path, create=True, auto_maintain=False) as history:
        for number, count in enumerate((60_000, 50)):
            claim = history.begin(documents(fresh_ids(count)), orders, now=DAYS[number])
            claim.complete(rows=range(49) if number else None)
            history.unpin(orders, history.pin(orders))
    first, _ = sorted(history_path.glob("triggers/*/segment-*"))
    content = bytearray(first.read_bytes())
    content[len(content) // 3] ^= 0xFF
    first.write_bytes(content)
    with dh.open(history_path, read_only=True) as history:
        with pytest.raises(Exception, match="DH-CORRUPT"):
            history.entries("orders", "completed").read_all()
        try:
            return bool(history.entries("orders", "processing").read_all().num_rows == 1)
        except pa.ArrowInvalid:
            return False
