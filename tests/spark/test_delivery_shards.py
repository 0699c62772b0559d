"""Batches of messages that Spark's tasks decide: what one receiver would apply, whatever Spark repeats."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory.spark import compat, delivery_shards
from tests.delivery.support import header
from tests.spark.support import break_first_attempts, keep_two_versions
from tests.spark.where import Where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

SCHEMA = "stream string, header string, body string"
NAMES = [f"s{number}" for number in range(7)]
Rows = Sequence[tuple[str | None, str | None]]


def frame(spark: SparkSession, rows: Rows) -> DataFrame:
    return spark.createDataFrame([(stream, text, f"{stream} {text}") for stream, text in rows], SCHEMA)


class Applied:
    """What was applied of each stream, in order; and the answers."""

    def __init__(self) -> None:
        self.of: dict[str, list[str]] = {}
        self.answers: list[list[tuple[Any, ...]]] = []

    def __call__(self, messages: pa.Table, _batch: object = None) -> None:
        for row in messages.to_pylist():
            assert row["body"] == f"{row['dh_stream']} {row['header']}"
            self.of.setdefault(row["dh_stream"], []).append(row["header"])

    def answer(self, poll: dh.DeliveryPoll) -> None:
        found = poll.confirmations.to_pylist() + poll.resend_requests.to_pylist()
        self.answers.append(sorted(tuple(one.values()) for one in found))


def handler(history: Any, apply: Any, **options: Any) -> Any:
    where = Where.of(history)
    given = {"application": "feed", "messages": "arrow", "start": dict.fromkeys(NAMES, 0), **where.given, **options}
    return dh.spark.delivery(where.path, apply, **given)


def chain(lots: random.Random) -> list[str]:
    """Transactions, some of several messages."""
    found, prev = [], 0
    for _ in range(8):
        cur, parts = prev + lots.randint(1, 99), lots.choice([1, 1, 1, 3])
        found += [header(prev, prev, part) for part in range(parts - 1)] + [header(prev, cur, parts - 1)]
        prev = cur
    return found


def batches_of(lots: random.Random) -> list[Rows]:
    """Batches of all streams, in any order, with copies, losses and damage."""
    arrivals: list[tuple[str | None, str | None]] = [(name, one) for name in NAMES for one in chain(lots)]
    arrivals += lots.sample(arrivals, 20)
    arrivals += [(NAMES[0], None), (NAMES[1], "(0-5"), (None, header(0, 10)), ("unknown", header(0, 10))]
    lots.shuffle(arrivals)
    lost = lots.sample(range(len(arrivals)), 4)
    kept = [row for at, row in enumerate(arrivals) if at not in lost]
    cuts = [0, 30, 31, 60, len(kept), len(kept)]
    return [kept[start:end] for start, end in pairwise(cuts)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_tasks_apply_what_one_receiver_applies(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    lots = random.Random(seed)
    options: dict[str, Any] = {"patience": lots.randint(0, 3), "held_limit": lots.choice([3, 1000])}
    one, many = Applied(), Applied()
    decided: list[list[Any]] = [[], []]
    words = ["dh_decision", "dh_status", "dh_transaction", "dh_apply_rank", "dh_reason"]

    def on_poll(batch: dh.spark.DeliveryBatch) -> None:
        decided[1].append(plain(batch.decisions.select("stream", "header", *words).collect()))

    with dh.open(tmp_path / "one", create=True) as alone, dh.open(tmp_path / "many", create=True) as shared:
        inbox = alone.delivery(start=dict.fromkeys(NAMES, 0), **options)
        handle = handler(
            shared, many, parts=2, on_poll=on_poll, on_answers=lambda batch: many.answer(batch.poll), **options
        )
        for number, rows in enumerate(batches_of(lots)):
            arrivals = frame(spark, rows)
            table = compat.collect_arrow(arrivals)
            poll = inbox.receive(table, transaction=("feed", number))
            outcome = [table["stream"], table["header"], *(poll.decisions[name[3:]] for name in words)]
            decided[0].append(plain(zip(*(column.to_pylist() for column in outcome), strict=True)))
            one(poll.messages)
            poll.commit()
            one.answer(poll)
            handle(arrivals, number)
        assert many.of == one.of
        assert many.answers == one.answers
        assert decided[1] == decided[0]
        left, right = (found.delivery_status().drop_columns(["time_received"]) for found in (alone, shared))
        assert left.to_pylist() == right.to_pylist()


def plain(rows: Any) -> list[tuple[Any, ...]]:
    """Rows in an order of their own, with Spark's offsets as numbers."""
    return sorted((tuple(int(one) if isinstance(one, Decimal) else one for one in row) for row in rows), key=repr)


@pytest.mark.parametrize(
    ("how", "when"),
    [
        ("exception", "after"),
        pytest.param("exit", "before", marks=pytest.mark.slow),
        pytest.param("exit", "after", marks=pytest.mark.slow),
    ],
)
def test_retried_task_applies_each_message_once(
    spark: SparkSession, where: Where, monkeypatch: pytest.MonkeyPatch, how: str, when: str
) -> None:
    break_first_attempts(monkeypatch, delivery_shards, "DeliveryShard", when, how)
    applied = Applied()
    handle = handler(where, applied, patience=9)
    texts = [header(0, 10), header(10, 10, 0), header(10, 20, 1), header(20, 30)]
    handle(frame(spark, [(name, texts[place]) for place in (3, 1, 0) for name in NAMES]), 0)
    handle(frame(spark, [(name, texts[2]) for name in NAMES]), 1)
    handle.close()
    assert applied.of == dict.fromkeys(NAMES, texts)


def test_what_a_task_and_its_copy_decide_is_applied_once(
    spark: SparkSession, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = Applied()
    handle = handler(where, applied)
    batch = frame(spark, [(name, header(at, at + 10)) for at in (10, 0) for name in NAMES])
    keep_two_versions(monkeypatch, batch)
    handle(batch, 0)
    handle.close()
    assert applied.of == {name: [header(0, 10), header(10, 20)] for name in NAMES}


@pytest.mark.slow
def test_a_job_that_fails_for_good_changes_nothing(
    spark: SparkSession, history_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hopeless(delivery_shards.DeliveryShard):
        def part(self, batches: Iterator[Sequence[pa.Array]]) -> Iterator[pa.StructArray]:
            yield from super().part(batches)
            raise ValueError("the task broke")

    applied = Applied()
    with dh.open(history_path, create=True) as history:
        handle = handler(history, applied)
        rows = frame(spark, [("s1", header(0, 10))])
        handle(frame(spark, []), 0)
        before = history.delivery_status()
        with monkeypatch.context() as patched:
            patched.setattr(delivery_shards, "DeliveryShard", Hopeless)
            with pytest.raises(Exception, match="the task broke"):
                handle(rows, 1)
        assert history.delivery_status() == before
        handle(rows, 1)
    assert applied.of == {"s1": [header(0, 10)]}


def test_actions_on_messages_decide_nothing_again(
    spark: SparkSession, history_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()

    class Counting(delivery_shards.DeliveryShard):
        def part(self, batches: Iterator[Sequence[pa.Array]]) -> Iterator[pa.StructArray]:
            (calls / os.urandom(8).hex()).touch()
            yield from super().part(batches)

    monkeypatch.setattr(delivery_shards, "DeliveryShard", Counting)
    seen: list[Any] = []

    def apply(messages: DataFrame, _batch: object) -> None:
        seen.extend([messages.count(), messages.collect(), messages.orderBy("dh_stream").collect(), messages.count()])
        seen.append(len(list(calls.iterdir())))

    handle = handler(history_path, apply, messages="spark", parts=2)
    handle(frame(spark, [(name, header(at, at + 10)) for at in (10, 0) for name in NAMES]), 0)
    handle.close()
    count, first, second, again, decided = seen
    assert (count, again, len(first), sorted(first) == sorted(second)) == (14, 14, 14, True)
    assert decided <= 2


@pytest.mark.slow
def test_waiting_messages_return_until_a_restart_requests_them(spark: SparkSession, where: Where) -> None:
    applied = Applied()
    parts = [header(0, 0, 0), header(0, 0, 1), header(0, 10, 2)]
    handle = handler(where, applied, patience=1, on_answers=lambda batch: applied.answer(batch.poll))
    handle(frame(spark, [("s0", parts[0]), ("s1", header(10, 20))]), 0)
    handle(frame(spark, [("s0", parts[1])]), 1)
    assert applied.of == {}
    assert applied.answers == [[], [("s1", 1, 0)]]  # s1 waited one batch in vain
    handle(frame(spark, [("s0", parts[2])]), 2)
    assert applied.of == {"s0": parts}
    handle(frame(spark, [("s2", parts[0]), ("s2", parts[1])]), 3)
    handle.close()

    # Another driver knows nothing of the two parts: the last one waits for them, and is asked for with them.
    handle = handler(where, applied, patience=1, on_answers=lambda batch: applied.answer(batch.poll))
    handle(frame(spark, [("s2", parts[2])]), 4)
    handle(frame(spark, []), 5)
    assert applied.answers[-1] == [("s2", 1, 0)]
    handle(frame(spark, [("s2", header(0, 10, 0, 1))]), 6)
    handle.close()
    assert applied.of == {"s0": parts, "s2": [header(0, 10, 0, 1)]}


def test_batch_replayed_after_its_commit_applies_nothing(spark: SparkSession, where: Where) -> None:
    applied, replays = Applied(), []
    rows = frame(spark, [(name, header(0, 10)) for name in NAMES])
    for _ in range(2):
        handle = handler(where, applied, on_poll=lambda batch: replays.append(batch.poll.replay))
        handle(rows, 0)
        handle.close()
    assert applied.of == {name: [header(0, 10)] for name in NAMES}
    assert replays == ["first", "finished"]


def test_another_receiver_that_was_first_fences_the_batch(
    spark: SparkSession, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied, others = Applied(), Applied()
    decide = delivery_shards.DeliveryShards.decide
    with where.open(create=True) as history:
        handle = handler(Where(history, where.given), applied)
        handle(frame(spark, []), 0)

        def overtaken(*arguments: Any) -> delivery_shards.Decided:
            decided = decide(*arguments)
            poll = history.delivery("s3").receive(
                pa.table({"header": [header(0, 10)], "body": [f"s3 {header(0, 10)}"]})
            )
            others(poll.messages)
            poll.commit()
            return decided

        rows = frame(spark, [(name, header(0, 10)) for name in NAMES])
        with monkeypatch.context() as patched:
            patched.setattr(delivery_shards.DeliveryShards, "decide", overtaken)
            with pytest.raises(dh.FencedError, match="s3"):
                handle(rows, 1)
        assert applied.of == {}
        handle(rows, 1)
    both = {name: applied.of.get(name, []) + others.of.get(name, []) for name in NAMES}
    assert both == {name: [header(0, 10)] for name in NAMES}


def test_later_batch_of_one_stream_with_other_columns_is_refused(spark: SparkSession, history_path: Path) -> None:
    applied = Applied()

    def run(handle: Any, batch: int, *texts: str) -> None:
        rows = [(text, f"s0 {text}") for text in texts]
        handle(spark.createDataFrame(rows, "header string, body string"), batch)

    handle = handler(history_path, applied, stream="s0", start=0, patience=9)
    run(handle, 0, header(10, 20))
    with pytest.raises(dh.SchemaError, match="differ in the columns extra"):
        handle(spark.createDataFrame([(header(0, 10), "x", 1)], "header string, body string, extra int"), 1)
    run(handle, 1, header(10, 20))
    with pytest.raises(dh.SchemaError, match=r"column 'body' is string, and now it is int: cast it"):
        handle(spark.createDataFrame([(header(0, 10), 7)], "header string, body int"), 2)
    run(handle, 2, header(10, 20), header(0, 10))
    handle.close()
    assert applied.of == {"s0": [header(0, 10), header(10, 20)]}
    with pytest.raises(dh.SchemaError, match="stream"):
        handler(history_path, applied)(spark.createDataFrame([(header(0, 10),)], "header string"), 3)


def test_a_column_in_another_case_is_refused(spark: SparkSession, history_path: Path) -> None:
    applied = Applied()
    handle = handler(history_path, applied)
    rows = frame(spark, [("s0", header(0, 10))])
    for name in ("stream", "header"):
        with pytest.raises(dh.SchemaError, match=f"there is a column '{name.title()}' and no '{name}'"):
            handle(rows.withColumnRenamed(name, name.title()), 0)
    handle(rows, 0)
    handle.close()
    assert applied.of == {"s0": [header(0, 10)]}


def test_waiting_messages_take_the_wider_type_of_a_later_batch(spark: SparkSession, history_path: Path) -> None:
    applied: list[dict[str, Any]] = []

    def apply(messages: pa.Table, _batch: object) -> None:
        applied.extend(messages.select(["header", "cents"]).to_pylist())

    handle = handler(history_path, apply, stream="s0", start=0, patience=9)
    handle(spark.createDataFrame([(header(10, 20), 7)], "header string, cents int"), 0)
    handle(spark.createDataFrame([(header(0, 10), 1 << 40)], "header string, cents bigint"), 1)
    handle.close()
    assert applied == [{"header": header(0, 10), "cents": 1 << 40}, {"header": header(10, 20), "cents": 7}]
