"""Time to live: when entries expire, what a purge takes, and what arrives late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import dochistory as dh
from tests.support import T0, documents, entries, status_of, trigger

TICK = timedelta(microseconds=1)
HOUR = timedelta(hours=1)
HOURLY = trigger(history_time_to_live="1 hour")


def completed(history: dh.History, key: str, at: datetime, of: dh.Trigger = HOURLY) -> None:
    history.begin(documents([key]), of, now=at).complete()


def test_a_purge_leaves_what_has_not_expired(history: dh.History) -> None:
    completed(history, "a", T0)
    history.purge(now=T0 + HOUR - TICK)
    assert status_of(history, ["a"], HOURLY, now=T0 + HOUR - TICK) == ["DUPLICATE"]


def test_a_purge_takes_what_expires_at_that_very_moment(history: dh.History) -> None:
    completed(history, "a", T0)
    history.purge(now=T0 + HOUR)
    assert status_of(history, ["a"], HOURLY, now=T0 + HOUR) == ["NEW"]
    assert entries(history, HOURLY) == []


def test_a_purge_takes_what_expired_and_leaves_the_rest(history: dh.History) -> None:
    for minutes in range(0, 60, 10):
        completed(history, f"at {minutes}", T0 + timedelta(minutes=minutes))
    history.purge(now=T0 + HOUR + timedelta(minutes=20))
    assert sorted(row["key"] for row in entries(history, HOURLY)) == ["at 30", "at 40", "at 50"]


def test_a_purge_takes_what_is_still_processing_too(history: dh.History) -> None:
    history.begin(documents(["a"]), HOURLY, now=T0)
    history.purge(now=T0 + HOUR)
    assert status_of(history, ["a"], HOURLY, now=T0 + HOUR) == ["NEW"]


def test_expired_entries_count_until_a_purge_by_default(history: dh.History) -> None:
    completed(history, "a", T0)
    history.begin(documents(["b"]), HOURLY, now=T0)
    later = T0 + 1000 * HOUR
    assert status_of(history, ["a", "b"], HOURLY, now=later) == ["DUPLICATE", "IN_DOUBT"]


@pytest.mark.parametrize("complete", [True, False])
def test_exact_expiry_needs_no_purge(history: dh.History, complete: bool) -> None:
    exact = trigger(history_time_to_live="1 hour", expiry="exact")
    claim = history.begin(documents(["a"]), exact, now=T0)
    if complete:
        claim.complete()
    there = "DUPLICATE" if complete else "IN_DOUBT"
    assert status_of(history, ["a"], exact, now=T0 + HOUR - TICK) == [there]
    assert status_of(history, ["a"], exact, now=T0 + HOUR) == ["NEW"]


def test_expired_document_can_begin_again_under_exact_expiry(history: dh.History) -> None:
    exact = trigger(history_time_to_live="1 hour", expiry="exact")
    history.begin(documents(["a"]), exact, now=T0).complete()
    claim = history.begin(documents(["a"]), exact, now=T0 + HOUR)
    assert claim.new.num_rows == 1
    assert status_of(history, ["a"], exact, now=T0 + HOUR + TICK) == ["IN_DOUBT"]


def test_entries_of_a_late_document_are_purged_together(history: dh.History) -> None:
    claim = history.begin(documents(["a"]), HOURLY, now=T0)
    history.begin(documents(["b"]), HOURLY, now=T0 + timedelta(minutes=50)).complete()
    claim.complete()
    history.purge(now=T0 + HOUR)
    assert status_of(history, ["a", "b"], HOURLY, now=T0 + HOUR) == ["NEW", "DUPLICATE"]


def test_a_completion_after_the_purge_counts_until_the_next_one(history: dh.History) -> None:
    claim = history.begin(documents(["a"]), HOURLY, now=T0)
    history.purge(now=T0 + HOUR)
    claim.complete()
    assert status_of(history, ["a"], HOURLY, now=T0 + HOUR) == ["DUPLICATE"]
    history.purge(now=T0 + HOUR + TICK)
    assert status_of(history, ["a"], HOURLY, now=T0 + HOUR + TICK) == ["NEW"]


def test_purge_uses_the_time_to_live_of_now_not_of_the_write(history: dh.History) -> None:
    longer = trigger(history_time_to_live="3 hours")
    completed(history, "a", T0, longer)
    completed(history, "b", T0, longer)
    history.purge(now=T0 + 2 * HOUR)
    assert status_of(history, ["a", "b"], longer, now=T0 + 2 * HOUR) == ["DUPLICATE", "DUPLICATE"]
    history.change(HOURLY)
    completed(history, "c", T0 + 2 * HOUR, HOURLY)
    history.purge(now=T0 + 2 * HOUR)
    assert status_of(history, ["a", "b", "c"], HOURLY, now=T0 + 2 * HOUR) == ["NEW", "NEW", "DUPLICATE"]


def test_every_trigger_is_purged_by_its_own_time_to_live(history: dh.History) -> None:
    short = trigger("short", history_time_to_live="1 hour")
    long = trigger("long", history_time_to_live="2 days")
    for one in (short, long):
        completed(history, "a", T0, one)
    history.purge(now=T0 + 5 * HOUR)
    assert status_of(history, ["a"], short, now=T0 + 5 * HOUR) == ["NEW"]
    assert status_of(history, ["a"], long, now=T0 + 5 * HOUR) == ["DUPLICATE"]


def test_the_default_time_to_live_is_two_hours(history: dh.History) -> None:
    plain = trigger()
    completed(history, "a", T0, plain)
    history.purge(now=T0 + 2 * HOUR - TICK)
    assert status_of(history, ["a"], plain, now=T0) == ["DUPLICATE"]
    history.purge(now=T0 + 2 * HOUR)
    assert status_of(history, ["a"], plain, now=T0) == ["NEW"]


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90 seconds", timedelta(seconds=90)),
        ("1 second", timedelta(seconds=1)),
        ("15 minutes", timedelta(minutes=15)),
        ("36 hours", timedelta(hours=36)),
        ("30 days", timedelta(days=30)),
        ("1 day", timedelta(days=1)),
    ],
)
def test_times_to_live_are_written_in_words(history: dh.History, text: str, length: timedelta) -> None:
    exact = trigger(history_time_to_live=text, expiry="exact")
    completed(history, "a", T0, exact)
    assert status_of(history, ["a"], exact, now=T0 + length - TICK) == ["DUPLICATE"]
    assert status_of(history, ["a"], exact, now=T0 + length) == ["NEW"]


def test_purges_reach_over_many_days_of_entries(history: dh.History) -> None:
    monthly = trigger(history_time_to_live="30 days")
    for day in range(40):
        completed(history, f"day {day}", T0 + timedelta(days=day), monthly)
    history.purge(now=T0 + timedelta(days=40))
    assert sorted(int(row["key"].split()[1]) for row in entries(history, monthly)) == list(range(11, 40))


def test_a_purge_gives_the_disk_back(history: dh.History, directory: Path) -> None:
    def used() -> int:
        return sum(one.stat().st_size for one in directory.rglob("*") if one.is_file())

    history.begin(documents([f"order {row}" for row in range(50_000)]), HOURLY, now=T0).complete()
    before = used()
    history.purge(now=T0 + 2 * HOUR)
    assert used() < before / 2


def test_without_a_clock_of_the_caller_the_time_is_now(history: dh.History) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=2)
    claim = history.begin(documents(["a"]), trigger())
    assert before <= claim.started_at <= datetime.now(UTC) + timedelta(milliseconds=2)


def test_a_clock_without_a_time_zone_is_refused(history: dh.History) -> None:
    with pytest.raises((dh.ConfigError, ValueError, TypeError)):
        history.classify(documents(["a"]), trigger(), now=T0.replace(tzinfo=None))


def test_key_whose_only_completion_expired_completes_again(history: dh.History) -> None:
    exact = trigger(expiry="exact", history_time_to_live="2 hours")
    history.complete(["a", "b"], exact, now=T0)
    later = T0 + timedelta(hours=3)
    assert status_of(history, ["a"], exact, now=later) == ["NEW"]
    assert history.complete(["a"], exact, now=later) == {"changed": 0, "already": 0, "unknown": 1}
    assert status_of(history, ["a", "b"], exact, now=later) == ["DUPLICATE", "NEW"]
    assert history.complete(["a"], exact, now=later) == {"changed": 0, "already": 1, "unknown": 0}
    assert history.release(["b"], exact, now=later) == {"changed": 0, "already": 0, "unknown": 1}
    # What is begun anew after the completion expired is ended, and only that.
    history.begin(documents(["b"]), exact, now=later)
    assert history.complete(["b"], exact, now=later) == {"changed": 1, "already": 0, "unknown": 0}
    assert status_of(history, ["b"], exact, now=later) == ["DUPLICATE"]


def test_expired_completion_counts_until_purged_by_default(history: dh.History) -> None:
    history.complete(["a"], trigger(), now=T0)
    later = T0 + timedelta(hours=3)
    assert history.complete(["a"], trigger(), now=later) == {"changed": 0, "already": 1, "unknown": 0}
