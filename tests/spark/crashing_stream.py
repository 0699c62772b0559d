"""Streams whose drivers die at a step that is given: `python -m tests.spark.crashing_stream STEP HOW HOME`.

HOW is who decides, `executors` or `driver`. Steps of both: `begun`, `served` (half of the batch, in
the service), `ended` (the service), `completed`. Of `executors`: `reserved`, `kept`; of `driver`:
`collected`. With `never` nobody dies, and there may be many HOW HOME. Every run of the service is
recorded in HOME/runs.
"""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dochistory as dh
from dochistory import _native
from dochistory.spark import claims, compat
from tests.spark.support import Recorder, Stream, orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def die() -> None:
    """As by power loss of the driver's machine: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def dying_at(step: str) -> None:
    """Let this process die at a step that our own code does not get to see."""
    run, read, collect = claims.Claimer.run, _native.read_receipt, compat.collect_arrow

    def late_run(self: Any, *arguments: Any) -> Any:
        if step == "reserved":
            die()
        return run(self, *arguments)

    def late_read(receipt: bytes) -> Any:
        # Between what was kept and the commit.
        if step == "kept":
            die()
        return read(receipt)

    def late_collect(frame: Any) -> Any:
        collected = collect(frame)
        if step == "collected":
            die()
        return collected

    setattr(claims.Claimer, "run", late_run)  # noqa: B010 - mypy forbids the plain way
    _native.read_receipt = late_read
    compat.collect_arrow = late_collect


def handle_all(spark: "SparkSession", home: Path, how: Any, step: str) -> None:
    """Handle all batches that there are."""
    recorder = Recorder(home / "runs")

    def begun(_batch: Any) -> None:
        if step == "begun":
            die()

    def service(new: Any, batch: Any) -> None:
        ids = sorted(row.uuid for row in new.collect())
        for place, one in enumerate(ids):
            if step == "served" and place == len(ids) // 2:
                die()
            recorder.run(one)
        if step == "ended":
            die()
        batch.claim.complete()
        if step == "completed":
            die()

    handle = dh.spark.exactly_once(
        home / "orders.history",
        orders(),
        service,
        decide_on=how,
        on_verdicts=begun,
        parts=2 if how == "executors" else None,
    )
    Stream(spark, home).run(handle)


def main(step: str, lives: list[str]) -> None:
    """Live all these lives, one after the other."""
    home = Path(lives[-1]).parent
    spark = dh.spark.session(
        master="local[2]",
        config={"spark.sql.warehouse.dir": str(home / "warehouse"), "spark.local.dir": str(home / "local")},
    )
    dying_at(step)
    for how, place in zip(lives[::2], lives[1::2], strict=True):
        handle_all(spark, Path(place), how, step)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
