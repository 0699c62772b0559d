"""What the resolver of a Spark task calls DUPLICATE is recorded by the commit, once and only if it holds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest

import dochistory as dh
from dochistory.spark import staging
from tests.spark.support import Service, Stream, break_first_attempts, orders, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

IDS = ["shipped-1", "shipped-2", "unknown", "new"]


def asking() -> dh.Trigger:
    """A trigger whose resolver knows what was shipped."""

    def resolver(batch: pa.RecordBatch) -> list[str]:
        keys: list[str] = batch["dh_key"].to_pylist()
        return ["DUPLICATE" if key.startswith("shipped") else "IN_DOUBT" for key in keys]

    return orders(resolver=resolver)


def begun(path: Path) -> None:
    """All but the new one are in progress, and nobody will end them."""
    with dh.open(path, create=True) as history:
        history.begin(rows(IDS[:3]), orders())


def known(path: Path) -> list[str]:
    """The rules by which they would be decided now, without a resolver."""
    with dh.open(path, read_only=True) as history:
        found: list[str] = history.classify(rows(IDS), orders())["rule"].to_pylist()
        return found


def frame(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame(rows(IDS).to_pandas())


@pytest.mark.parametrize("resolver_on", ["executors", "driver"])
def test_duplicates_of_a_claims_resolver_are_recorded(
    spark: "SparkSession", history_path: Path, resolver_on: Literal["executors", "driver"]
) -> None:
    begun(history_path)
    with dh.spark.claim(frame(spark), history_path, asking(), resolver_on=resolver_on) as claim:
        assert claim.counts["rule"] == {"R10>S2": 2, "R10>S3": 1, "R8": 1}
        assert known(history_path) == ["R9", "R9", "R11", "R11"]
        claim.complete()
    with dh.spark.claim(frame(spark), history_path, asking(), resolver_on=resolver_on) as claim:
        assert claim.counts["rule"] == {"R9": 3, "R10>S3": 1}


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
def test_retried_tasks_record_their_resolution_once(
    spark: "SparkSession", history_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    begun(history_path)
    break_first_attempts(monkeypatch, staging, "Staging", when, "exception")
    with dh.spark.claim(frame(spark), history_path, asking()) as claim:
        claim.complete()
    assert known(history_path) == ["R9", "R9", "R11", "R9"]
    with dh.open(history_path) as history:
        entries = pa.table(history.entries(orders(), status="completed"))["key"].to_pylist()
    assert sorted(entries) == ["new", "shipped-1", "shipped-2"]


@pytest.mark.slow
def test_failed_job_records_no_resolution(
    spark: "SparkSession", history_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(history_path)
    whole: Any = staging.Staging

    class Failing(whole):  # type: ignore[misc]
        def part(self, batches: Any) -> Any:
            yield from super().part(batches)
            raise ValueError("the task broke")

    monkeypatch.setattr(staging, "Staging", Failing)
    with pytest.raises(Exception, match="the task broke"):
        dh.spark.claim(frame(spark), history_path, asking())
    assert known(history_path) == ["R11", "R11", "R11", "R8"]


@pytest.mark.slow
def test_replayed_batch_of_tasks_records_what_its_resolver_says(spark: "SparkSession", tmp_path: Path) -> None:
    stream, service = Stream(spark, tmp_path), Service()
    stream.add(IDS)
    path = tmp_path / "orders.history"
    settings: dict[str, Any] = {"decide_on": "executors", "documents": "arrow", "on_replay": "resolver"}
    handle = dh.spark.exactly_once(path, asking(), service, **settings)
    service.fail_with = ValueError("the shop is closed")
    with pytest.raises(Exception, match="the shop is closed"):
        stream.run(handle)
    stream.run(handle)
    assert known(path) == ["R9", "R9", "R11", "R11"]
    assert service.runs == []
