"""A batch number that comes again with other rows, through every entrance of Spark: nothing is lost in silence."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import dochistory as dh
from tests.delivery.support import header
from tests.mapper.support import mapped
from tests.spark.support import SCHEMA, Service, Stream, orders, rows, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

REFUSED = pytest.raises(Exception, match=r"\[DH-TRANSACTION\] batch 0 of application \"nightly\" .* other rows")
WHO = pytest.mark.parametrize("decide_on", ["driver", "executors"])


def handler(path: Path, service: Any, decide_on: Any = "driver", **options: Any) -> Any:
    return dh.spark.exactly_once(
        path, orders(), service, application="nightly", documents="arrow", decide_on=decide_on, **options
    )


def frame(spark: "SparkSession", ids: list[str], partitions: int = 2) -> "DataFrame":
    return spark.createDataFrame(rows(ids).to_pandas(), SCHEMA).repartition(partitions)


@pytest.mark.parametrize("decide_on", ["driver", pytest.param("executors", marks=pytest.mark.slow)])
def test_a_new_checkpoint_under_an_old_application_is_refused(
    spark: "SparkSession", tmp_path: Path, history_path: Path, decide_on: str
) -> None:
    service = Service()
    for night, ids in (("first", ["a", "b"]), ("second", ["c", "d"])):
        stream = Stream(spark, tmp_path / night)
        stream.add(ids)
        if night == "first":
            stream.run(handler(history_path, service, decide_on))
            continue
        with pytest.raises(StreamingQueryException, match="DH-TRANSACTION") as refused:
            stream.run(handler(history_path, service, decide_on))
        assert "a new checkpoint under an old application name" in str(refused.value)
        assert (sorted(map(str, service.runs)), states(history_path, None)) == (["a", "b"], {"a", "b"})
        stream.run(handler(history_path, service, decide_on, on_other_rows="look_up"))
    assert sorted(map(str, service.runs)) == ["a", "b", "c", "d"]
    assert states(history_path, "completed") == {"a", "b", "c", "d"}


@pytest.mark.parametrize("decide_on", ["driver", pytest.param("executors", marks=pytest.mark.slow)])
def test_filter_widened_between_commit_and_restart_is_refused(
    spark: "SparkSession", tmp_path: Path, history_path: Path, decide_on: str
) -> None:
    stream, service = Stream(spark, tmp_path), Service()
    stream.add(["a", "b", "c"])

    def filtered(condition: str, **options: Any) -> "Callable[[DataFrame, int], None]":
        handle = handler(history_path, service, decide_on, **options)
        return lambda batch, number: handle(batch.where(condition), number)

    stream.run(filtered("uuid != 'c'"))
    stream.forget_commit(0)
    with pytest.raises(StreamingQueryException, match="a filter or source that was changed"):
        stream.run(filtered("true"))
    assert sorted(map(str, service.runs)) == ["a", "b"]
    stream.run(filtered("true", on_other_rows="look_up"))
    assert sorted(map(str, service.runs)) == ["a", "b", "c"]


@WHO
def test_second_query_sharing_an_application_is_refused(
    spark: "SparkSession", tmp_path: Path, history_path: Path, decide_on: str
) -> None:
    service = Service()
    one, other = Stream(spark, tmp_path / "one"), Stream(spark, tmp_path / "other")
    one.add(["a", "b"])
    other.add(["b", "c"])
    one.run(handler(history_path, service, decide_on))
    with pytest.raises(StreamingQueryException, match="two queries that share one"):
        other.run(handler(history_path, service, decide_on))
    assert sorted(map(str, service.runs)) == ["a", "b"]


def test_a_checkpoint_that_was_restored_one_batch_old_is_refused(
    spark: "SparkSession", tmp_path: Path, history_path: Path
) -> None:
    stream, service = Stream(spark, tmp_path), Service()
    stream.add(["a"])
    stream.run(handler(history_path, service))
    shutil.copytree(stream.checkpoint, tmp_path / "backup")
    stream.add(["b"])
    stream.run(handler(history_path, service))
    shutil.rmtree(stream.checkpoint)
    shutil.copytree(tmp_path / "backup", stream.checkpoint)
    # What was read before the restore is read together with what came since.
    shutil.copy(tmp_path / "input" / "0001.parquet", tmp_path / "input" / "kept.parquet")
    (tmp_path / "input" / "0001.parquet").unlink()
    stream.add(["c"])
    (tmp_path / "input" / "kept.parquet").unlink()
    with pytest.raises(StreamingQueryException, match="restored from an older copy"):
        stream.run(handler(history_path, service))
    assert service.runs == ["a", "b"]


@WHO
def test_replay_divided_differently_is_the_same_batch(
    spark: "SparkSession", history_path: Path, decide_on: str
) -> None:
    ids: list[Any] = ["a", None, "x" * 97, "7d444840-9dc0-4f5b-8b5c-5c5b7a2b1c01", "b", "b"]
    service = Service()
    handler(history_path, service, decide_on)(frame(spark, ids, 3), 0)
    assert sorted(map(str, service.runs)) == sorted(["a", ids[3], "b"])
    seen: list[dict[str, int]] = []
    for who, parts in (("driver", 1), ("executors", 4)):
        again = handler(history_path, service, who, on_verdicts=lambda batch: seen.append(batch.counts["rule"]))
        again(frame(spark, ids[::-1], parts), 0)
    assert seen == [{"R3": 1, "R4": 1, "R9": 4}] * 2
    assert len(service.runs) == 3


def test_a_claim_of_other_rows_is_refused_or_looked_up(spark: "SparkSession", history_path: Path) -> None:
    transaction = ("nightly", 0)
    with dh.spark.claim(frame(spark, ["a", "b"]), history_path, orders(), transaction=transaction) as claim:
        claim.complete()
    with REFUSED:
        dh.spark.claim(frame(spark, ["b", "c"]), history_path, orders(), transaction=transaction)
    assert states(history_path, None) == {"a", "b"}
    with dh.spark.claim(
        frame(spark, ["b", "c"]), history_path, orders(), transaction=transaction, on_other_rows="look_up"
    ) as claim:
        assert (claim.replay, claim.counts["rule"]) == ("first", {"R8": 1, "R9": 1})
        assert [row.uuid for row in claim.new.collect()] == ["c"]
        claim.complete()
    with dh.spark.claim(frame(spark, ["c", "b"]), history_path, orders(), transaction=transaction) as claim:
        assert (claim.replay, claim.counts["rule"]) == ("finished", {"R9": 2})


def test_other_messages_are_not_taken_for_sent(spark: "SparkSession", history_path: Path) -> None:
    sent: list[str] = []

    def service(new: pa.Table, _batch: object) -> None:
        sent.extend(new["uuid"].to_pylist())

    def send(ids: list[str], **options: Any) -> None:
        made = dh.spark.send_once(
            history_path, "jms", service, application="nightly", messages="arrow", columns={"id": "uuid"}, **options
        )
        made(frame(spark, ids), 0)

    send(["a", "b"])
    send(["b", "a"])
    with REFUSED:
        send(["b", "c"])
    assert sorted(sent) == ["a", "b"]
    send(["b", "c"], on_other_rows="look_up")
    assert sorted(sent) == ["a", "b", "c"]
    with dh.open(history_path) as history:
        assert mapped(history.mapper("jms"), ["a", "b", "c"]) == [None] * 3


@pytest.mark.parametrize("decide", ["tasks", "driver"])
def test_other_messages_of_a_stream_are_not_taken_for_a_replay(
    spark: "SparkSession", history_path: Path, decide: Any
) -> None:
    applied: list[str] = []
    chain = [header(0, 10), header(10, 20), header(20, 30)]

    def poll(headers: list[str], **options: Any) -> None:
        made = dh.spark.delivery(
            history_path,
            lambda found, _: applied.extend(found["header"].to_pylist()),
            application="nightly",
            messages="arrow",
            decide=decide,
            start={"s": 0},
            **options,
        )
        made(spark.createDataFrame([("s", one) for one in headers], "stream string, header string"), 0)
        made.close()

    poll(chain[:2])
    poll(chain[:2])
    with REFUSED:
        poll(chain)
    assert applied == chain[:2]
    poll(chain, on_other_rows="look_up")
    assert applied == chain


def test_other_rows_are_not_taken_for_loaded(spark: "SparkSession", history_path: Path) -> None:
    def load(*ids: str, **options: Any) -> int:
        return dh.spark.load(frame(spark, [*ids]), history_path, orders(), application="nightly", **options)

    assert (load("a", "b"), load("b", "a")) == (2, 0)
    with REFUSED:
        load("b", "c")
    assert states(history_path, None) == {"a", "b"}
    assert load("b", "c", on_other_rows="look_up") == 2
    assert states(history_path, None) == {"a", "b", "c"}
    with pytest.raises(dh.ConfigError, match="on_other_rows"):
        load("a", on_other_rows="skip")


def test_a_load_of_fewer_files_than_before_is_refused(
    spark: "SparkSession", tmp_path: Path, history_path: Path
) -> None:
    import pyarrow.parquet as pq

    home = tmp_path / "seen"
    home.mkdir()
    for file in range(2):
        pq.write_table(pa.table({"uuid": [f"id-{file}"]}), home / f"{file}.parquet")
    options: dict[str, Any] = {"application": "nightly", "files_a_step": 1, "spark": spark}
    assert dh.spark.load(home, history_path, orders(), **options) == 2
    (home / "1.parquet").unlink()
    with pytest.raises(dh.TransactionError, match=r"has loaded 2 steps before, and this load has 1"):
        dh.spark.load(home, history_path, orders(), **options)
