"""What Spark and its users do with plans, and its workers with what they keep: each service runs once all the same."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

import dochistory as dh
from dochistory.spark import staging
from tests.spark.support import Recorder, once_or_in_doubt, orders, rows, states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

IDS = [f"d{number}" for number in range(300)]


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "runs")


def frame(spark: "SparkSession", ids: Sequence[str]) -> "DataFrame":
    return spark.createDataFrame(rows(ids).to_pandas())


def serve(new: "DataFrame", recorder: Recorder) -> None:
    """The service, in the workers: once for each row that Spark hands to it."""
    path = recorder.path

    def run(row: Any) -> None:
        Recorder(path).run(row.uuid)

    new.foreach(run)


def use(documents: "DataFrame") -> None:
    """Everything that makes Spark evaluate a plan, or parts of it, again."""
    assert documents.count() == documents.count()
    documents.limit(3).collect()
    documents.show(2)
    documents.union(documents).groupBy("status").count().collect()
    documents.repartitionByRange(3, "uuid").sortWithinPartitions("uuid").collect()
    documents.join(documents.select(F.col("uuid").alias("other")), F.col("uuid") == F.col("other")).count()


@pytest.fixture
def aqe(spark: "SparkSession") -> Iterator[None]:
    """Adaptive plans that put together whatever they may."""
    settings = {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1g",
        "spark.sql.shuffle.partitions": "7",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, was in before.items():
        spark.conf.set(name, str(was))


@pytest.mark.usefixtures("aqe")
def test_claimed_documents_used_in_any_plan_run_once(
    spark: "SparkSession", history_path: Path, recorder: Recorder
) -> None:
    # Copies in partitions of their own, which come in another order with each evaluation.
    shuffled = frame(spark, IDS * 3).withColumn("luck", F.rand()).repartitionByRange(4, "luck")
    joined = shuffled.join(frame(spark, IDS).select("uuid").distinct(), "uuid")
    with dh.spark.claim(joined, history_path, orders(processing_mode="serial")) as claim:
        assert (claim.rows, len(claim)) == (900, 300)
        assert claim.counts["rule"] == {"R8": 300, "R8+batch": 600}
        use(claim.documents)
        serve(claim.new, recorder)
        claim.complete()
        assert claim.new.count() == 300
    assert recorder.runs() == sorted(IDS)
    once_or_in_doubt(history_path, recorder, IDS)
    assert states(history_path, "processing") == set()


@pytest.mark.slow
@pytest.mark.usefixtures("aqe")
def test_classified_plan_used_repeatedly_begins_nothing(
    spark: "SparkSession", history_path: Path, recorder: Recorder
) -> None:
    with dh.open(history_path, create=True) as history:
        history.begin(rows(IDS[:100]), orders()).complete()
    judged = dh.spark.classify(frame(spark, IDS).repartition(3), history_path, orders())
    use(judged)
    arrived = judged.where("status = 'NEW'").select("uuid", "redelivery_count", "payload")
    # The plan is pinned, and says NEW a second time; the claim knows better.
    for _ in range(2):
        assert arrived.count() == 200
        with dh.spark.claim(arrived, history_path, orders()) as claim:
            serve(claim.new, recorder)
            claim.complete()
    assert recorder.runs() == sorted(IDS[100:])
    assert states(history_path, "processing") == set()


def workers(spark: "SparkSession") -> set[int]:
    def who(batches: Any) -> Any:
        for _ in batches:
            pass
        yield pa.record_batch({"pid": [os.getpid()]})

    return {row.pid for row in spark.range(0, 8, 1, 2).mapInArrow(who, "pid long").collect()}


@pytest.mark.slow
def test_workers_that_live_on_do_not_decide_by_what_they_knew(
    spark: "SparkSession", history_path: Path, recorder: Recorder
) -> None:
    lived_on = False
    for turn in range(4):
        before, first = workers(spark), turn * 60
        with dh.spark.claim(frame(spark, IDS[first : first + 80]), history_path, orders()) as claim:
            serve(claim.new, recorder)
            claim.complete()
        # Others go on: what the workers keep is of yesterday, and the files of it are put together and let go.
        with dh.open(history_path) as history:
            theirs = history.begin(rows(IDS[first + 60 : first + 100]), orders())
            for one in theirs.new["uuid"].to_pylist():
                recorder.run(one)
            theirs.complete()
            history.maintain(orders(), all=True)
            history.purge(orders())
        lived_on |= bool(before & workers(spark))
    assert lived_on, "all workers were new: nothing was shown"
    seen = IDS[:280]
    assert recorder.runs() == sorted(seen)
    once_or_in_doubt(history_path, recorder, seen)
    assert states(history_path, "processing") == set()


@pytest.mark.slow
def test_claim_without_memory_for_mapped_files_is_decided(
    spark: "SparkSession", history_path: Path, tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = pa.array(f"{number:08x}-0000-4000-8000-{number:012x}" for number in range(1_500_000))
    with dh.open(history_path, create=True) as history:
        history.load(pa.table({"uuid": known}), orders())
        history.maintain(orders(), all=True)
    report = tmp_path / "report"

    class Confined(staging.Staging):
        """As under `spark.executor.pyspark.memory`, which limits the address space of a worker."""

        def part(self, batches: Iterator[Sequence[pa.Array]]) -> Iterator[pa.StructArray]:
            import resource

            status = Path("/proc/self/status").read_text().splitlines()
            used = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmSize"))
            soft, hard = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), hard))
            try:
                yield from super().part(batches)
                maps = Path("/proc/self/maps").read_text().splitlines()
                mapped = any(self.snapshot.sight.path in line and "/segment-" in line for line in maps)
                with report.open("a") as file:
                    file.write("mapped\n" if mapped else "not mapped\n")
            finally:
                resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    monkeypatch.setattr(staging, "Staging", Confined)
    ids = [*IDS, *known.slice(0, 200).to_pylist()]
    with dh.spark.claim(frame(spark, ids), history_path, orders(), parts=2) as claim:
        serve(claim.new, recorder)
        claim.complete()
        assert claim.counts["rule"] == {"R8": 300, "R9": 200}
    assert recorder.runs() == sorted(IDS)
    assert report.read_text().split("\n")[:2] == ["not mapped"] * 2
