"""A batch is evaluated once: what the service is handed is what was begun, whatever its source and its tasks do."""

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

import dochistory as dh
from dochistory.spark import compat
from tests.spark.support import SCHEMA, Stream, orders, rows, states, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

IDS = [f"d{number:04d}" for number in range(600)]
Make = Callable[[int], pa.RecordBatch]


def source(spark: "SparkSession", partitions: int, make: Make, evaluations: Path) -> "DataFrame":
    """A DataFrame whose partitions are made again by each evaluation, which is noted."""
    noted = str(evaluations)

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with Path(noted).open("a") as file:
                    file.write(f"{number}\n")
                yield make(number)

    return spark.range(0, partitions, 1, partitions).mapInArrow(made, SCHEMA)


def batch_of(ids: Sequence[str], payloads: Sequence[str] | None = None) -> pa.RecordBatch:
    """Documents as a source makes them; names no module of the tests, which workers lack."""
    return pa.record_batch(
        {
            "uuid": pa.array(ids, pa.string()),
            "redelivery_count": pa.array([0] * len(ids), pa.int32()),
            "payload": pa.array(payloads or [f"payload of {one}" for one in ids], pa.string()),
        }
    )


def shuffled(ids: Sequence[str]) -> list[str]:
    return sorted(ids, key=lambda _: os.urandom(8))


def ids_of(frame: "DataFrame") -> list[str]:
    return [row.uuid for row in frame.collect()]


def handle(history: Path, service: Callable[["DataFrame", Any], object], **options: Any) -> Any:
    trigger = options.pop("trigger", orders())
    return dh.spark.exactly_once(history, trigger, service, **{"application": "batches", **options})


def known(history: Path, completed: Sequence[str], processing: Sequence[str] = ()) -> None:
    with dh.open(history, create=True) as opened:
        opened.begin(rows(completed), orders()).complete()
        opened.begin(rows(processing), orders())


def test_random_ids_are_handed_out_as_begun(spark: "SparkSession", history_path: Path, tmp_path: Path) -> None:
    frame = source(spark, 3, lambda _: batch_of([uuid.uuid4().hex for _ in range(50)]), tmp_path / "evaluations")
    seen: list[list[str]] = []

    def service(new: "DataFrame", _: Any) -> None:
        seen.extend(ids_of(new) for _ in range(2))
        seen.append(ids_of(new.repartition(5).sort("uuid")))
        assert new.count() == 150
        assert states(history_path, "processing") == set(seen[0])

    handle(history_path, service)(frame, 0)

    assert seen[0] == seen[1]
    assert sorted(seen[0]) == seen[2]
    assert states(history_path, "completed") == set(seen[0])
    assert sorted((tmp_path / "evaluations").read_text().split()) == ["0", "1", "2"]


@pytest.mark.parametrize("spread", ["within partitions", "among partitions"])
def test_of_shuffled_copies_the_first_that_arrived_is_handed_out(
    spark: "SparkSession", history_path: Path, tmp_path: Path, spread: str
) -> None:
    def make(number: int) -> pa.RecordBatch:
        ids = shuffled(IDS[:60] * 2)
        return batch_of(ids, [f"{number}/{place}/{uuid.uuid4().hex}" for place in range(len(ids))])

    frame = source(spark, 3, make, tmp_path / "evaluations")
    if spread == "among partitions":
        frame = frame.withColumn("luck", F.rand()).repartitionByRange(4, "luck").drop("luck")
    known(history_path, IDS[:10])
    handed: list[tuple[str, str]] = []
    arrived: list[tuple[str, str]] = []

    def service(new: "DataFrame", batch: Any) -> None:
        handed.extend((row.uuid, row.payload) for row in new.collect())
        documents = batch.documents
        arrived.extend(zip(documents["uuid"].to_pylist(), documents["payload"].to_pylist(), strict=True))

    handle(history_path, service, trigger=orders(processing_mode="serial"))(frame, 0)

    first: dict[str, str] = {}
    for one, payload in arrived:
        first.setdefault(one, payload)
    assert len(arrived) == 360
    assert handed == [pair for pair in first.items() if pair[0] not in IDS[:10]]


@pytest.mark.parametrize("old", [0, 1, 100, 101, 299, 301, 599, 600])
def test_exactly_what_is_new_is_handed_out_in_order(spark: "SparkSession", history_path: Path, old: int) -> None:
    spread = IDS[::2] + IDS[1::2]
    known(history_path, spread[:old])
    frame = spark.createDataFrame(rows(IDS).to_pandas()).coalesce(2)
    handed: list[list[tuple[str, str]]] = []
    handle(history_path, lambda new, _: handed.append([(row.uuid, row.payload) for row in new.collect()]))(frame, 0)

    new = sorted(set(IDS) - set(spread[:old]))
    assert handed == ([[(one, f"payload of {one}") for one in new]] if new else [])
    assert states(history_path, "completed") == set(IDS)


def test_handed_frame_has_the_columns_that_came(spark: "SparkSession", history_path: Path) -> None:
    known(history_path, ["a"])
    any_schema = "`order.id` string, `odd``name` int, tags array<string>, `a b` struct<c: int>"
    frame = spark.createDataFrame([("a", 1, ["x"], (1,)), ("b", 2, ["y"], (2,))], any_schema)
    seen: list[Any] = []

    def service(new: "DataFrame", batch: Any) -> None:
        seen.append((new.schema, [row["odd`name"] for row in new.collect()]))
        seen.append((batch.documents["odd`name"].to_pylist(), batch.claim.new["odd`name"].to_pylist()))

    handle(history_path, service, columns={"uuid": "order.id"})(frame, 0)

    assert seen == [(frame.schema, [2]), ([1, 2], [2])]


def test_column_names_may_differ_in_case_alone(spark: "SparkSession", history_path: Path) -> None:
    frame = spark.createDataFrame([("a", "x"), ("b", "y")], "uuid string, UUID string")
    seen: list[tuple[list[str], int]] = []
    handle(history_path, lambda new, _: seen.append((new.columns, new.count())))(frame, 0)

    assert seen == [(["uuid", "UUID"], 2)]
    assert states(history_path, "completed") == {"a", "b"}


def test_only_the_triggers_columns_come_to_the_driver(
    spark: "SparkSession", history_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[list[str]] = []
    collect = compat.collect_arrow

    def noted(frame: "DataFrame") -> pa.Table:
        fetched.append(frame.columns)
        return collect(frame)

    monkeypatch.setattr(compat, "collect_arrow", noted)
    keep = dh.spark.keep_in_doubt(history_path, orders())
    frame = spark.createDataFrame(rows(IDS).to_pandas())
    handle(history_path, lambda new, _: new.count(), on_verdicts=keep)(frame, 0)

    assert [sorted(set(names) & set(SCHEMA.replace(",", "").split())) for names in fetched] == [
        ["redelivery_count", "uuid"]
    ]


def test_resolver_sees_whole_rows(spark: "SparkSession", history_path: Path) -> None:
    known(history_path, [], ["doubtful"])
    asked: list[list[str]] = []

    def resolver(batch: pa.RecordBatch) -> list[str]:
        asked.append(batch.column("payload").to_pylist())
        return ["NEW"] * batch.num_rows

    handed: list[str] = []
    frame = spark.createDataFrame(rows(["a", "doubtful"]).to_pandas())
    handle(history_path, lambda new, _: handed.extend(ids_of(new)), trigger=orders(resolver=resolver))(frame, 0)

    assert (asked, handed) == ([["payload of doubtful"]], ["a", "doubtful"])


def test_documents_in_doubt_are_kept_whole_and_not_handed_out(spark: "SparkSession", history_path: Path) -> None:
    known(history_path, ["done"], ["doubtful"])
    handed: list[str] = []
    frame = spark.createDataFrame(rows(["a", "doubtful", "done", "b"]).to_pandas())
    keep = dh.spark.keep_in_doubt(history_path, orders())
    handle(history_path, lambda new, _: handed.extend(ids_of(new)), on_verdicts=keep)(frame, 0)

    assert handed == ["a", "b"]
    with dh.open(history_path) as history:
        (one,) = history.audit.list()["number"].to_pylist()
        assert history.audit.show(one)["document"]["payload"] == "payload of doubtful"


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_source_with_retried_tasks_hands_out_what_was_begun(
    spark: "SparkSession", history_path: Path, tmp_path: Path, when: str
) -> None:
    def make(number: int) -> pa.RecordBatch:
        context = TaskContext.get()
        if when == "before" and number and context is not None and context.attemptNumber() < 2:
            raise ValueError("the task broke")
        return batch_of([uuid.uuid4().hex for _ in range(50)])

    def break_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        if when == "after" and context is not None and context.attemptNumber() == 0:
            os._exit(9)

    frame = source(spark, 2, make, tmp_path / "evaluations").mapInArrow(break_once, SCHEMA)
    seen: list[list[str]] = []
    handle(history_path, lambda new, _: seen.extend(ids_of(new) for _ in range(2)))(frame, 0)

    assert seen[0] == seen[1]
    assert len(seen[0]) == 100
    assert states(history_path, "completed") == set(seen[0])
    assert len((tmp_path / "evaluations").read_text().split()) > 2


def test_service_with_retried_tasks_sees_the_same_rows(
    spark: "SparkSession", history_path: Path, tmp_path: Path
) -> None:
    frame = source(spark, 2, lambda _: batch_of([uuid.uuid4().hex for _ in range(50)]), tmp_path / "evaluations")
    runs = str(tmp_path / "runs")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        attempt = -1 if context is None else context.attemptNumber()
        for batch in batches:
            with Path(runs).open("a") as file:
                file.writelines(f"{attempt} {one}\n" for one in batch.column(0).to_pylist())
            yield batch
        if attempt == 0:
            os._exit(9)

    handle(history_path, lambda new, _: new.mapInArrow(run, SCHEMA).count())(frame, 0)

    lines = [line.split() for line in Path(runs).read_text().splitlines()]
    seen = [{one for attempt, one in lines if attempt == number} for number in "01"]
    assert seen[0] == seen[1] == states(history_path, "completed")


def test_lost_rows_fail_the_batch_and_are_not_evaluated_again(
    spark: "SparkSession", history_path: Path, tmp_path: Path
) -> None:
    frame = source(spark, 2, lambda _: batch_of([uuid.uuid4().hex for _ in range(5)]), tmp_path / "evaluations")
    handed: list[list[str]] = []
    before = stored(spark)

    def lose(_: Any) -> None:
        any_spark: Any = spark
        held = any_spark.sparkContext._jsc.getPersistentRDDs()  # noqa: SLF001
        for number in stored(spark) - before:
            held[number].unpersist(True)

    with pytest.raises(Exception, match=r"(?i)checkpoint block"):
        handle(history_path, lambda new, _: handed.append(ids_of(new)), on_verdicts=lose)(frame, 0)

    assert handed == []
    assert len(states(history_path, "processing")) == 10
    assert sorted((tmp_path / "evaluations").read_text().split()) == ["0", "1"]


@pytest.mark.parametrize("fails", [False, True])
def test_stored_rows_are_freed_when_the_batch_ends(spark: "SparkSession", history_path: Path, fails: bool) -> None:
    before = stored(spark)
    batches: list[Any] = []

    def service(new: "DataFrame", batch: Any) -> None:
        assert new.count() == 600
        assert len(stored(spark) - before) == 1
        batches.append(batch)
        if fails:
            raise ValueError("the service broke")

    frame = spark.createDataFrame(rows(IDS).to_pandas())
    handler = handle(history_path, service)
    if fails:
        with pytest.raises(ValueError, match="the service broke"):
            handler(frame, 0)
    else:
        handler(frame, 0)

    assert stored(spark) <= before
    with pytest.raises(dh.StateError, match=r"DH-STATE.*this batch has ended"):
        _ = batches[0].documents
    assert batches[0].counts["status"] == {"NEW": 600}


def test_stream_counts_rows_once_though_read_often(spark: "SparkSession", history_path: Path, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.add(IDS[:300])
    stream.add(IDS[200:500])
    handed: list[str] = []

    def service(new: "DataFrame", _: Any) -> None:
        assert new.count() == new.count()
        handed.extend(ids_of(new))

    query = stream.start(dh.spark.exactly_once(history_path, orders(), service))
    query.awaitTermination()

    assert handed == IDS[:500]
    assert [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]] == [300, 300]


def test_claim_of_stored_rows_works_as_any_other(spark: "SparkSession", history_path: Path) -> None:
    frame = spark.createDataFrame(rows(["a", "b", "c"]).to_pandas())

    def service(_: "DataFrame", batch: Any) -> None:
        assert batch.claim.rows.to_pylist() == [0, 1, 2]
        batch.claim.complete(rows=[1])
        with batch.claim as claim:
            assert claim.new["payload"].to_pylist() == ["payload of a", "payload of b", "payload of c"]
            raise dh.RolledBack("the rest was undone")

    with pytest.raises(dh.RolledBack, match="the rest was undone"):
        handle(history_path, service)(frame, 0)
    assert states(history_path, "completed") == {"b"}
    assert states(history_path, "processing") == set()


def test_failed_service_leaves_all_its_documents_in_doubt(
    spark: "SparkSession", history_path: Path, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path)
    stream.add(["a", "b"])

    def broken(new: "DataFrame", _: Any) -> None:
        assert new.count() == 2
        raise ValueError("the service broke")

    with pytest.raises(StreamingQueryException, match="the service broke"):
        stream.run(dh.spark.exactly_once(history_path, orders(), broken))
    assert states(history_path, "processing") == {"a", "b"}

    handed: list[str] = []
    stream.run(
        dh.spark.exactly_once(history_path, orders(), lambda new, _: handed.extend(ids_of(new)), on_replay="rerun")
    )
    assert handed == ["a", "b"]
