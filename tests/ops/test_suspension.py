"""Suspension around the rules: a trigger waits, polls, resumes, and remembers that across restarts."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory import _files, _suspended
from dochistory.suspension import Status, state_directory, suspended
from tests.store.processes import run
from tests.support import T0, away, documents, rules, status_of, trigger


class Clock:
    """A clock that stands until it is told otherwise."""

    def __init__(self) -> None:
        self.time = T0

    def __call__(self) -> dt.datetime:
        return self.time

    def go(self, seconds: float) -> None:
        self.time += dt.timedelta(seconds=seconds)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's directory for the state."""
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def suspension(history: Any, clock: Clock, **settings: Any) -> dh.Suspension:
    return dh.Suspension(history, settings.pop("of", None) or trigger(), now=clock, **settings)


def down(_: pa.RecordBatch) -> Any:
    raise dh.TransientError("the shop is down")


def without_descriptors(*_: Any) -> Any:
    raise dh.DescriptorsError("[DH-DESCRIPTORS] none")


def seconds_to_poll(one: dh.Suspension, clock: Clock) -> float:
    assert one.status is not None
    assert one.status.next_poll is not None
    return (one.status.next_poll - clock()).total_seconds()


def test_a_trigger_that_nothing_suspended_may_begin(history: dh.History, clock: Clock, state: Path) -> None:
    one = suspension(history, clock)
    one.check()
    assert one.note(history.classify(documents(["a"]), trigger())) is None
    assert one.wait()
    assert one.status is None
    assert not state.exists()


def test_suspension_shows_its_trigger_and_place(directory: Path) -> None:
    assert repr(dh.Suspension(directory, trigger())) == f"<Suspension of trigger 'orders' with {str(directory)!r}>"
    options = {"aws_secret_access_key": "hush"}
    shown = repr(dh.Suspension("s3://bucket/orders.history", trigger(), storage_options=options))
    assert shown == "<Suspension of trigger 'orders' with 's3://bucket/orders.history'>"


def test_rows_that_are_suspended_suspend_the_trigger_and_say_why(
    history: dh.History, directory: Path, clock: Clock
) -> None:
    one = suspension(history, clock)
    with away(directory):
        found = one.note(history.classify(documents(["a"]), trigger()))
    assert isinstance(found, Status)
    assert (found.cause, found.trigger, found.since, found.polls) == ("history", "orders", T0, 0)
    assert "HISTORY" in found.reason or "orders" in found.reason
    with pytest.raises(
        dh.SuspendedError, match=r"^\[DH-SUSPENDED\] trigger orders is suspended since 2024-03-10"
    ) as raised:
        one.check()
    assert raised.value.status == found
    assert pickle.loads(pickle.dumps(raised.value)).status == found


def test_suspension_polls_after_60_seconds_then_backs_off(history: dh.History, directory: Path, clock: Clock) -> None:
    one = suspension(history, clock)
    waits = []
    with away(directory):
        one.note(history.classify(documents(["a"]), trigger()))
        for _ in range(5):
            waits.append(seconds_to_poll(one, clock))
            clock.go(waits[-1] - 0.001)
            with pytest.raises(dh.SuspendedError):
                one.check()
            assert seconds_to_poll(one, clock) == pytest.approx(0.001)
            clock.go(0.001)
            with pytest.raises(dh.SuspendedError):
                one.check()
    assert waits == [60, 120, 240, 300, 300]
    assert one.status is not None
    assert one.status.polls == 5


def test_backoff_may_be_none(history: dh.History, directory: Path, clock: Clock) -> None:
    one = suspension(history, clock, poll_every="5 s", backoff=1)
    with away(directory):
        one.note(history.classify(documents(["a"]), trigger()))
        for _ in range(3):
            assert seconds_to_poll(one, clock) == 5
            clock.go(5)
            with pytest.raises(dh.SuspendedError):
                one.check()


def test_it_resumes_by_itself_when_the_history_is_back(history: dh.History, directory: Path, clock: Clock) -> None:
    changes: list[Any] = []
    one = suspension(history, clock, on_change=changes.append)
    with away(directory):
        one.note(history.classify(documents(["a"]), trigger()))
    with pytest.raises(dh.SuspendedError):
        one.check()
    clock.go(60)
    one.check()
    assert one.status is None
    assert [change is None for change in changes] == [False, True]


def test_a_directory_serves_as_well_as_an_open_history(history: dh.History, directory: Path, clock: Clock) -> None:
    one = suspension(directory, clock)
    with away(directory):
        one.note(history.classify(documents(["a"]), trigger()))
        clock.go(60)
        with pytest.raises(dh.SuspendedError):
            one.check()
    clock.go(120)
    one.check()
    assert one.status is None


def test_failed_resolver_is_retried_with_one_batch_at_a_time(history: dh.History, clock: Clock) -> None:
    history.begin(documents(["a"]), trigger())
    of = trigger(resolver=down, resolver_backoff=0)
    one = suspension(history, clock, of=of)
    found = one.note(history.classify(documents(["a"]), of))
    assert found is not None
    assert (found.cause, "the shop is down" in found.reason) == ("resolver", True)
    with pytest.raises(dh.SuspendedError):
        one.check()
    clock.go(60)
    one.check()
    one.note(history.classify(documents(["a"]), of))
    assert seconds_to_poll(one, clock) == 120
    clock.go(120)
    one.check()
    one.note(history.classify(documents(["a"]), trigger(resolver=lambda _: ["NEW"])))
    assert one.status is None


def test_batches_begun_before_the_suspension_do_not_lengthen_it(history: dh.History, clock: Clock) -> None:
    history.begin(documents(["a"]), trigger())
    of = trigger(resolver=down, resolver_backoff=0)
    one = suspension(history, clock, of=of)
    for _ in range(4):
        one.note(history.classify(documents(["a"]), of))
    assert seconds_to_poll(one, clock) == 60


def test_a_person_suspends_and_resumes(history: dh.History, clock: Clock) -> None:
    one = suspension(history, clock)
    one.suspend("the shop is moving")
    clock.go(10_000_000)
    with pytest.raises(dh.SuspendedError, match=r"person: the shop is moving.*resume it by hand"):
        one.check()
    one.note(history.classify(documents(["a"]), trigger()))
    assert one.status is not None
    one.resume()
    one.resume()
    one.check()


def test_it_survives_a_restart_and_is_seen_by_other_processes(
    history: dh.History, directory: Path, clock: Clock
) -> None:
    one = suspension(history, clock)
    with away(directory):
        found = one.note(history.classify(documents(["a"]), trigger()))
        script = """
        status = dh.Suspension(sys.argv[1], trigger()).status
        print(status.cause, status.next_poll.isoformat())
        """
        assert found is not None
        assert found.next_poll is not None
        assert run(script, directory) == [f"history {found.next_poll.isoformat()}"]
    run("dh.Suspension(sys.argv[1], trigger()).resume()", directory)
    one.check()


def test_other_triggers_and_other_histories_are_left_alone(history: dh.History, tmp_path: Path, clock: Clock) -> None:
    suspension(history, clock).suspend()
    suspension(history, clock, of=trigger("bills")).check()
    suspension(tmp_path / "other.history", clock).check()
    assert [one.trigger for one in suspended(history)] == ["orders"]
    assert suspended(tmp_path / "other.history") == []
    assert len(suspended()) == 1


def test_all_spellings_of_a_place_are_one(history: dh.History, directory: Path, clock: Clock) -> None:
    link = directory.parent / "link.history"
    link.symlink_to(directory)
    suspension(directory.parent / "sub" / ".." / directory.name, clock).suspend()
    for place in (history, directory, link):
        assert [one.trigger for one in suspended(place)] == ["orders"]
        with pytest.raises(dh.SuspendedError):
            suspension(place, clock).check()
    suspension(link, clock).resume()
    suspension(directory, clock).check()


def test_suspension_without_writable_state_holds_in_this_process(
    history: dh.History, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no directory")
    one = suspension(history, clock, state=tmp_path / "file" / "state")
    with caplog.at_level(logging.WARNING):
        one.suspend()
    assert "does not survive a restart" in caplog.text
    with pytest.raises(dh.SuspendedError):
        one.check()


def test_suspension_without_descriptors_holds_in_this_process(
    history: dh.History, clock: Clock, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    one = suspension(history, clock)
    with monkeypatch.context() as patch:
        patch.setattr(_files, "replace", without_descriptors)
        assert isinstance(one.failed(dh.StorageError("[DH-IO] away")), dh.SuspendedError)
    assert not list(state.glob("suspended-*.json"))
    with pytest.raises(dh.SuspendedError, match="away"):
        one.check()


def test_waiting_outlasts_a_lack_of_descriptors(history: dh.History, monkeypatch: pytest.MonkeyPatch) -> None:
    one = dh.Suspension(history, trigger(), poll_every=0.01, longest=0.01)
    one.failed(dh.StorageError("[DH-IO] away"))
    with monkeypatch.context() as patch:
        patch.setattr(_suspended, "read", without_descriptors)
        assert not one.wait(timeout=0.02)
        stop = threading.Event()
        threading.Timer(0.02, stop.set).start()
        assert not one.wait(stop=stop)
    assert one.wait(timeout=60)
    assert one.status is None


def test_a_damaged_state_is_an_error_and_no_resumption(history: dh.History, clock: Clock, state: Path) -> None:
    one = suspension(history, clock)
    one.suspend()
    for content in ("", "{}", "[1]", '{"history": 3}', "\xff"):
        next(state.glob("suspended-*.json")).write_text(content, encoding="latin-1")
        with pytest.raises(dh.CorruptError, match="DH-CORRUPT"):
            one.check()


def test_waiting_ends_with_the_suspension_the_time_or_the_event(history: dh.History) -> None:
    one = dh.Suspension(history, trigger(), poll_every=0.01, longest=0.01)
    one.suspend()
    assert not one.wait(timeout=0.02)
    stop = threading.Event()
    threading.Timer(0.02, stop.set).start()
    assert not one.wait(stop=stop)
    threading.Timer(0.02, one.resume).start()
    assert one.wait(timeout=60)


def test_waiting_polls(history: dh.History, directory: Path) -> None:
    one = dh.Suspension(history, trigger(), poll_every=0.01, longest=0.01)
    with away(directory):
        one.note(history.classify(documents(["a"]), trigger()))
        assert not one.wait(timeout=0.05)
        assert one.status is not None
        assert one.status.polls > 0
    assert one.wait(timeout=60)


def test_it_is_told_to_the_log(history: dh.History, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    one = suspension(history, clock)
    with caplog.at_level(logging.INFO, "dochistory.suspension"):
        one.suspend("moving")
        one.resume()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.records[0].dochistory["reason"] == "moving"  # type: ignore[attr-defined]


@pytest.mark.parametrize("settings", [{"backoff": 0.5}, {"poll_every": "often"}, {"poll_every": -1}, {"longest": True}])
def test_invalid_settings_are_refused(history: dh.History, settings: Any) -> None:
    with pytest.raises(dh.ConfigError, match=f"DH-CONFIG. {next(iter(settings))} is"):
        dh.Suspension(history, trigger(), **settings)


def test_the_state_is_kept_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert state_directory() == tmp_path / "state"
    monkeypatch.delenv("DOCHISTORY_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_directory() == tmp_path / "xdg" / "dochistory"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert state_directory() == Path.home() / ".local" / "state" / "dochistory"


def consumer(directory: Path, clock: Clock, of: dh.Trigger | None = None, **settings: Any) -> dh.Consumer:
    of = of or trigger()
    return dh.Consumer(directory, of, suspension=suspension(directory, clock, of=of), **settings)


def test_a_consumer_writes_down_what_is_not_new(
    directory: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with consumer(directory, clock) as one, caplog.at_level(logging.INFO, "dochistory.journal"):
        first = one.begin(pa.table({"uuid": ["a", "b"]}))
        first.complete(rows=[0])
        again = one.begin(pa.table({"uuid": ["a", "b", "c"], "document_name": ["x", "y", "z"]}))
        assert again.new["uuid"].to_pylist() == ["c"]
        assert one.history.audit.list()["key"].to_pylist() == ["b"]
        statistics = dh.Statistics(directory)
        summary = statistics.summary(one.history)["orders"]
        assert (summary["new"], summary["duplicate"], summary["in_doubt"]) == (3, 1, {"R11": 1})
        assert sorted(statistics.documents()["name"].to_pylist()) == ["x", "y"]
        assert [record.name for record in caplog.records].count("dochistory.journal") == 2


def test_a_consumer_begins_nothing_while_the_history_is_away(directory: Path, clock: Clock) -> None:
    with consumer(directory, clock) as one:
        one.begin(documents(["a"])).complete()
        with away(directory):
            claim = one.begin(documents(["b"]))
            assert rules(claim.verdicts) == ["R5"]
            with pytest.raises(dh.SuspendedError):
                one.begin(documents(["c"]))
            one.close()
            clock.go(60)
            with pytest.raises(dh.SuspendedError):
                one.begin(documents(["c"]))
            assert not directory.exists()
        clock.go(120)
        assert one.begin(documents(["c"])).new.num_rows == 1
        assert status_of(one.history, ["a", "b", "c"]) == ["DUPLICATE", "NEW", "IN_DOUBT"]


def test_consumer_of_an_absent_history_creates_no_empty_one(directory: Path, clock: Clock) -> None:
    with consumer(directory, clock) as one:
        one.begin(documents(["a"])).complete()
        with away(directory):
            one.begin(documents(["a"]))
    with away(directory), consumer(directory, clock) as restarted:
        clock.go(1_000)
        with pytest.raises(dh.SuspendedError):
            restarted.begin(documents(["a"]))
        assert not directory.exists()


def test_consumer_without_suspension_raises_the_historys_error(directory: Path, clock: Clock) -> None:
    of = trigger(suspend_and_retry_on_error=False)
    with consumer(directory, clock, of, audit=False, statistics=False) as one:
        one.begin(documents(["a"])).complete()
        one.close()
        with away(directory), pytest.raises(dh.OpenError):
            one.begin(documents(["a"]))
        assert one.begin(documents(["a", "b"])).new.num_rows == 1


def test_what_cannot_be_written_down_is_not_claimed(directory: Path, clock: Clock) -> None:
    class Full:
        def write(self, _: pa.Table) -> None:
            raise OSError(28, "No space left on device")

    with consumer(directory, clock, sinks=[Full()]) as one:
        one.begin(documents(["a"])).complete()
        with pytest.raises(OSError, match="No space"):
            one.begin(documents(["a", "b"]))
        assert status_of(one.history, ["b"]) == ["NEW"]


@pytest.mark.parametrize("reachable", [True, False], ids=["back", "away"])
def test_what_a_person_does_during_a_poll_stands(
    history: dh.History, clock: Clock, monkeypatch: pytest.MonkeyPatch, reachable: bool
) -> None:
    one, person = suspension(history, clock), suspension(history, clock)
    answer = None if reachable else "still away"

    def suspends() -> str | None:
        person.suspend("the shop is moving")
        return answer

    def resumes() -> str | None:
        person.resume()
        return answer

    one.failed(OSError("away"))
    clock.go(60)
    monkeypatch.setattr(one, "_unreachable", suspends)
    with pytest.raises(dh.SuspendedError, match="person: the shop is moving"):
        one.check()
    clock.go(10_000_000)
    with pytest.raises(dh.SuspendedError, match="person: the shop is moving"):
        one.check()
    person.resume()
    one.failed(OSError("away"))
    clock.go(60)
    monkeypatch.setattr(one, "_unreachable", resumes)
    one.check()
    assert one.status is None


def test_many_threads_that_suspend_and_resume_leave_one_answer(history: dh.History, clock: Clock) -> None:
    everyone = [suspension(history, clock) for _ in range(4)]
    barrier = threading.Barrier(8)

    def work(one: dh.Suspension, by_hand: bool) -> None:
        barrier.wait()
        for _ in range(20):
            if by_hand:
                one.suspend("by hand")
            else:
                one.failed(OSError("away"))
                one.succeeded()

    threads = [threading.Thread(target=work, args=(one, by_hand)) for one in everyone for by_hand in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status = everyone[0].status
    assert status is not None
    assert status.cause == "person"  # of whatever came before it, nothing ends it


@pytest.mark.usefixtures("history")
def test_listener_that_fails_loses_no_document(directory: Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: Status | None) -> None:
        raise ValueError("no pager")

    with dh.Consumer(directory, trigger(), suspension=suspension(directory, clock, on_change=fails)) as consumer:
        consumer.suspension.failed(OSError("away"), "resolver")
        clock.go(60)
        consumer.begin(documents(["a"])).complete()
        consumer.suspension.failed(OSError("away"), "resolver")
        clock.go(60)
        with consumer.one("b") as document:
            assert document.new
    assert caplog.text.count("on_change failed") == 4


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("how", ["batch", "one", "many"])
def test_document_is_released_if_its_trigger_cannot_resume(
    directory: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def refuses() -> None:
        raise dh.StorageError("[DH-IO] the file is not removed")

    async def many(consumer: dh.Consumer) -> None:
        async def one(key: str) -> None:
            async with consumer.one(key):
                pass

        failed = await asyncio.gather(*map(one, "ab"), return_exceptions=True)
        assert [type(error) for error in failed] == [dh.StorageError] * 2
        raise dh.StorageError(str(failed[0]))

    calls: dict[str, Callable[[dh.Consumer], object]] = {
        "batch": lambda consumer: consumer.begin(documents(["a", "b"])),
        "one": lambda consumer: consumer.one("a").__enter__(),
        "many": lambda consumer: asyncio.run(many(consumer)),
    }
    with dh.Consumer(directory, trigger(), suspension=suspension(directory, clock)) as consumer:
        consumer.suspension.failed(OSError("away"), "resolver")
        clock.go(60)
        monkeypatch.setattr(consumer.suspension, "succeeded", refuses)
        with pytest.raises(dh.StorageError, match="is not removed"):
            calls[how](consumer)
        assert rules(consumer.history.classify(documents(["a", "b"]), trigger())) == ["R8", "R8"]
