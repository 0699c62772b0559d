"""Counts of verdicts, as Spark observes them."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import dochistory as dh
from tests.spark.support import SCHEMA, orders, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

IDS = ["done", "begun", "fresh", "fresher", None, "x" * 97]
EXPECTED = {
    "documents": 6,
    "new": 2,
    "duplicate": 1,
    "in_doubt": 3,
    "suspended": 0,
    "rejected": 0,
    "no_id": 1,
    "too_long": 1,
}


@pytest.fixture
def history(history_path: Path) -> Path:
    with dh.open(history_path, create=True) as opened:
        opened.begin(rows(["done"]), orders()).complete()
        opened.begin(rows(["begun"]), orders())
    return history_path


def test_a_frame_is_counted_as_it_is_evaluated(spark: "SparkSession", history: Path) -> None:
    from pyspark.sql import Observation

    df = spark.createDataFrame(rows(IDS).to_pandas(), SCHEMA).repartition(2)
    seen = Observation("seen")
    judged = dh.spark.observed(dh.spark.classify(df, history, orders(), prefix="v_"), seen, prefix="v_")
    judged.collect()
    assert seen.get == EXPECTED


def test_stream_reports_counts_in_progress_and_to_listeners(
    spark: "SparkSession", history: Path, tmp_path: Path
) -> None:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    heard: list[Any] = []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            heard.append(dh.spark.report(event.progress))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: ARG002, N802
            ended.set()

    ended = threading.Event()
    listener = Listener()
    spark.streams.addListener(listener)
    (tmp_path / "input").mkdir()
    pq.write_table(rows(IDS), tmp_path / "input" / "1.parquet")
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "input"))
    judged = dh.spark.observed(dh.spark.classify(stream, history, orders()))
    writer = judged.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query: Any = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert ended.wait(60)
    spark.streams.removeListener(listener)

    assert [one for one in heard if one is not None] == [EXPECTED]
    reports = [dh.spark.report(one) for one in query.recentProgress]
    assert [one for one in reports if one is not None] == [EXPECTED]
    assert dh.spark.report(None) is None
    assert dh.spark.report(query.lastProgress, "another name") is None
