"""Claims on executors that are processes: `python -m tests.spark.cluster_script HOME`. Answers with JSON."""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import dochistory as dh
from tests.servers.spark_java import FOR_EXECUTORS
from tests.spark.support import Recorder, orders, rows

IDS = [f"d{number}" for number in range(4000)]


def main(home: Path) -> dict[str, Any]:
    """Claim, replay, and claim again what a plain process has changed meanwhile."""
    spark = dh.spark.session(
        master="local-cluster[2,1,1024]",
        config={
            **FOR_EXECUTORS,
            "spark.executor.memory": "768m",
            # The workers' address space is limited, as on a cluster that shares its machines.
            "spark.executor.pyspark.memory": "2g",
            "spark.sql.shuffle.partitions": "8",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.local.dir": str(home / "local"),
        },
    )
    history, recorder = home / "orders.history", Recorder(home / "runs")
    frame = spark.createDataFrame(rows(IDS).to_pandas()).repartition(8)
    executors = frame.mapInArrow(who_is_there, "executor string").distinct().count()
    counts: list[dict[str, int]] = []
    for batch in (1, 1, 2):
        with dh.spark.claim(frame, history, orders(), transaction=("cluster", batch)) as claim:
            for row in claim.new.collect():
                recorder.run(row.uuid)
            claim.complete()
            counts.append(claim.counts["rule"])
        # The workers live on, and their snapshots are of yesterday.
        with dh.open(history) as opened:
            opened.begin(rows([f"x{batch}"]), orders())
            opened.maintain(orders(), all=True)
    with dh.spark.claim(spark.createDataFrame(rows(["x1", "x2", "new"]).to_pandas()), history, orders()) as claim:
        counts.append(claim.counts["rule"])
    spark.stop()
    return {"executors": executors, "counts": counts}


def who_is_there(batches: Any) -> Any:
    """The executor of this task."""
    import os

    for _ in batches:
        pass
    # Spark's worker is the child of its daemon, and that of its executor.
    executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
    yield pa.RecordBatch.from_pydict({"executor": [executor]})


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
