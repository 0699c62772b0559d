"""What has ended is written, also where the first attempt meets a lock or a process without descriptors."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

import dochistory as dh
from dochistory._endings import Endings
from dochistory.consumer import Consumer
from tests.support import documents, statuses, trigger

ORDERS = trigger("orders")


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


@pytest.mark.parametrize("error", [dh.LockedError("[DH-LOCKED] held"), dh.DescriptorsError("[DH-DESCRIPTORS] none")])
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
