"""The sweeper: purges by itself, what is expired and nothing else, and says when a life is too short."""

from __future__ import annotations

import datetime as dt
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import dochistory as dh
from dochistory import sweeper as module
from tests.ops.test_suspension import Clock
from tests.support import T0, documents, entries, trigger


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def used(history: dh.History) -> dh.History:
    """A history with an entry of two hours' life and one of thirty days'."""
    history.begin(documents(["a"]), trigger(), now=T0).complete()
    history.begin(documents(["a"]), trigger("bills", history_time_to_live="30 days"), now=T0).complete()
    return history


def left(history: dh.History) -> list[int]:
    return [len(entries(history, trigger(name))) for name in ("orders", "bills")]


def test_sweeper_purges_only_expired_entries_every_ten_minutes(used: dh.History, clock: Clock) -> None:
    sweeper = dh.Sweeper(used, now=clock)
    assert sweeper.next_run == T0 + dt.timedelta(minutes=10)
    assert sweeper.sweep_if_due() is None
    clock.go(600)
    swept = sweeper.sweep_if_due()
    assert swept is not None
    assert swept["orders"]["entries"] == 0
    assert sweeper.sweep_if_due() is None
    assert left(used) == [1, 1]
    clock.go(3 * 3600)
    assert sweeper.sweep_if_due()
    assert left(used) == [0, 1]
    assert sweeper.next_run == clock() + dt.timedelta(minutes=10)


def test_trigger_with_other_settings_is_skipped_by_the_purge(
    used: dh.History, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    sweeper = dh.Sweeper(used, [trigger("bills", history_time_to_live="1 hour")], now=clock)
    clock.go(3 * 3600)
    with caplog.at_level(logging.ERROR, "dochistory.sweeper"):
        sweeper.sweep()
    assert left(used) == [0, 1]
    assert "bills: not purged" in caplog.text
    assert list(sweeper.skipped) == ["bills"]
    assert "30 days" in caplog.text


def test_purging_by_hand_does_not_move_the_next_run(used: dh.History, clock: Clock) -> None:
    sweeper = dh.Sweeper(used, now=clock)
    clock.go(300)
    used.purge(now=clock())
    assert sweeper.next_run == T0 + dt.timedelta(minutes=10)
    assert left(used) == [1, 1]


def test_a_thread_does_it(used: dh.History) -> None:
    swept = threading.Event()
    with dh.Sweeper(used, every=0.01, on_sweep=lambda _: swept.set()) as sweeper:
        assert sweeper.is_running
        assert sweeper.start() is sweeper
        assert swept.wait(60)
        threads = [thread for thread in threading.enumerate() if thread.name == "dochistory sweeper"]
        assert [thread.daemon for thread in threads] == [True]
    sweeper.stop()
    assert "dochistory sweeper" not in [thread.name for thread in threading.enumerate()]
    assert left(used) == [0, 0]


def test_a_directory_is_opened_for_each_run(used: dh.History, directory: Path, clock: Clock) -> None:
    clock.go(3 * 3600)
    dh.Sweeper(directory, now=clock).sweep()
    assert left(used) == [0, 1]


def test_a_run_that_fails_is_told_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    swept = threading.Event()
    path = tmp_path / "late.history"
    with (
        caplog.at_level(logging.INFO, "dochistory.sweeper"),
        dh.Sweeper(path, every=0.01, on_sweep=lambda _: swept.set()),
    ):
        assert not swept.wait(0.05)
        dh.open(path, create=True).close()
        assert swept.wait(60)
    assert "it is tried again" in caplog.text
    with pytest.raises(dh.OpenError):
        dh.Sweeper(tmp_path / "none.history").sweep()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_no_sweeper_until_it_starts_one(used: dh.History, directory: Path) -> None:
    with dh.Sweeper(directory, every="1 hour") as sweeper:
        child = os.fork()
        if child == 0:
            fine = not sweeper.is_running
            sweeper.stop()
            fine = fine and sweeper.start().is_running
            sweeper.stop()
            os._exit(0 if fine else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert sweeper.is_running
    assert left(used) == [1, 1]


def test_service_running_beyond_the_time_to_live_is_warned_of(
    history: dh.History, caplog: pytest.LogCaptureFixture
) -> None:
    short = trigger(history_time_to_live=0.001)
    claim = history.begin(documents(["a"]), short)
    threading.Event().wait(0.01)
    claim.complete()
    longest = history.stats("orders")["longest_run"]
    assert longest is not None
    assert longest >= dt.timedelta(seconds=0.01)
    with caplog.at_level(logging.WARNING, "dochistory.sweeper"):
        sweeper = dh.Sweeper(history)
        sweeper.sweep()
        sweeper.sweep()
    assert caplog.text.count("takes the protection away") == 1
    with dh.open(history.path) as restarted, caplog.at_level(logging.WARNING, "dochistory.sweeper"):
        caplog.clear()
        dh.Sweeper(restarted).sweep()
    assert "orders: a service ran for" in caplog.text


def test_a_short_service_is_not_warned_of(used: dh.History, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dochistory.sweeper"):
        dh.Sweeper(used).sweep()
    assert caplog.text == ""


def test_a_life_within_the_brokers_window_is_warned_of(used: dh.History, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dochistory.sweeper"):
        dh.Sweeper(used, retry_window="14 days").sweep()
    assert "orders: the broker may deliver again for 14 days" in caplog.text
    assert "bills" not in caplog.text


def test_when_the_next_purge_is_due_is_seen_by_others(used: dh.History, directory: Path, clock: Clock) -> None:
    assert module.next_purge(used) is None
    sweeper = dh.Sweeper(used, now=clock)
    sweeper.sweep()
    assert module.next_purge(directory) == sweeper.next_run


@pytest.mark.parametrize(
    "text",
    [
        "scratched",
        "[]",
        '{"next_run": 7, "longest_runs": [1]}',
        '{"next_run": "soon", "longest_runs": {"orders": "long"}}',
        '{"next_run": "2026-01-01T00:00:00", "longest_runs": {"orders": NaN, "bills": -1}}',
        '{"longest_runs": {"orders": 1e300, "bills": 1' + "0" * 400 + "}}",
    ],
)
def test_scratched_figures_are_written_again(used: dh.History, directory: Path, clock: Clock, text: str) -> None:
    (directory / "sweeper.json").write_text(text)
    assert module.next_purge(directory) is None
    assert module.longest_runs(directory) == {}
    sweeper = dh.Sweeper(used, now=clock)
    sweeper.sweep()
    assert module.next_purge(directory) == sweeper.next_run
    assert set(module.longest_runs(directory)) <= {"orders", "bills"}


def test_a_trigger_that_is_locked_is_left_for_the_next_run(
    used: dh.History, directory: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    import fcntl

    clock.go(3 * 3600)
    turn = next(directory.glob("triggers/orders-*/turn"))
    with turn.open("r+") as held, dh.open(directory, lock_timeout=0.05) as impatient:
        fcntl.flock(held, fcntl.LOCK_EX)
        with caplog.at_level(logging.WARNING, "dochistory.sweeper"):
            swept = dh.Sweeper(impatient, now=clock).sweep()
    assert sorted(swept) == ["bills"]
    assert "left for the next run" in caplog.text
    assert left(used) == [1, 1]


@pytest.mark.parametrize("file", ["log", "manifest"])
def test_a_damaged_trigger_keeps_no_other_from_being_purged(
    used: dh.History, directory: Path, clock: Clock, caplog: pytest.LogCaptureFixture, file: str
) -> None:
    used.begin(documents(["a"]), trigger("aged"), now=T0).complete()
    used.begin(documents(["a"]), trigger("later"), now=T0).complete()
    used.close()
    for damaged in directory.glob(f"triggers/aged-*/{file}-*"):
        damaged.write_bytes(b"rubbish" + damaged.read_bytes()[7:])
    clock.go(3 * 3600)
    sweeper = dh.Sweeper(directory, now=clock)
    with caplog.at_level(logging.ERROR, "dochistory.sweeper"):
        swept = sweeper.sweep()
    assert {name: one["entries"] for name, one in swept.items()} == {"bills": 0, "later": 1, "orders": 1}
    assert "[DH-CORRUPT]" in sweeper.skipped["aged"]
    assert "aged: not purged: [DH-CORRUPT]" in caplog.text


def test_trigger_that_is_refused_lets_others_be_purged(used: dh.History, directory: Path, clock: Clock) -> None:
    used.begin(documents(["a"]), trigger("aged"), now=T0).complete()
    used.begin(documents(["a"]), trigger("later"), now=T0).complete()
    used.close()
    [turn] = directory.glob("triggers/aged-*/turn")
    turn.unlink()
    turn.mkdir()  # also refused to root, whom no mode keeps out
    clock.go(3 * 3600)
    sweeper = dh.Sweeper(directory, now=clock)
    swept = sweeper.sweep()
    assert {name: one["entries"] for name, one in swept.items()} == {"bills": 0, "later": 1, "orders": 1}
    assert "[DH-IO]" in sweeper.skipped["aged"]


@pytest.mark.slow  # the log is waited for for 30 s
def test_trigger_that_cannot_be_reconciled_is_not_purged(
    history: dh.History, directory: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    of = trigger()
    slow = history.begin(documents(["paid", "other"]), of, now=clock())
    history.begin(documents(["paid", "other"]), of, now=clock(), audit=True)
    history.audit.resolve([1], "process")
    slow.complete(rows=[0])
    clock.go(5 * 3600)
    with history.audit.resubmit(of, [2], now=clock()), dh.open(directory) as other:
        assert dh.Sweeper(other, now=clock).sweep() == {}
        assert "left for the next run, with its documents in doubt" in caplog.text
    dh.Sweeper(history, now=clock).sweep()
    assert history.audit.list()["state"].to_pylist() == ["duplicate", "resubmitted"]


@pytest.mark.parametrize("settings", [{"every": 0}, {"every": "soon"}, {"retry_window": -1}])
def test_invalid_settings_are_refused(used: dh.History, settings: Any) -> None:
    with pytest.raises(dh.ConfigError, match=next(iter(settings))):
        dh.Sweeper(used, **settings)


def test_stored_results_are_purged_with_their_trigger(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))
    with dh.Consumer(directory, trigger()) as consumer:
        handle = consumer.once(key=lambda key: key, result="json")(lambda key: {"of": key})
        handle("a")
        channel = "orders.results"
        later = dt.datetime.now(dt.UTC)
        dh.Sweeper(consumer.history, now=lambda: later + dt.timedelta(hours=1)).sweep()
        assert (handle("a"), consumer.history.mappers()) == ({"of": "a"}, [channel])
        assert consumer.history.mapper(channel).entries().read_all().num_rows == 1
        dh.Sweeper(consumer.history, now=lambda: later + dt.timedelta(hours=3)).sweep()
        assert consumer.history.mapper(channel).entries().read_all().num_rows == 0


def test_a_damaged_mapper_keeps_no_result_from_being_purged(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))
    with dh.Consumer(directory, trigger()) as consumer:
        consumer.once(key=lambda key: key, result="json")(lambda key: {"of": key})("a")
        consumer.history.mapper("ids").create(["theirs"], ["ours"])
    for damaged in directory.glob("mappers/ids-*/manifest-*"):
        damaged.write_bytes(b"rubbish" + damaged.read_bytes()[7:])
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=3)
    assert dh.Sweeper(directory, now=lambda: later).sweep()["orders"]["entries"] == 1
    with dh.open(directory) as history:
        assert history.mapper("orders.results").entries().read_all().num_rows == 0
