"""What a claim must withstand: after each of these every service ran exactly once, or its document is in doubt."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory.spark import compat, staging
from tests.spark.support import (
    Recorder,
    Stream,
    break_first_attempts,
    keep_two_versions,
    left_over,
    once_or_in_doubt,
    orders,
    rows,
    states,
    swept,
    wait_until,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

IDS = [f"d{number}" for number in range(200)]


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "runs")


def frame(spark: "SparkSession", ids: Sequence[str]) -> "DataFrame":
    return spark.createDataFrame(rows(ids).to_pandas())


def serve(claim: Any, recorder: Recorder) -> None:
    for row in claim.new.collect():
        recorder.run(row.uuid)
    claim.complete()


@pytest.mark.parametrize(
    ("how", "when"),
    [
        ("exception", "after"),
        ("kill", "before"),
        *(
            pytest.param(how, when, marks=pytest.mark.slow)
            for how, when in [("exception", "before"), ("exit", "before"), ("exit", "after"), ("kill", "after")]
        ),
    ],
)
def test_retried_task_counts_only_its_winning_attempt(
    spark: "SparkSession",
    history_path: Path,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    how: str,
) -> None:
    break_first_attempts(monkeypatch, staging, "Staging", when, how)
    with dh.spark.claim(frame(spark, IDS), history_path, orders()) as claim:
        assert len(claim) == len(IDS)
        serve(claim, recorder)
    assert recorder.runs() == sorted(IDS)
    assert states(history_path, "completed") == set(IDS)
    assert left_over(history_path) == []


def test_a_slow_task_and_its_copy_that_end_together_are_one(
    spark: "SparkSession", history_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = frame(spark, IDS)
    keep_two_versions(monkeypatch, documents)
    with dh.spark.claim(documents, history_path, orders()) as claim:
        serve(claim, recorder)
    assert recorder.runs() == sorted(IDS)
    assert states(history_path, "completed") == set(IDS)


def test_a_copy_that_decided_otherwise_is_handed_to_nobody(
    spark: "SparkSession", history_path: Path, tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    asked.mkdir()

    def moody(batch: pa.RecordBatch) -> list[str]:
        part = asked / str(batch["dh_key"][0])
        status = "DUPLICATE" if part.exists() else "NEW"
        part.touch()
        return [status] * batch.num_rows

    with dh.open(history_path, create=True) as history:
        history.begin(rows(IDS), orders())
    documents = spark.createDataFrame(rows(IDS, redelivery_count=1).to_pandas())  # in doubt, so that it is asked
    keep_two_versions(monkeypatch, documents)
    refused = pytest.raises(Exception, match=r"\[DH-STATE\] Spark kept two versions of this claim's rows")
    with dh.spark.claim(documents, history_path, orders(resolver=moody)) as claim, refused:
        serve(claim, recorder)
    assert recorder.runs() == []


@pytest.mark.parametrize("times", [1, 99])
def test_rows_lost_before_anything_is_begun_are_decided_again(
    spark: "SparkSession", history_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    documents, kept = frame(spark, IDS), []
    once = type(documents).localCheckpoint

    def lost(rows: "DataFrame", *args: Any, **kwargs: Any) -> "DataFrame":
        found = once(rows, *args, **kwargs)
        kept.append(found)
        if len(kept) <= times:
            compat.let_go(found)  # as an executor takes them with it
        return found

    monkeypatch.setattr(type(documents), "localCheckpoint", lost)
    if times > 1:
        with pytest.raises(Exception, match="Checkpoint block rdd_"):
            dh.spark.claim(documents, history_path, orders())
        assert states(history_path, "processing") == set()
    else:
        with dh.spark.claim(documents, history_path, orders()) as claim:
            serve(claim, recorder)
        assert recorder.runs() == sorted(IDS)
        assert states(history_path, "completed") == set(IDS)
    assert left_over(history_path) == []


@pytest.mark.slow
def test_a_job_that_fails_for_good_leaves_nothing(
    spark: "SparkSession", history_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hopeless(staging.Staging):
        def part(self, batches: Iterator[Sequence[pa.Array]]) -> Iterator[pa.StructArray]:
            yield from super().part(batches)
            raise ValueError("the task broke")

    with monkeypatch.context() as patched:
        patched.setattr(staging, "Staging", Hopeless)
        with pytest.raises(Exception, match="the task broke"):
            dh.spark.claim(frame(spark, IDS), history_path, orders())
    assert states(history_path, "processing") == set()
    assert not [name for name in left_over(history_path) if name.startswith("pin-")]
    # Spark does not wait for the other tasks of a job that failed: what they stage after that goes with upkeep.
    wait_until(lambda: swept(history_path))
    with dh.spark.claim(frame(spark, IDS), history_path, orders()) as claim:
        assert len(claim) == len(IDS)


@pytest.mark.slow
def test_a_zombie_that_ends_late_changes_nothing(
    spark: "SparkSession", history_path: Path, tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, done = tmp_path / "go", tmp_path / "done"

    class Haunted(staging.Staging):
        """Whose first attempts fail, but leave a process behind that stages when all is over."""

        def part(self, batches: Iterator[Sequence[pa.Array]]) -> Iterator[pa.StructArray]:
            from pyspark import TaskContext

            context = TaskContext.get()
            if context is None or context.attemptNumber() > 0:
                yield from super().part(batches)
                return
            received = [pa.RecordBatch.from_arrays(list(one), list(self.names)) for one in batches]
            self.staged(received)
            if os.fork() == 0:
                try:
                    os.setsid()
                    # It has the snapshot open since before; whoever comes later would be told that it was let go.
                    sight, token = self.snapshot.sight, self.snapshot.token
                    zombie = dh.open(sight.path, snapshot=token, read_only=True)
                    part, documents = context.partitionId(), pa.Table.from_batches(received)
                    zombie._shards.stage(documents, self.trigger, job=self.job, part=part, attempt=f"early-{part}")
                    for _ in range(1200):
                        if go.exists():
                            break
                        time.sleep(0.1)
                    zombie._shards.stage(documents, self.trigger, job=self.job, part=part, attempt=f"zombie-{part}")
                    (done.parent / f"done-{part}").touch()
                finally:
                    os._exit(0)
            raise ValueError("the task broke")

    monkeypatch.setattr(staging, "Staging", Haunted)
    with dh.spark.claim(frame(spark, IDS), history_path, orders(), parts=2) as claim:
        go.touch()
        for part in range(2):
            wait_until((tmp_path / f"done-{part}").exists)
        serve(claim, recorder)
    assert recorder.runs() == sorted(IDS)
    assert [name for name in left_over(history_path) if "zombie" in name]
    with dh.open(history_path) as history:
        history.maintain(orders(), all=True)
    assert left_over(history_path) == []
    assert states(history_path, "completed") == set(IDS)


def test_what_spark_forgot_having_done_does_not_run_again(
    spark: "SparkSession", history_path: Path, tmp_path: Path, recorder: Recorder
) -> None:
    stream = Stream(spark, tmp_path)
    stream.add(IDS[:50])
    stream.add(IDS[40:100])
    seen: list[dict[str, int]] = []

    def service(new: "DataFrame", _batch: Any) -> None:
        for row in new.collect():
            recorder.run(row.uuid)

    handle = dh.spark.exactly_once(
        history_path,
        orders(),
        service,
        decide_on="executors",
        on_verdicts=lambda batch: seen.append(batch.claim.counts["rule"]),
    )
    stream.run(handle)
    stream.forget_commit(1)
    stream.run(handle)

    assert recorder.runs() == sorted(IDS[:100])
    assert seen == [{"R8": 50}, {"R8": 50, "R9": 10}, {"R9": 60}]


def test_failed_service_leaves_only_its_batch_in_doubt(
    spark: "SparkSession", history_path: Path, tmp_path: Path, recorder: Recorder
) -> None:
    from pyspark.errors import StreamingQueryException

    stream = Stream(spark, tmp_path)
    stream.add(IDS[:10])
    stream.add(IDS[10:20])
    fails = [True]

    def service(new: "DataFrame", _batch: Any) -> None:
        for place, row in enumerate(new.orderBy("uuid").collect()):
            if fails and place == 5:
                fails.pop()
                raise ValueError("the service broke")
            recorder.run(row.uuid)

    handle = dh.spark.exactly_once(history_path, orders(), service, decide_on="executors")
    with pytest.raises(StreamingQueryException, match="the service broke"):
        stream.run(handle)
    stream.run(handle)
    once_or_in_doubt(history_path, recorder, IDS[:20])
    assert states(history_path, "processing") == set(IDS[:10])


def test_suspended_batch_of_tasks_is_replayed_and_loses_nothing(
    spark: "SparkSession", history_path: Path, tmp_path: Path, recorder: Recorder
) -> None:
    from pyspark.errors import StreamingQueryException

    with dh.open(history_path, create=True) as history:
        history.begin(rows(["d7"]), orders())
    stream = Stream(spark, tmp_path)
    stream.add(IDS[:10])
    down = tmp_path / "down"
    down.touch()

    def resolver(batch: pa.RecordBatch) -> list[str]:
        if down.exists():
            raise dh.TransientError("the database is down")
        return ["NEW"] * batch.num_rows

    def service(new: pa.Table, _batch: Any) -> None:
        for one in new["uuid"].to_pylist():
            recorder.run(one)

    handle = dh.spark.exactly_once(
        history_path, orders(resolver=resolver), service, decide_on="executors", documents="arrow", parts=2
    )
    with pytest.raises(StreamingQueryException, match=r"\[DH-SUSPENDED\] \d+ of the 10 documents of batch 0"):
        stream.run(handle)
    assert "d7" not in recorder.runs()
    down.unlink()
    stream.run(handle)
    assert recorder.runs() == sorted(IDS[:10])
    assert states(history_path, "completed") == set(IDS[:10])
