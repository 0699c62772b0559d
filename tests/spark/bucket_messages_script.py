"""Messages on executors that share only a bucket: `python -m tests.spark.bucket_messages_script HOME URL OPTIONS END`.

The driver dies by a signal in the middle of its first batch: with `sending` when one message has
gone out, with `applying` when one stream is applied. With `whole` it takes the same batches again.
Answers with JSON.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import dochistory as dh
from tests.delivery.support import header
from tests.mapper.support import pending
from tests.servers.spark_java import FOR_EXECUTORS
from tests.spark.cluster_script import who_is_there
from tests.spark.support import Recorder

STREAMS = [f"s{number}" for number in range(8)]
SECOND = [f"m1-{number}" for number in range(10)]


class Sent:
    """What messages go out to; it may be the end of the process."""

    def __init__(self, home: Path, end: str) -> None:
        self.recorder, self.is_fatal = Recorder(home.parent / "sent"), end == "sending"

    def __call__(self, new: pa.Table, _batch: object) -> None:
        """Send the messages."""
        for one in new["id"].to_pylist():
            self.recorder.run(one)
            if self.is_fatal:
                os.kill(os.getpid(), signal.SIGKILL)


class Applied:
    """Where messages are applied, each with its offset in one step."""

    def __init__(self, home: Path, end: str) -> None:
        self.recorder, self.is_fatal = Recorder(home.parent / "applied"), end == "applying"

    def __call__(self, found: pa.Table, _batch: object) -> None:
        """Apply the messages."""
        for row in found.to_pylist():
            self.recorder.run(f"{row['dh_stream']}:{row['dh_commit']}")
            if self.is_fatal and row["dh_commit"] == 20:
                os.kill(os.getpid(), signal.SIGKILL)

    def upto(self, stream: str, *_range: int) -> int:
        """How far a stream is applied."""
        done = [one.partition(":")[2] for one in self.recorder.runs() if one.startswith(f"{stream}:")]
        return max(map(int, done), default=0)


def main(home: Path, url: str, options: dict[str, str], end: str) -> dict[str, Any]:
    """Check, send and apply."""
    spark = dh.spark.session(
        master="local-cluster[2,1,1024]",
        config={
            **FOR_EXECUTORS,
            "spark.executor.memory": "768m",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.local.dir": str(home / "local"),
        },
    )
    # Relative: below the directory that each executor works in.
    where: dict[str, Any] = {"storage_options": options, "cache": Path("own-cache")}
    executors = spark.range(8).repartition(8).mapInArrow(who_is_there, "executor string").distinct().count()
    dh.open(url, create=True, **where).close()
    checks = {one.name: one.result for one in dh.spark.check_cluster(url, spark, **where)}
    found = [] if end == "applying" else sent(spark, home, url, end, where)
    if end != "sending":
        applied(spark, home, url, end, where)
    spark.stop()
    return {"executors": executors, "checks": checks, "pending": found, "second": SECOND}


def sent(spark: Any, home: Path, url: str, end: str, where: dict[str, Any]) -> list[str]:
    """Send two batches; answers what the first one could not tell of."""
    handle = dh.spark.send_once(url, "jms", Sent(home, end), application="app", messages="arrow", **where)
    first = spark.createDataFrame([(f"m0-{number}",) for number in range(10)], "id string").repartition(4)
    try:
        handle(first.orderBy("id"), 0)
    except dh.PendingMessageError:
        with dh.open(url, **where) as history:
            found = pending(history.mapper("jms"))
            history.mapper("jms").resolve(found, "process")
    handle(first.orderBy("id"), 0)
    handle(spark.createDataFrame([(one,) for one in SECOND], "id string"), 1)
    handle(first.sparkSession.createDataFrame([(one,) for one in SECOND], "id string"), 1)
    return sorted(found)


def applied(spark: Any, home: Path, url: str, end: str, where: dict[str, Any]) -> None:
    """Apply two batches."""
    sink = Applied(home, end)
    start: dict[str, Any] = {"start": dict.fromkeys(STREAMS, 0), "patience": 9}
    handle = dh.spark.delivery(
        url, sink, application="feed", messages="arrow", applied=sink.upto, parts=4, **start, **where
    )
    for batch, offsets in enumerate([(10, 20), (30, 20)]):
        rows = [(stream, header(offset - 10, offset)) for stream in STREAMS for offset in offsets]
        handle(spark.createDataFrame(rows, "stream string, header string").repartition(4), batch)
    handle.close()


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), sys.argv[4])))
