"""`dochistory.spark.send_once`: each message goes out once, however often Spark hands a batch over."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import dochistory as dh
from tests.mapper.support import mapped, pending
from tests.spark.support import Stream
from tests.spark.where import Where

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def stream(spark: "SparkSession", tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


class Outside:
    """The external system: what was sent to it, in order."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.fails: Exception | None = None

    def __call__(self, new: pa.Table, _batch: Any) -> list[str]:
        if isinstance(self.fails, dh.RolledBack):
            raise self.fails
        self.got += new["uuid"].to_pylist()
        if self.fails is not None:
            raise self.fails
        return [f"ext-{id_}" for id_ in new["uuid"].to_pylist()]


def handler(where: Where, outside: Any, **options: Any) -> Any:
    given = {"messages": "arrow", "columns": {"id": "uuid"}, **where.given, **options}
    return dh.spark.send_once(where.path, "jms", outside, **given)


def test_every_message_is_sent_once_and_mapped(stream: Stream, where: Where) -> None:
    outside = Outside()
    stream.add(["a", "b"])
    stream.add(["b", "c"])
    stream.run(handler(where, outside))

    assert outside.got == ["a", "b", "c"]
    with where.open() as history:
        assert mapped(history.mapper("jms"), ["a", "b", "c"]) == ["ext-a", "ext-b", "ext-c"]


def test_a_replayed_batch_sends_nothing_again(stream: Stream, where: Where) -> None:
    outside, seen = Outside(), list[list[str]]()
    stream.add(["a"])
    stream.add(["b"])
    note = lambda batch: seen.append(batch.verdicts["rule"].to_pylist())  # noqa: E731 - one line says it
    stream.run(handler(where, outside, on_verdicts=note))
    stream.forget_commit(1)
    stream.run(handler(where, outside, on_verdicts=note))

    assert outside.got == ["a", "b"]
    assert seen == [["M1"], ["M1"], ["M2"]]


def test_message_that_may_have_been_sent_stops_the_stream(stream: Stream, where: Where) -> None:
    outside = Outside()
    outside.fails = OSError("the line is dead")
    stream.add(["a", "b"])
    with pytest.raises(StreamingQueryException, match="the line is dead"):
        stream.run(handler(where, outside))
    outside.fails = None
    with pytest.raises(StreamingQueryException, match="DH-PENDING"):
        stream.run(handler(where, outside))
    with where.open() as history:
        mapper = history.mapper("jms")
        assert pending(mapper) == ["a", "b"]
        mapper.resolve(["a"], "duplicate")
        mapper.resolve(["b"], "process")
    stream.run(handler(where, outside))

    assert outside.got == ["a", "b", "b"]
    with where.open() as history:
        assert mapped(history.mapper("jms"), ["a", "b"]) == [None, "ext-b"]


def test_what_was_rolled_back_for_certain_is_new(stream: Stream, where: Where) -> None:
    outside = Outside()
    outside.fails = dh.RolledBack("nothing went out")
    stream.add(["a"])
    with pytest.raises(StreamingQueryException, match="nothing went out"):
        stream.run(handler(where, outside))
    outside.fails = None
    stream.run(handler(where, outside))

    assert outside.got == ["a"]


def test_a_receiver_that_is_idempotent_may_be_run_again(stream: Stream, where: Where) -> None:
    outside = Outside()
    outside.fails = OSError("killed")
    stream.add(["a", "b"])
    with pytest.raises(StreamingQueryException, match="killed"):
        stream.run(handler(where, outside))
    outside.fails = None
    stream.run(handler(where, outside, on_replay="rerun"))

    assert outside.got == ["a", "b", "a", "b"]


def test_invalid_options_are_refused(tmp_path: Path) -> None:
    where = Where(tmp_path)
    with pytest.raises(dh.ConfigError, match="on_replay"):
        handler(where, Outside(), on_replay="resolver")
    with pytest.raises(dh.ConfigError, match="messages"):
        handler(where, Outside(), messages="pandas")
