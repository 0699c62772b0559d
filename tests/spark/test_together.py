"""Many at once with one trigger: queries, a backfill, plain processes, a purge and upkeep."""

import datetime as dt
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dochistory as dh
from tests.spark.support import Recorder, Stream, once_or_in_doubt, orders, rows, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# They wait for each other, on machines that may be busy.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

IDS = [f"d{number}" for number in range(1000)]

CONSUMER = """
import sys, random, time
from pathlib import Path
import dochistory as dh
from tests.spark.support import Recorder, orders, rows
history, runs, seed = Path(sys.argv[1]), Recorder(Path(sys.argv[2])), int(sys.argv[3])
chance = random.Random(seed)
with dh.open(history) as opened:
    for _ in range(25):
        first = chance.randrange(960)
        claim = opened.begin(rows([f"d{n}" for n in range(first, first + 40)]), orders(resolver=None))
        for one in claim.new["uuid"].to_pylist():
            runs.run(one)
        claim.complete()
        time.sleep(0.02)
"""


class Work:
    """Threads, and what went wrong in them."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - told at the end
                self.failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread


class Upkeep:
    """Purges and maintains all the time, and sees to it that there is always something to purge."""

    def __init__(self, history: Path) -> None:
        self.history = history
        self.over = threading.Event()
        self.purged = 0

    def __call__(self) -> None:
        number = 0
        with dh.open(self.history) as history:
            while not self.over.is_set():
                long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(hours=5)
                history.begin(rows([f"old-{number}"]), orders(), now=long_ago).complete()
                history.maintain(orders(), all=True)
                self.purged += sum(one["entries"] for one in history.purge(orders()).values())
                number += 1
                self.over.wait(0.1)
        # An entry whose begin and end came to stand in different files is counted twice.
        assert self.purged >= number > 0


def test_queries_backfill_consumers_and_purges_share_documents(
    spark: "SparkSession", history_path: Path, tmp_path: Path
) -> None:
    dh.open(history_path, create=True).close()
    recorder = Recorder(tmp_path / "runs")

    def service(new: "DataFrame", _batch: Any) -> None:
        for row in new.collect():
            recorder.run(row.uuid)

    def query(name: str, start: int, how: Any) -> Callable[[], None]:
        stream = Stream(spark, tmp_path / name)
        for first in range(start, 1000, 500):
            stream.add(IDS[first : first + 500])
        handle = dh.spark.exactly_once(history_path, orders(), service, decide_on=how)
        return lambda: stream.run(handle)

    def backfill() -> None:
        frame = spark.createDataFrame(rows(IDS).to_pandas())
        with dh.spark.claim(frame, history_path, orders()) as claim:
            for row in claim.new.collect():
                recorder.run(row.uuid)
            claim.complete()

    command = [sys.executable, "-c", CONSUMER, str(history_path), str(recorder.path)]
    consumers = [subprocess.Popen([*command, str(seed)]) for seed in range(4)]
    work, upkeep = Work(), Upkeep(history_path)
    keeper = work.thread(upkeep)
    workers = [work.thread(one) for one in (query("one", 0, "executors"), query("two", 250, "driver"), backfill)]
    for worker in workers:
        worker.join()
    assert [consumer.wait(600) for consumer in consumers] == [0] * 4
    upkeep.over.set()
    keeper.join()
    assert not work.failures, work.failures[0]
    assert upkeep.purged
    once_or_in_doubt(history_path, recorder, IDS)
    assert recorder.runs() == sorted(IDS)
    assert states(history_path, "processing") == set()
