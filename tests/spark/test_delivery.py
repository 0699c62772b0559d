"""`dochistory.spark.delivery`: messages of many streams applied in order, each once, whatever Spark repeats."""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

import dochistory as dh
from tests.delivery.support import header
from tests.spark.support import stored
from tests.spark.where import Where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

SCHEMA = "stream string, header string, body string"
Rows = list[tuple[str, str | None]]
CHAIN = [header(0, 10), header(10, 20), header(20, 30)]


class Feed:
    """A stream with one batch per file added, that can be made to forget that a batch was done."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home = spark, home
        self.count = 0
        (home / "input").mkdir()

    def add(self, rows: Rows) -> None:
        """One more batch."""
        table = pa.table(
            {
                "stream": [stream for stream, _ in rows],
                "header": pa.array([text for _, text in rows], pa.string()),
                "body": [f"{stream} {text}" for stream, text in rows],
            }
        )
        path = self.home / "input" / f"{self.count:04}.parquet"
        pq.write_table(table, path)
        # Spark takes files in the order of their times, which two that are written at once may share.
        os.utime(path, (1_700_000_000 + self.count,) * 2)
        self.count += 1

    def run(self, handle: Any) -> None:
        """Handle all batches there are."""
        source = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        query = (
            source.parquet(str(self.home / "input"))
            .writeStream.foreachBatch(handle)
            .option("checkpointLocation", str(self.home / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def forget_commit(self, batch: int) -> None:
        """As if Spark had died after the batch's effects and before it noted that the batch was done."""
        (self.home / "checkpoint" / "commits" / str(batch)).unlink()
        (self.home / "checkpoint" / "commits" / f".{batch}.crc").unlink(missing_ok=True)


class Sink:
    """Applies messages, and can be told to fail after a few."""

    def __init__(self) -> None:
        self.applied: list[tuple[str, str]] = []
        self.fail: BaseException | None = None
        self.answers: list[list[dict[str, Any]]] = []

    def __call__(self, found: pa.Table, _batch: object) -> None:
        rows = [(row["dh_stream"], row["header"]) for row in found.to_pylist()]
        if self.fail is not None:
            failure, self.fail = self.fail, None
            self.applied += [] if isinstance(failure, dh.RolledBack) else rows[:1]
            raise failure
        self.applied += rows

    def on_answers(self, batch: dh.spark.DeliveryBatch) -> None:
        answers = batch.poll.confirmations.to_pylist() + batch.poll.resend_requests.to_pylist()
        self.answers.append(sorted(answers, key=lambda one: str(one["stream"])))

    def of(self, stream: str) -> list[str]:
        return [text for of, text in self.applied if of == stream]


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


def handler(history: Where | Path, sink: Any, **options: Any) -> Any:
    where = Where.of(history)
    given = {"messages": "arrow", "start": {"a": 0, "b": 0}, "patience": 9, **where.given, **options}
    return dh.spark.delivery(where.path, sink, **given)


@pytest.mark.parametrize("decide", ["tasks", "driver"])
def test_streams_apply_in_order_across_batches_then_answer(feed: Feed, where: Where, decide: str) -> None:
    feed.add([("a", CHAIN[2]), ("b", CHAIN[0]), ("a", CHAIN[1])])
    feed.add([("b", CHAIN[1]), ("a", CHAIN[0]), ("a", CHAIN[0]), ("b", None)])
    sink = Sink()
    feed.run(handler(where, sink, on_answers=sink.on_answers, decide=decide))
    assert (sink.of("a"), sink.of("b")) == (CHAIN, CHAIN[:2])
    assert sink.answers == [
        [{"stream": "b", "confirm": 10}],
        [{"stream": "a", "confirm": 30}, {"stream": "b", "confirm": 20}],
    ]


@pytest.mark.parametrize("decide", ["tasks", "driver"])
def test_a_directory_put_in_its_place_is_opened(feed: Feed, tmp_path: Path, decide: str) -> None:
    history = tmp_path / "feed.history"
    feed.add([("a", CHAIN[0])])
    sink = Sink()
    handle = handler(history, sink, decide=decide)
    feed.run(handle)
    shutil.copytree(history, tmp_path / "restored")
    history.rename(tmp_path / "old")
    (tmp_path / "restored").rename(history)
    feed.add([("a", CHAIN[1])])
    feed.run(handle)
    assert sink.of("a") == CHAIN[:2]

    history.rename(tmp_path / "away")
    feed.add([("a", CHAIN[2])])
    with pytest.raises(StreamingQueryException, match=r"\[DH-OPEN\]"):
        feed.run(handle)
    assert not history.exists()

    (tmp_path / "away").rename(history)
    feed.run(handle)
    assert sink.of("a") == CHAIN


def test_a_batch_that_comes_again_applies_nothing_again(feed: Feed, where: Where) -> None:
    feed.add([("a", one) for one in CHAIN])
    sink = Sink()
    handle = handler(where, sink)
    feed.run(handle)
    handle.close()
    feed.forget_commit(0)
    seen: list[str | None] = []
    feed.run(handler(where, sink, on_poll=lambda batch: seen.append(batch.poll.replay)))
    assert (sink.of("a"), seen) == (CHAIN, ["finished"])


def test_messages_of_a_failed_function_wait_in_doubt(feed: Feed, where: Where) -> None:
    feed.add([("a", one) for one in CHAIN])
    sink = Sink()
    sink.fail = RuntimeError("half-way")
    with pytest.raises(StreamingQueryException, match="half-way"):
        feed.run(handler(where, sink))
    waiting: list[list[str]] = []
    feed.run(handler(where, sink, on_poll=lambda batch: waiting.append(batch.in_doubt["stream"].to_pylist())))
    assert (sink.of("a"), waiting) == (CHAIN[:1], [["a"]])
    feed.forget_commit(0)
    feed.run(handler(where, sink, applied=lambda stream, *_range: {"a": 10}[stream]))
    assert sink.of("a") == CHAIN


def test_work_that_was_rolled_back_comes_again(feed: Feed, where: Where) -> None:
    feed.add([("a", one) for one in CHAIN])
    sink = Sink()
    sink.fail = dh.RolledBack("undone")
    handle = handler(where, sink)
    with pytest.raises(StreamingQueryException, match="undone"):
        feed.run(handle)
    feed.run(handle)
    assert sink.of("a") == CHAIN


def test_interrupted_batch_is_handed_out_again_under_rerun(feed: Feed, where: Where) -> None:
    feed.add([("a", one) for one in CHAIN])
    sink = Sink()
    sink.fail = RuntimeError("half-way")
    with pytest.raises(StreamingQueryException):
        feed.run(handler(where, sink, on_replay="rerun"))
    sink.applied.clear()  # the same batch number takes the place of what there was
    feed.run(handler(where, sink, on_replay="rerun"))
    assert sink.of("a") == CHAIN


def test_dataframe_has_each_stream_ordered_in_one_partition(feed: Feed, history_path: Path) -> None:
    names = [f"s{number}" for number in range(20)]
    feed.add([(name, one) for one in reversed(CHAIN) for name in names])
    partitions: list[list[tuple[str, str]]] = []

    def apply(found: DataFrame, _batch: object) -> None:
        assert found.columns[-4:] == ["dh_stream", "dh_transaction", "dh_commit", "dh_apply_rank"]
        parts = found.rdd.glom().collect()
        partitions.extend([(row["dh_stream"], row["header"]) for row in part] for part in parts)

    feed.run(handler(history_path, apply, messages="spark", start=dict.fromkeys(names, 0)))
    of = {name: [part for part in partitions if any(row[0] == name for row in part)] for name in names}
    assert all(len(parts) == 1 for parts in of.values())
    assert all([text for one, text in of[name][0] if one == name] == CHAIN for name in names)


def test_workers_apply_streams_beside_their_own_log_received(feed: Feed, history_path: Path) -> None:
    names = [f"s{number}" for number in range(6)]
    feed.add([(name, one) for one in CHAIN[:2] for name in names])
    feed.add([(name, CHAIN[2]) for name in names])
    data = str(feed.home)

    def apply(stream: str, found: pa.Table) -> None:
        with sqlite3.connect(f"{data}/{stream}.db", isolation_level=None) as database:
            database.execute("create table if not exists applied (upto integer, body text)")
            database.execute("begin immediate")
            (upto,) = database.execute("select coalesce(max(upto), 0) from applied").fetchone()
            new = [(int(row["dh_commit"]), row["body"]) for row in found.to_pylist() if row["dh_commit"] > upto]
            database.executemany("insert into applied values (?, ?)", new)
            database.execute("commit")
        database.close()

    feed.run(handler(history_path, apply, messages="stream", start=dict.fromkeys(names, 0)))
    for name in names:
        database = sqlite3.connect(f"{data}/{name}.db")
        bodies = [body for (body,) in database.execute("select body from applied order by upto")]
        database.close()
        assert bodies == [f"{name} {text}" for text in CHAIN]


def test_spark_keeps_the_rows_of_the_last_batch_alone(spark: SparkSession, history_path: Path) -> None:
    told: list[list[str]] = []

    def answered(batch: Any) -> None:
        told.append([row["dh_decision"] for row in batch.decisions.collect()])

    # The second one waits for the first, over a batch in between.
    handle = handler(
        history_path, lambda _new, _batch: None, start={"a": 0, "b": 0}, application="app", on_answers=answered
    )
    before = stored(spark)
    batches = [[("a", CHAIN[1])], [("b", CHAIN[0])], [("b", CHAIN[1])], [("a", CHAIN[0])], [("a", CHAIN[2])]]
    for number, rows in enumerate(batches):
        handle(spark.createDataFrame([(*row, "x") for row in rows], SCHEMA), number)
        assert len(stored(spark) - before) <= 1
    handle.close()
    assert not stored(spark) - before
    with dh.open(history_path, read_only=True) as history:
        assert history.delivery_status()["log_received"].to_pylist() == [30, 20]
    assert [len(rows) for rows in told] == [1] * len(batches)


def test_invalid_arguments_are_refused(spark: SparkSession, history_path: Path) -> None:
    for wrong in ({"on_replay": "again"}, {"messages": "pandas"}, {"decide": "me"}):
        with pytest.raises(dh.ConfigError):
            handler(history_path, print, **wrong)
    handle = pickle.loads(pickle.dumps(handler(history_path, print, first_contact=True)))
    frame = spark.createDataFrame([("a", CHAIN[0], "x")], SCHEMA)
    with pytest.raises(dh.ConfigError, match="application"):
        handle(frame, 0)
