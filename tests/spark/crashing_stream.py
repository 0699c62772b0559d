"""A stream whose driver dies at a step that is given: `python -m tests.spark.crashing_stream HOME STEP`.

Steps: `reserved`, `kept`, `committed`, `served` (half of the batch, in the service), `ended` (the service),
`completed`, or `never`. It records every run of the service in HOME/runs.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory.spark import claims
from tests.spark.support import Recorder, Stream, orders


def die() -> None:
    """As by power loss of the driver's machine: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def dying_at(step: str) -> None:
    """Let this process die at a step of a claim."""
    run, judged = claims.Claimer.run, claims.Claimer._judged  # noqa: SLF001

    def late_run(self: Any, history: dh.History, job: dh.Job, end: Any) -> Any:
        if step == "reserved":
            die()
        made = run(self, history, job, end)
        if step == "committed":
            die()
        return made

    def late_judged(self: Any, *arguments: Any) -> Any:
        # Between what was kept and the commit.
        if step == "kept":
            die()
        return judged(self, *arguments)

    for name, late in (("run", late_run), ("_judged", late_judged)):
        setattr(claims.Claimer, name, late)


def main(home: Path, step: str) -> None:
    """Handle all batches that there are."""
    spark = dh.spark.session(
        master="local[2]",
        config={"spark.sql.warehouse.dir": str(home / "warehouse"), "spark.local.dir": str(home / "local")},
    )
    dying_at(step)
    recorder = Recorder(home / "runs")

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

    handle = dh.spark.exactly_once(home / "orders.history", orders(), service, decide_on="executors", parts=2)
    Stream(spark, home).run(handle)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
