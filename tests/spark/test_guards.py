"""The audit log and suspension in a stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dochistory as dh
from tests.spark.support import Service, Stream, orders, rows
from tests.spark.where import Where

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCHISTORY_STATE", str(tmp_path / "state"))


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path / "stream")


@pytest.fixture
def service() -> Service:
    return Service()


def begin(place: Where | Path, *ids: str) -> None:
    with Where.of(place).open(create=True) as history:
        history.begin(rows([*ids]), orders())


def kept(where: Where) -> list[tuple[Any, Any]]:
    with where.open() as history:
        return [(one["key"], one["batch"]) for one in history.audit.list().to_pylist()]


def test_documents_in_doubt_of_a_replayed_batch_are_kept_once(stream: Stream, where: Where, service: Service) -> None:
    from pyspark.errors import StreamingQueryException

    begin(where, "doubtful")
    stream.add(["a", "doubtful"])

    def broken(_: pa.Table, __: Any) -> None:
        raise RuntimeError("the service broke")

    keep = dh.spark.keep_in_doubt(where.path, orders(), **where.given)
    options: dict[str, Any] = {"documents": "arrow", "on_verdicts": keep, **where.given}
    for _ in range(2):
        with pytest.raises(StreamingQueryException):
            stream.run(dh.spark.exactly_once(where.path, orders(), broken, on_replay="rerun", **options))
    stream.run(dh.spark.exactly_once(where.path, orders(), service, **options))
    assert sorted(kept(where)) == [("a", 0), ("doubtful", 0)]
    with where.open() as history:
        doubtful = next(one["number"] for one in history.audit.list().to_pylist() if one["key"] == "doubtful")
        assert history.audit.show(doubtful)["document"]["payload"] == "payload of doubtful"
        with history.audit.resubmit(orders(), [doubtful]) as again:
            assert again.documents["uuid"].to_pylist() == ["doubtful"]


def test_classified_stream_keeps_its_documents_in_doubt(stream: Stream, where: Where) -> None:
    begin(where, "doubtful")
    stream.add(["a", "doubtful"])
    sink = dh.spark.audit_sink(where.path, orders(), prefix="dh_", **where.given)

    def judge(frame: Any, batch_id: int) -> None:
        sink(dh.spark.classify(frame, where.path, orders(), prefix="dh_", **where.given), batch_id)

    stream.run(judge)
    assert kept(where) == [("doubtful", 0)]


def test_a_frame_without_verdicts_or_a_name_is_refused(spark: SparkSession, history_path: Path) -> None:
    begin(history_path, "a")
    frame = spark.createDataFrame(rows(["a"]).to_pandas())
    with pytest.raises(dh.ConfigError, match="needs application="):
        dh.spark.audit_sink(history_path, orders())(frame, 0)
    with pytest.raises(dh.SchemaError, match="no column status"):
        dh.spark.audit_sink(history_path, orders(), application="app")(frame, 0)


class Down:
    """A resolver that is down so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __call__(self, batch: pa.RecordBatch) -> list[str]:
        self.times -= 1
        if self.times >= 0:
            raise dh.TransientError("the shop is down")
        return ["NEW"] * batch.num_rows


def test_a_suspended_batch_fails_says_why_and_is_delivered_again(
    stream: Stream, history_path: Path, service: Service
) -> None:
    from pyspark.errors import StreamingQueryException

    begin(history_path, "doubtful")
    stream.add(["a", "doubtful"])
    trigger = orders(resolver=Down(1), resolver_attempts=1)
    one = dh.Suspension(history_path, trigger, poll_every="1 hour")
    handle = dh.spark.suspending(dh.spark.exactly_once(history_path, trigger, service, documents="arrow"), one)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=r"DH-SUSPENDED.*the shop is down.*it is tried again at"):
            stream.run(handle)
    assert service.runs == ["a"]
    assert one.status is not None
    assert (one.status.cause, one.status.polls) == ("resolver", 0)
    one.resume()
    stream.run(handle)
    assert service.runs == ["a", "doubtful"]


def test_waiting_batch_and_stream_survive_a_suspension(stream: Stream, history_path: Path, service: Service) -> None:
    begin(history_path, "doubtful")
    stream.add(["a", "doubtful"])
    trigger = orders(resolver=Down(3), resolver_attempts=1)
    one = dh.Suspension(history_path, trigger, poll_every=0.01, longest=0.01)
    handle = dh.spark.exactly_once(history_path, trigger, service, documents="arrow")
    stream.run(dh.spark.suspending(handle, one, wait="5 minutes"))
    assert service.runs == ["a", "doubtful"]
    assert one.status is None


def test_absent_history_suspends_and_is_not_created(stream: Stream, history_path: Path, service: Service) -> None:
    from pyspark.errors import StreamingQueryException

    one = dh.Suspension(history_path, orders(), poll_every=0.01, longest=0.01)
    handle = dh.spark.suspending(dh.spark.exactly_once(history_path, orders(), service, documents="arrow"), one)
    stream.add(["a"])
    stream.run(handle)
    stream.add(["a", "b"])
    away = history_path.with_name("away")
    history_path.rename(away)
    with pytest.raises(StreamingQueryException, match=r"DH-SUSPENDED.*history"):
        stream.run(handle)
    assert not history_path.exists()
    away.rename(history_path)
    assert one.wait("1 minute")
    stream.run(handle)
    assert service.runs == ["a", "b"]
