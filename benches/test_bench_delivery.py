"""Guaranteed delivery: headers a second, through Python, from Arrow columns to decisions and back."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dochistory as dh
from benches.conftest import Measure

pytestmark = pytest.mark.benchmark

MESSAGES = 1_000_000
STEP = 150
START = 1_000_000_000


def poll_of(streams: int, *, shuffled: bool = False, as_dictionary: bool = True, first: int = START) -> pa.RecordBatch:
    """A million messages, dealt to the streams in turn; each stream's chain starts at `first`."""
    numbers = np.arange(MESSAGES, dtype=np.uint64)
    if shuffled:
        np.random.default_rng(7).shuffle(numbers)
    stream = pa.array((numbers % streams).astype(np.int32))
    names = pa.array([f"publisher-{number:05}" for number in range(streams)])
    prev = first + (numbers // streams) * STEP
    text = pc.binary_join_element_wise(
        "(0-", pc.utf8_lpad(pa.array(prev).cast(pa.string()), 10, "0"),
        "-", pc.utf8_lpad(pa.array(prev + STEP).cast(pa.string()), 10, "0"), "-0)", "",
    )  # fmt: skip
    column = pa.DictionaryArray.from_arrays(stream, names)
    return pa.record_batch({"stream": column if as_dictionary else column.cast(pa.string()), "header": text})


@pytest.fixture
def history(tmp_disk: Path) -> Iterator[dh.History]:
    with dh.open(tmp_disk / "feed.history", create=True) as opened:
        yield opened


def started(history: dh.History, streams: int, **options: Any) -> dh.GuaranteedDelivery:
    start = {f"publisher-{number:05}": START for number in range(streams)}
    return history.delivery(start=start, **options)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("as_dictionary", [True, False], ids=["dictionary", "text"])
@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_decide_a_million_messages_of_ten_thousand_streams(
    measure: Measure, history: dh.History, threads: int, *, as_dictionary: bool, shuffled: bool
) -> None:
    batch = poll_of(10_000, shuffled=shuffled, as_dictionary=as_dictionary)
    inbox = started(history, 10_000, own_transaction=True)
    measure(lambda: inbox.receive(batch, threads=threads), MESSAGES, rounds=9)


@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_decide_a_million_messages_of_one_stream(measure: Measure, history: dh.History, *, shuffled: bool) -> None:
    batch = poll_of(1, shuffled=shuffled).select(["header"])
    inbox = history.delivery("publisher-00000", start=START, own_transaction=True)
    measure(lambda: inbox.receive(batch), MESSAGES, rounds=9)


def test_receive_and_commit_1e6_messages_of_1e4_streams(measure: Measure, history: dh.History) -> None:
    inbox = started(history, 10_000)
    numbers = count()

    def next_poll() -> tuple[tuple[Any], dict[str, Any]]:
        return (poll_of(10_000, first=START + next(numbers) * STEP * MESSAGES // 10_000),), {}

    def job(batch: pa.RecordBatch) -> None:
        inbox.receive(batch).commit()

    measure(job, MESSAGES, rounds=7, setup=next_poll)


def test_the_messages_of_a_million_in_the_order_of_application(measure: Measure, history: dh.History) -> None:
    batch = poll_of(10_000, shuffled=True)
    inbox = started(history, 10_000, own_transaction=True)
    measure(lambda: inbox.receive(batch).messages, MESSAGES, rounds=5)
