"""What is begun and what has ended is written, also where an attempt meets a lock or a process without descriptors."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

import dochistory as dh
from dochistory._endings import Endings
from dochistory._own_entries import release_own
from dochistory.consumer import Consumer
from dochistory.receiving import Message, Worker
from tests.brokers.campaign import eventually
from tests.brokers.test_message_ids import receive_in_loop
from tests.support import documents, statuses, trigger

ORDERS = trigger("orders")


PASSING = [dh.LockedError("[DH-LOCKED] held"), dh.DescriptorsError("[DH-DESCRIPTORS] none")]


class Refused:
    """A claim whose handle cannot write now."""

    def __init__(self, claim: dh.Claim, error: dh.DocHistoryError) -> None:
        self.verdicts, self.started_at = claim.verdicts, claim.started_at
        self.asked: list[Sequence[int]] = []
        self._error = error

    def complete(self, rows: Sequence[int]) -> None:
        self.asked.append(rows)
        raise self._error

    release = complete


@pytest.mark.parametrize("error", PASSING)
def test_what_passes_by_itself_is_waited_for(
    tmp_path: Path, error: dh.DocHistoryError, caplog: pytest.LogCaptureFixture
) -> None:
    with Consumer(tmp_path / "orders.history", ORDERS) as consumer:
        batch = documents(["a", "b", "c"])
        claim = consumer.begin(batch)
        endings = Endings(consumer, threading.Event())
        refused = Refused(claim, error)
        with caplog.at_level(logging.WARNING):
            endings.complete(cast("dh.Claim", refused), [0])
            endings.release(cast("dh.Claim", refused), [1])
        assert refused.asked == [[0], [1]]
        assert consumer.suspension.status is None
        assert statuses(consumer.history.classify(batch, ORDERS)) == ["DUPLICATE", "NEW", "IN_DOUBT"]
        told = [record.getMessage() for record in caplog.records if "what has ended" in record.getMessage()]
        assert len(told) == 2


def test_claim_is_released_where_another_closes_the_handle(tmp_path: Path) -> None:
    with Consumer(tmp_path / "orders.history", ORDERS) as consumer:
        claim = consumer.begin(documents(["a"]))
        real = consumer.history.entries

        class Closed:
            """The history, closed by another thread once its entries are asked for."""

            def entries(self, *given: Any, **named: Any) -> Any:
                reader = real(*given, **named)
                consumer.history.close()
                return reader

        with pytest.raises(dh.StateError, match=r"^\[DH-STATE\] .* is closed"):
            release_own(cast("dh.History", Closed()), ORDERS, ["a"], claim.started_at)
        release_own(consumer.history, ORDERS, ["a"], claim.started_at)
        assert statuses(consumer.history.classify(documents(["a"]), ORDERS)) == ["NEW"]


def test_what_ended_is_written_where_nobody_can_suspend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Exception) -> dh.SuspendedError:
        raise dh.DescriptorsError("[DH-DESCRIPTORS] none")

    with Consumer(tmp_path / "orders.history", ORDERS) as consumer:
        batch = documents(["a"])
        refused = Refused(consumer.begin(batch), dh.StorageError("[DH-IO] away"))
        monkeypatch.setattr(consumer.suspension, "failed", refuse)
        Endings(consumer, threading.Event()).complete(cast("dh.Claim", refused), [0])
        assert statuses(consumer.history.classify(batch, ORDERS)) == ["DUPLICATE"]


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> list[dh.DocHistoryError]:
    """What the next calls of consumers raise, the last one first."""
    coming: list[dh.DocHistoryError] = []
    ask = Consumer._ask  # noqa: SLF001

    def refusing(consumer: Consumer, call: Any) -> Any:
        if coming:
            raise coming.pop()
        return ask(consumer, call)

    monkeypatch.setattr(Consumer, "_ask", refusing)
    return coming


@pytest.mark.parametrize("error", PASSING)
def test_messages_that_cannot_begin_for_a_while_run_afterwards(
    tmp_path: Path, refusals: list[dh.DocHistoryError], error: dh.DocHistoryError, caplog: pytest.LogCaptureFixture
) -> None:
    refusals += [error, error]
    ran: list[str | None] = []
    settled: list[Any] = []
    with Consumer(tmp_path / "orders.history", ORDERS) as consumer:
        worker = Worker(consumer, lambda message: ran.append(message.id), settled.extend)
        worker.put([Message(one, b"", 0, None) for one in ("a", "b", "c")])
        with caplog.at_level(logging.WARNING):
            worker.start()
            eventually(lambda: len(settled) == 3 or not worker.is_running, "all are settled")
        worker.stop()
        eventually(lambda: not worker.is_running, "it ends")
        assert worker.failure is None
        assert consumer.suspension.status is None
    assert ran == ["a", "b", "c"]
    told = [record.getMessage() for record in caplog.records if "cannot be begun" in record.getMessage()]
    assert [" 0.2 s: [DH-" in told[0], " 0.4 s: [DH-" in told[1]] == [True, True]


@pytest.mark.parametrize("error", PASSING)
def test_coroutines_that_cannot_begin_for_a_while_run_afterwards(
    tmp_path: Path, refusals: list[dh.DocHistoryError], error: dh.DocHistoryError
) -> None:
    refusals += [error, error]
    assert receive_in_loop(tmp_path, ["a", "b"]) == (["a", "b"], None)


def test_a_receiver_that_is_to_stop_says_what_it_could_not_write(tmp_path: Path) -> None:
    stopping = threading.Event()
    stopping.set()
    with Consumer(tmp_path / "orders.history", ORDERS) as consumer:
        claim = consumer.begin(documents(["a"]))
        refused = cast("dh.Claim", Refused(claim, dh.LockedError("[DH-LOCKED] held")))
        with pytest.raises(dh.LockedError):
            Endings(consumer, stopping).complete(refused, [0])
        assert statuses(consumer.history.classify(documents(["a"]), ORDERS)) == ["IN_DOUBT"]


def test_a_second_attempt_releases_nothing_that_others_began(tmp_path: Path) -> None:
    """The first attempt got through, and its answer did not: another receiver has a document, and is at work on it."""
    with Consumer(tmp_path / "orders.history", ORDERS) as consumer:
        batch = documents(["a", "b"])
        claim = consumer.begin(batch)
        claim.release(rows=[0])
        consumer.history.begin(documents(["a"]), ORDERS)
        refused = Refused(claim, dh.LockedError("[DH-LOCKED] held"))
        Endings(consumer, threading.Event()).release(cast("dh.Claim", refused), [0, 1])
        assert statuses(consumer.history.classify(batch, ORDERS)) == ["IN_DOUBT", "NEW"]


def test_a_second_attempt_releases_one_that_is_its_own(tmp_path: Path) -> None:
    with Consumer(tmp_path / "orders.history", ORDERS) as consumer:
        one, other = consumer.one("a"), consumer.one("b")
        for document in (one, other):
            consumer._one_by_one.begin(document)  # noqa: SLF001 - what a coroutine's receiver uses
        one.claim.release()
        consumer.history.begin(documents(["a"]), ORDERS)
        for document in (one, other):
            consumer._one_by_one.release_by_key(document)  # noqa: SLF001
        assert statuses(consumer.history.classify(documents(["a", "b"]), ORDERS)) == ["IN_DOUBT", "NEW"]
