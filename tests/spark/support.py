"""What several Spark tests need: triggers, and streams whose batches are files."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dochistory as dh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = "uuid string, redelivery_count int, payload string"

TIME_TO_LIVE = "2 hours"
"""Of `orders()`; not the default, so whoever writes to such a history has to say it as well."""


def stored(spark: "SparkSession") -> set[int]:
    """What Spark stores, by number."""
    any_spark: Any = spark
    return set(any_spark.sparkContext._jsc.getPersistentRDDs())  # noqa: SLF001 - no other way to see


def orders(**settings: Any) -> dh.Trigger:
    """A trigger that detects duplicates by its history."""
    return dh.Trigger("orders", **{"history_time_to_live": TIME_TO_LIVE, **settings})


def rows(ids: Iterable[str | None], redelivery_count: int = 0) -> pa.Table:
    """One document per id."""
    ids = list(ids)
    return pa.table(
        {
            "uuid": pa.array(ids, pa.string()),
            "redelivery_count": pa.array([redelivery_count] * len(ids), pa.int32()),
            "payload": pa.array([f"payload of {one}" for one in ids], pa.string()),
        }
    )


class Stream:
    """A stream that hands over one batch per file added, and can be made to forget that a batch was done."""

    def __init__(self, spark: "SparkSession", home: Path) -> None:
        self.spark = spark
        self.checkpoint = home / "checkpoint"
        self._input = home / "input"
        self._input.mkdir(parents=True, exist_ok=True)

    def add(self, ids: Sequence[str | None], redelivery_count: int = 0) -> None:
        """One more batch."""
        number = len(list(self._input.glob("*.parquet")))
        file = self._input / f"{number:04d}.parquet"
        pq.write_table(rows(ids, redelivery_count), file)
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # the order of the batches

    def run(self, handle: "Callable[[DataFrame, int], None]") -> None:
        """Handle all batches there are; raises what failed the query."""
        self.start(handle).awaitTermination()

    def start(self, handle: "Callable[[DataFrame, int], None]") -> "StreamingQuery":
        """Begin to handle all batches there are."""
        stream = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self._input))
        return (
            stream.writeStream.foreachBatch(handle)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )

    def forget_commit(self, batch: int) -> None:
        """As if Spark had died after the batch's effects and before it noted that the batch was done."""
        commits = self.checkpoint / "commits"
        (commits / str(batch)).unlink()
        (commits / f".{batch}.crc").unlink(missing_ok=True)


class Service:
    """A service that records every document it runs, and can be told to fail once."""

    def __init__(self) -> None:
        self.runs: list[str | None] = []
        self.fail_with: BaseException | None = None
        self.fail_after = 0

    def __call__(self, new: pa.Table, _batch: object) -> None:
        ids = new["uuid"].to_pylist()
        if self.fail_with is not None:
            failure, self.fail_with = self.fail_with, None
            self.runs += ids[: self.fail_after]
            raise failure
        self.runs += ids


class Recorder:
    """A service that appends each run to a file, which outlives its process: one line a run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, document: str) -> None:
        """Record one run, durably."""
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, f"{document}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)

    def runs(self) -> list[str]:
        """All runs so far, by document."""
        return sorted(self.path.read_text().split()) if self.path.exists() else []


def states(history: Path, status: Any, trigger: dh.Trigger | None = None) -> set[str]:
    """The keys of a history in this status."""
    with dh.open(history, read_only=True) as opened:
        return set(pa.table(opened.entries(trigger or orders(), status=status))["key"].to_pylist())


def once_or_in_doubt(history: Path, recorder: Recorder, ids: Iterable[str]) -> None:
    """What must hold after anything: each document's service ran exactly once, or the document is in doubt."""
    runs = recorder.runs()
    doubtful = states(history, "processing")
    assert len(runs) == len(set(runs)), "a service ran twice"
    assert set(runs) <= set(ids)
    lost = set(ids) - set(runs) - doubtful
    assert not lost, f"neither run nor in doubt: {sorted(lost)[:5]}"
    assert states(history, "completed") <= set(runs), "completed without a run"


def break_first_attempts(monkeypatch: pytest.MonkeyPatch, module: ModuleType, worker: str, when: str, how: str) -> None:
    """Let the first attempt at each partition fail, `before` the worker's `part` does its work or `after` it.

    Args:
        monkeypatch: undoes it.
        module: where the tasks' class is.
        worker: the class; its `part` takes a partition's columns.
        when: `before` or `after`.
        how: `exception`, `exit` of the worker's process, or `kill` of it.
    """

    def fail() -> None:
        if how == "exception":
            raise ValueError("the task broke")
        if how == "exit":
            os._exit(9)
        os.kill(os.getpid(), signal.SIGKILL)

    whole: Any = getattr(module, worker)

    class Failing(whole):  # type: ignore[misc]  # which class it is, is known only here
        def part(self, batches: Iterator[Sequence[pa.Array]]) -> Iterator[pa.StructArray]:
            from pyspark import TaskContext

            context = TaskContext.get()
            is_first = context is not None and context.attemptNumber() == 0
            if is_first and when == "before":
                fail()
            yield from super().part(batches)
            if is_first:
                fail()

    monkeypatch.setattr(module, worker, Failing)


def keep_two_versions(monkeypatch: pytest.MonkeyPatch, frame: "DataFrame") -> None:
    """Let Spark keep what two attempts at each task answered, as it may where `spark.speculation` copies slow tasks.

    The driver then reads the receipts of the ones, and whoever reads the rows gets those of the
    others.
    """
    once = type(frame).localCheckpoint

    def twice(rows: "DataFrame", *args: Any, **kwargs: Any) -> "DataFrame":
        receipt = "__dochistory_answer.receipt"
        first, second = once(rows, *args, **kwargs), once(rows, *args, **kwargs)
        mixed = first.where(f"{receipt} IS NOT NULL").unionByName(second.where(f"{receipt} IS NULL"))
        return once(mixed, *args, **kwargs)

    monkeypatch.setattr(type(frame), "localCheckpoint", twice)


def left_over(history: Path) -> list[str]:
    """What jobs left of themselves in the history's directory: their reservations, and what they staged."""
    (space,) = (history / "triggers").iterdir()
    return sorted(file.name for file in space.iterdir() if file.name.startswith(("new-", "pin-")))


def swept(history: Path, trigger: dh.Trigger | None = None) -> bool:
    """Whether upkeep leaves nothing of any job, once their reservations are let go."""
    trigger = trigger or orders()
    with dh.open(history) as opened:
        for pin in opened.pins(trigger):
            opened.unpin(trigger, pin["snapshot"])
        opened.maintain(trigger, all=True)
    return left_over(history) == []


def wait_until(holds: Callable[[], bool]) -> None:
    """Come back when it holds; that takes two minutes at most."""
    for _ in range(1200):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to that")
