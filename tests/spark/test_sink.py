"""`write` and `writeStream` of the format `dochistory`: documents are recorded once, whatever Spark repeats."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dochistory as dh
from dochistory.spark import compat
from tests.spark.support import SCHEMA, TIME_TO_LIVE, orders, rows, swept, wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]
pytest.importorskip("pyspark.sql.datasource", reason="data sources of Python came with Spark 4.0: test_older.py")


def entries(path: Path) -> dict[str, str]:
    with dh.open(path, read_only=True) as history:
        return {row["key"]: row["status"] for row in pa.table(history.entries("orders")).to_pylist()}


def write(df: "DataFrame", path: Path, mode: str = "append", **options: Any) -> None:
    writer = df.write.format("dochistory").mode(mode).option("path", str(path)).option("trigger", "orders")
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.save()


def a_frame(spark: "SparkSession", ids: list[str]) -> "DataFrame":
    return spark.createDataFrame(rows(ids).to_pandas(), SCHEMA)


def test_documents_of_a_frame_are_recorded_as_completed(spark: "SparkSession", history_path: Path) -> None:
    ids = [f"id-{n}" for n in range(100)]
    write(a_frame(spark, ids).repartition(4), history_path)

    assert entries(history_path) == dict.fromkeys(ids, "completed")
    with dh.open(history_path, read_only=True) as history:
        assert history.classify(rows(["id-7", "other"]), orders())["status"].to_pylist() == ["DUPLICATE", "NEW"]


def test_they_may_be_recorded_as_processing_or_say_so_themselves(spark: "SparkSession", history_path: Path) -> None:
    write(a_frame(spark, ["a"]), history_path, record="processing")
    began = datetime(2026, 1, 2, tzinfo=UTC)
    own = spark.createDataFrame(
        [("b", "processing", began), ("c", None, None)], "order_id string, state string, at timestamp"
    )
    write(own, history_path, **{"columns.uuid": "order_id", "columns.status": "state", "columns.started_at": "at"})

    assert entries(history_path) == {"a": "processing", "b": "processing", "c": "completed"}
    with dh.open(history_path, read_only=True) as history:
        times = {row["key"]: row["started_at"] for row in pa.table(history.entries("orders")).to_pylist()}
    assert times["b"] == began


def test_a_batch_with_a_number_is_recorded_once(spark: "SparkSession", history_path: Path) -> None:
    for _ in range(2):
        write(a_frame(spark, ["a", "b"]), history_path, application="backfill", batch=3)
    with pytest.raises(Exception, match="DH-TRANSACTION"):
        write(a_frame(spark, ["c"]), history_path, application="backfill", batch=2)
    write(a_frame(spark, ["c"]), history_path, application="backfill", batch=4)

    assert entries(history_path) == dict.fromkeys(["a", "b", "c"], "completed")


def test_other_rows_under_a_known_number_are_refused_or_recorded(spark: "SparkSession", history_path: Path) -> None:
    batch: dict[str, Any] = {"application": "backfill", "batch": 3}
    write(a_frame(spark, ["a", "b"]), history_path, **batch)
    write(a_frame(spark, ["b", "a"]).repartition(3), history_path, **batch)
    with pytest.raises(Exception, match=r"\[DH-TRANSACTION\] batch 3 of application \"backfill\" .* other rows"):
        write(a_frame(spark, ["b", "c"]), history_path, **batch)
    assert entries(history_path) == dict.fromkeys(["a", "b"], "completed")
    write(a_frame(spark, ["b", "c"]), history_path, on_other_rows="look_up", **batch)
    assert entries(history_path) == dict.fromkeys(["a", "b", "c"], "completed")
    with pytest.raises(Exception, match="allowed is 'error' or 'look_up'"):
        write(a_frame(spark, ["a"]), history_path, on_other_rows="skip")


def test_a_task_that_fails_and_is_tried_again_records_once(spark: "SparkSession", history_path: Path) -> None:
    def fail_at_first(batches: Any) -> Any:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0 and context.partitionId() == 1:
            raise RuntimeError("the first attempt")

    ids = [f"id-{n}" for n in range(40)]
    failing = a_frame(spark, ids).repartition(2).mapInArrow(fail_at_first, SCHEMA)
    write(failing, history_path)
    assert entries(history_path) == dict.fromkeys(ids, "completed")


def test_a_write_that_fails_records_nothing(spark: "SparkSession", history_path: Path) -> None:
    def fail(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1:
            raise RuntimeError("always")

    with dh.open(history_path, create=True):
        pass
    with pytest.raises(Exception, match="always"):
        write(a_frame(spark, [f"id-{n}" for n in range(40)]).repartition(2).mapInArrow(fail, SCHEMA), history_path)
    assert entries(history_path) == {}


def test_settings_that_differ_are_refused_before_tasks_run(
    spark: "SparkSession", tmp_path: Path, history_path: Path
) -> None:
    write(a_frame(spark, ["a"]), history_path)
    ran = tmp_path / "ran"

    def mark(batches: Any) -> Any:
        ran.touch()
        yield from batches

    with pytest.raises(Exception, match=r"\[DH-CONFIG\].* has a history_time_to_live of"):
        write(a_frame(spark, ["b"]).mapInArrow(mark, SCHEMA), history_path, history_time_to_live="9 days")
    assert not ran.exists()
    assert entries(history_path) == {"a": "completed"}


def test_a_row_without_an_id_stops_the_write(spark: "SparkSession", history_path: Path) -> None:
    with pytest.raises(Exception, match="DH-SCHEMA"):
        write(spark.createDataFrame([("a",), (None,)], "uuid string"), history_path)
    with dh.open(history_path, create=True) as history:
        assert pa.table(history.entries("orders")).num_rows == 0


@pytest.mark.parametrize(
    ("mode", "options", "text"),
    [
        ("overwrite", {}, "a history is never overwritten"),
        ("append", {"batch": 3}, "application and batch go together"),
        ("append", {"record": "new"}, "record is 'new'; allowed is 'processing' or 'completed'"),
        ("append", {"use_history": "yes"}, 'use_history is "yes"; it must be true or false'),
        ("append", {"use_history": "false"}, "uses no history"),
        ("append", {"max_delivery_count": "-4"}, "max_delivery_count"),
        ("append", {"colour": "red"}, "has no option colour for writing"),
        ("append", {"columns.uuid": "nowhere"}, "there is no column nowhere"),
        ("append", {"columns.name": "uuid"}, "columns.name: there is no such column"),
    ],
)
def test_invalid_options_are_refused(
    spark: "SparkSession", history_path: Path, mode: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(Exception, match=text):
        write(a_frame(spark, ["a"]), history_path, mode, **options)
    assert not (history_path / "triggers").exists()


def test_a_file_of_settings_serves_as_well(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "dochistory.toml").write_text(
        'history = "all.history"\n[triggers.orders]\ndetect_duplicates = true\nuse_history = true\n'
    )
    writer = a_frame(spark, ["a"]).write.format("dochistory").mode("append")
    writer.option("settings", str(tmp_path / "dochistory.toml")).option("trigger", "orders").save()
    assert entries(tmp_path / "all.history") == {"a": "completed"}


class Sink:
    """A stream into a history, a file a batch."""

    def __init__(self, spark: "SparkSession", home: Path, history: Path) -> None:
        self.spark, self.home, self.history = spark, home, history
        (home / "input").mkdir()

    def add(self, ids: list[str]) -> None:
        number = len(list((self.home / "input").glob("*.parquet")))
        file = self.home / "input" / f"{number:04d}.parquet"
        pq.write_table(rows(ids), file)
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))

    def run(self, checkpoint: str = "checkpoint", **options: str) -> None:
        stream = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.home / "input"))
        writer = stream.writeStream.format("dochistory").option("path", str(self.history)).option("trigger", "orders")
        for name, value in {"history_time_to_live": TIME_TO_LIVE, **options}.items():
            writer = writer.option(name, value)
        query = writer.option("checkpointLocation", str(self.home / checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    def forget_commit(self, batch: int) -> None:
        """As if Spark had died after the sink's commit and before its own."""
        commits = self.home / "checkpoint" / "commits"
        (commits / str(batch)).unlink()
        (commits / f".{batch}.crc").unlink(missing_ok=True)


@pytest.fixture
def sink(spark: "SparkSession", tmp_path: Path, history_path: Path) -> Sink:
    if not compat.has_stream_sink():
        made = Sink(spark, tmp_path, history_path)
        made.add(["a"])
        with pytest.raises(Exception, match=r"\[DH-SPARK\] writeStream.format.* needs Spark 4.1"):
            made.run()
        pytest.skip("a clear error is all that there is to see on this Spark")
    return Sink(spark, tmp_path, history_path)


@pytest.mark.slow
def test_a_stream_is_recorded_under_its_own_batches(sink: Sink) -> None:
    sink.add(["a", "b"])
    sink.add(["b", "c"])
    sink.run()

    assert entries(sink.history) == dict.fromkeys(["a", "b", "c"], "completed")
    with dh.open(sink.history, read_only=True) as history:
        ((_, (batch, has_ended)),) = history.stats("orders")["transactions"].items()
    assert (batch, has_ended) == (1, True)


def test_a_replayed_batch_is_recorded_once(sink: Sink) -> None:
    sink.add(["a", "b"])
    sink.add(["c"])
    sink.run(record="processing")
    with dh.open(sink.history) as history:
        history.complete(["c"], orders())
    before = entries(sink.history)
    sink.forget_commit(1)
    sink.add(["d"])
    sink.run(record="processing")

    assert before == {"a": "processing", "b": "processing", "c": "completed"}
    # Recorded again, `c` would have an open claim beside the completed one, and be listed twice.
    assert entries(sink.history) == {**before, "d": "processing"}
    with dh.open(sink.history, read_only=True) as history:
        assert pa.table(history.entries("orders")).num_rows == 4


def test_a_history_that_is_away_is_not_made_again(sink: Sink, tmp_path: Path) -> None:
    sink.add(["a"])
    sink.run()
    away = sink.history.rename(tmp_path / "away")
    sink.add(["b"])
    with pytest.raises(Exception, match=r"\[DH-OPEN\]"):
        sink.run()
    assert not sink.history.exists()

    away.rename(sink.history)
    sink.run()
    assert entries(sink.history) == dict.fromkeys(["a", "b"], "completed")


def test_a_new_checkpoint_under_an_old_name_is_refused(sink: Sink) -> None:
    for ids in (["a"], ["b"], ["c"]):
        sink.add(ids)
    sink.run(application="loader")
    with pytest.raises(Exception, match="DH-TRANSACTION"):
        sink.run("another checkpoint", application="loader")
    assert entries(sink.history) == dict.fromkeys(["a", "b", "c"], "completed")


def test_new_checkpoint_with_old_number_other_rows_is_refused(sink: Sink) -> None:
    sink.add(["a"])
    sink.run(application="loader")
    (sink.home / "input" / "0000.parquet").unlink()
    sink.add(["b", "c"])
    with pytest.raises(Exception, match=r"DH-TRANSACTION.*new checkpoint under an old application name"):
        sink.run("another", application="loader")
    assert entries(sink.history) == {"a": "completed"}
    sink.run("another", application="loader", on_other_rows="look_up")
    assert entries(sink.history) == dict.fromkeys(["a", "b", "c"], "completed")


@pytest.mark.slow
def test_failed_commit_aborted_with_same_messages_stays_commit(sink: Sink, tmp_path: Path) -> None:
    sink.add(["a", "b"])
    sink.add(["c"])
    marker = tmp_path / "fail-once"
    marker.touch()
    register_failing(sink.spark, marker)
    stream = sink.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "input"))

    def start() -> None:
        writer = stream.writeStream.format("dochistory_failing").option("path", str(sink.history))
        writer = writer.option("trigger", "orders").option("record", "processing")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="the commit's answer was lost"):
        start()
    after_abort = entries(sink.history)
    start()

    assert not marker.exists()
    assert after_abort == {"a": "processing", "b": "processing"}
    assert entries(sink.history) == dict.fromkeys(["a", "b", "c"], "processing")
    with dh.open(sink.history, read_only=True) as history:
        assert pa.table(history.entries("orders")).num_rows == 3


@pytest.mark.slow
def test_batch_of_a_failed_task_is_aborted_and_replayed_whole(sink: Sink) -> None:
    fails = sink.home / "fails"
    fails.touch()
    sink.add(["a", "b"])
    stream = sink.spark.readStream.schema(SCHEMA).parquet(str(sink.home / "input")).repartition(2)
    path = str(fails)

    def broken(batches: Any) -> Any:
        """Hands all of its rows on; one of the two tasks fails then, until the file is away."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1 and os.path.exists(path):  # noqa: PTH110
            raise ValueError("the task broke")

    rows_of = stream.mapInArrow(broken, SCHEMA)

    def start() -> None:
        writer = rows_of.writeStream.format("dochistory").option("path", str(sink.history)).option("trigger", "orders")
        writer = writer.option("checkpointLocation", str(sink.home / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="the task broke"):
        start()
    assert entries(sink.history) == {}
    fails.unlink()
    start()

    assert entries(sink.history) == {"a": "completed", "b": "completed"}
    with dh.open(sink.history, read_only=True) as history:
        ((_, (batch, has_ended)),) = history.stats("orders")["transactions"].items()
    assert (batch, has_ended) == (0, True)
    # Spark does not wait for the other task: if that one staged all the same, its reservation is all that keeps it.
    wait_until(lambda: swept(sink.history))


def register_failing(spark: "SparkSession", marker: Path) -> None:
    """The same data source, whose first commit is done and then raises."""
    from pyspark.sql.datasource import DataSource

    path = str(marker)

    class Failing(DataSource):
        @classmethod
        def name(cls) -> str:
            return "dochistory_failing"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: ARG002, N802
            from dochistory.spark import sink

            made = sink.stream_writer(self.options, schema)
            kind = type(made)

            # It travels by value, without what this file imports: so nothing here is annotated.
            class Unlucky(kind):  # type: ignore[misc,valid-type]
                def commit(self, messages, batch):  # type: ignore[no-untyped-def]
                    kind.commit(self, messages, batch)
                    if os.path.exists(path):  # noqa: PTH110
                        os.unlink(path)  # noqa: PTH108
                        raise RuntimeError("the commit's answer was lost")

            made.__class__ = Unlucky
            return made

    spark.dataSource.register(Failing)
