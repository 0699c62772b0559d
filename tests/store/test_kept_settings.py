"""The settings of a trigger that a history keeps: its kind and its time to live are its own."""

import shutil
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import dochistory as dh
from tests.support import T0, documents, status_of, trigger

LONG = trigger(history_time_to_live="30 days")
SHORT = trigger(history_time_to_live="1 hour")
BRIEF = trigger(history_time_to_live="2 hours")
GOLDEN = Path(__file__).parent.parent / "golden"


def test_a_shorter_time_to_live_is_refused_and_purges_nothing(history: dh.History) -> None:
    history.begin(documents(["a"]), LONG, now=T0).complete()
    for call in (
        lambda: history.begin(documents(["b"]), SHORT, now=T0),
        lambda: history.begin_one(uuid="b", trigger=SHORT, now=T0),
        lambda: history.begin_one(uuid="a", trigger=SHORT, now=T0),
        lambda: history.complete(["a"], SHORT, now=T0),
        lambda: history.load(documents(["b"]), SHORT, now=T0),
        lambda: history._shards.reserve(SHORT, parts=1),
        lambda: history.purge(SHORT, now=T0 + timedelta(days=1)),
        lambda: history.purge(SHORT, now=T0 + timedelta(days=1), dry_run=True),
    ):
        with pytest.raises(dh.ConfigError, match=r"\[DH-CONFIG\].*30 days.*1 hour.*change") as raised:
            call()
        assert '"orders"' in str(raised.value)
    assert history.purge(now=T0 + timedelta(days=1))["orders"]["entries"] == 0
    assert status_of(history, ["a", "b"], LONG) == ["DUPLICATE", "NEW"]


def test_a_reader_needs_the_time_to_live_only_where_it_counts(history: dh.History) -> None:
    history.begin(documents(["a"]), LONG, now=T0).complete()
    later = T0 + timedelta(days=1)
    assert status_of(history, ["a"], SHORT, now=later) == ["DUPLICATE"]
    with pytest.raises(dh.ConfigError, match="30 days"):
        status_of(history, ["a"], trigger(history_time_to_live="1 hour", expiry="exact"), now=later)


def test_what_began_again_after_a_shorter_time_to_live_is_known(history: dh.History) -> None:
    # Both beginnings are of one day, which is a time partition still.
    short = trigger(history_time_to_live="1 hour", expiry="exact")
    history.begin(documents(["a"]), LONG, now=T0).complete()
    history.change(short)
    claim = history.begin(documents(["a"]), short, now=(again := T0 + timedelta(minutes=90)))
    assert claim.new.num_rows == 1
    history.unpin(short, history.pin(short))
    assert status_of(history, ["a"], short, now=again) == ["IN_DOUBT"]
    claim.complete()
    assert status_of(history, ["a"], short, now=again + timedelta(minutes=59)) == ["DUPLICATE"]
    assert status_of(history, ["a"], short, now=again + timedelta(minutes=60)) == ["NEW"]


def test_settings_of_a_call_are_free_to_differ(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger(), now=T0).complete()
    others = (trigger(resolver=lambda rows: ["NEW"] * rows.num_rows), trigger(expiry="exact"), trigger(in_batch="new"))
    for number, other in enumerate(others):
        history.begin(documents([f"b{number}"]), other, now=T0).complete()
    assert status_of(history, ["a", "b0", "b1", "b2"]) == ["DUPLICATE"] * 4


def test_the_kind_of_a_trigger_never_changes(history: dh.History) -> None:
    history.begin(documents(["a"]), trigger(), now=T0).complete()
    jms = trigger(kind="jms")
    assert history.stats("orders")["kind"] == "messaging"
    for call in (
        lambda: history.begin(documents(["b"]), jms, now=T0),
        lambda: history.classify(documents(["b"]), jms),
        lambda: history.change(jms),
    ):
        with pytest.raises(dh.ConfigError, match=r"messaging.*jms.*never"):
            call()


def test_a_change_counts_at_the_next_purge(history: dh.History, directory: Path) -> None:
    history.begin(documents(["a"]), LONG, now=T0).complete()
    claim = history.begin(documents(["b"]), LONG, now=T0)
    assert history.change(SHORT) == timedelta(days=30)
    assert history.change(SHORT) == timedelta(hours=1)
    # What was begun with the old one is ended all the same.
    claim.complete()
    with pytest.raises(dh.ConfigError, match=r"1 hour.*30 days"):
        history.begin(documents(["c"]), LONG, now=T0)
    with dh.open(directory) as other:
        assert other.stats("orders")["history_time_to_live"] == timedelta(hours=1)
        assert other.purge(now=T0 + timedelta(days=1))["orders"]["entries"] == 2


def test_a_longer_time_to_live_widens_the_partitions(history: dh.History) -> None:
    starts = [T0 + timedelta(minutes=5 * step) for step in range(24)]
    for start in starts:
        history.begin(documents([f"early-{start:%H%M}"]), BRIEF, now=start).complete()
        history.unpin(BRIEF, history.pin(BRIEF))
    before = history.stats("orders")
    assert before["partition"] == timedelta(minutes=5)
    assert before["segments"] == 24
    assert history.change(LONG) == timedelta(hours=2)
    history.begin(documents(["late"]), LONG, now=T0 + timedelta(hours=3)).complete()
    history.maintain(all=True)
    after = history.stats("orders")
    assert after["partition"] == timedelta(days=1)
    assert after["segments"] == 1
    ids = [*(f"early-{start:%H%M}" for start in starts), "late", "other"]
    assert status_of(history, ids, LONG) == ["DUPLICATE"] * 25 + ["NEW"]
    # A shorter one leaves the width: a frozen log has numbers for files of its partitions.
    assert history.change(BRIEF) == timedelta(days=30)
    assert history.stats("orders")["partition"] == timedelta(days=1)


def test_a_change_of_an_unknown_trigger_is_refused(history: dh.History) -> None:
    with pytest.raises(dh.ConfigError, match="no trigger"):
        history.change(LONG)
    assert history.triggers() == []


@pytest.mark.parametrize("version", ["v1", "v2", "v3", "v4"])
def test_a_store_without_a_kind_learns_it_at_the_next_write(tmp_path: Path, version: str) -> None:
    with tarfile.open(GOLDEN / f"{version}.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    (found,) = {one.parent for one in tmp_path.rglob("HISTORY")}
    with dh.open(found) as history:
        stored = history.stats("orders")
        assert stored["kind"] is None
        jms = trigger(kind="jms", history_time_to_live=stored["history_time_to_live"])
        history.begin(documents(["learnt"]), jms)
        assert history.stats("orders")["kind"] == "jms"
        history.verify()
    shutil.rmtree(found)


def test_a_purge_far_ahead_of_the_clock_has_to_be_forced(history: dh.History) -> None:
    now = datetime.now(UTC)
    history.begin(documents(["a"]), LONG, now=now).complete()
    later = datetime(2099, 1, 1, tzinfo=UTC)
    for asked in (None, LONG, "orders"):
        with pytest.raises(dh.ConfigError, match=r"2099.*ahead of this machine's clock.*force=True"):
            history.purge(asked, now=later)
    assert history.purge(now=later, dry_run=True)["orders"]["entries"] == 1
    assert status_of(history, ["a"], LONG) == ["DUPLICATE"]
    assert history.purge(now=later, force=True)["orders"]["entries"] == 1
    assert status_of(history, ["a"], LONG) == ["NEW"]


def test_a_purge_long_after_the_last_entry_needs_no_force(history: dh.History) -> None:
    history.begin(documents(["a"]), LONG, now=T0).complete()
    assert history.purge()["orders"]["entries"] == 1


def test_a_clock_of_ones_own_purges_what_expired_by_it(history: dh.History) -> None:
    start = datetime(2090, 1, 1, tzinfo=UTC)
    for day in (0, 20):
        history.begin(documents([f"day {day}"]), LONG, now=start + timedelta(days=day)).complete()
    assert history.purge(now=start + timedelta(days=31))["orders"]["entries"] == 1
    assert status_of(history, ["day 0", "day 20"], LONG) == ["NEW", "DUPLICATE"]
