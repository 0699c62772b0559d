"""One Spark driver of the demo: a stream whose batches go through `exactly_once` to a service that records its runs."""

import argparse
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dochistory as dh
from records import note_runs, note_verdicts

TRIGGER = dh.Trigger("mails", processing_mode="serial")


class Service:
    """Process each mail once: note its digest. For the demo it can kill everything half-way."""

    def __init__(self, work: Path, phase: str, kill_in_batch: int | None) -> None:
        self._work = work
        self._phase = phase
        self._kill_in_batch = kill_in_batch

    def __call__(self, new: pa.Table, batch: Any) -> None:
        """Process the new mails of one batch."""
        if batch.id == self._kill_in_batch:
            note_runs(self._work, new.slice(0, new.num_rows // 2)["sha256"].to_pylist())
            os.killpg(0, signal.SIGKILL)
        note_runs(self._work, new["sha256"].to_pylist())
        # The effect is one file per batch number, written atomically: a second run of a batch has no second effect.
        draft = self._work / "draft.parquet"
        pq.write_table(new, draft)
        draft.replace(self._work / "delivered" / f"{self._phase}-{batch.id:03d}.parquet")


def main() -> None:
    """Run the stream over all files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("phase", choices=["first", "again"])
    parser.add_argument("policy", choices=["in_doubt", "rerun"])
    parser.add_argument("--kill-in-batch", type=int)
    options = parser.parse_args()
    work: Path = options.work
    (work / "delivered").mkdir(exist_ok=True)

    spark = dh.spark.session("demo")
    handle = dh.spark.exactly_once(
        work / "mails.history",
        TRIGGER,
        Service(work, options.phase, options.kill_in_batch),
        on_replay=options.policy,
        documents="arrow",
        on_verdicts=lambda batch: note_verdicts(work, options.phase, batch),
    )
    files = spark.readStream.schema("uuid string, sha256 string, redelivery_count int").option("maxFilesPerTrigger", 1)
    query = (
        files.parquet(str(work / options.phase))
        .writeStream.foreachBatch(handle)
        .option("checkpointLocation", str(work / f"checkpoint-{options.phase}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
