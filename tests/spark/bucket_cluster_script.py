"""Claims on executors that share only a bucket: `python -m tests.spark.bucket_cluster_script HOME URL OPTIONS END`.

With `killed` as the last word the driver dies by a signal once its service has run. With `shared`
the executors are of one node, and their cache is damaged after the first batch and lost after the
second. Answers with JSON.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import dochistory as dh
from tests.servers.spark_java import FOR_EXECUTORS
from tests.spark.cluster_script import IDS, who_is_there
from tests.spark.support import Recorder, orders, rows


def harm(cache: Path, batch: int) -> None:
    """Damage every file of the cache after batch 1; remove it after batch 2."""
    kept = [one for one in (cache / "dochistory-objects").iterdir() if one.stat().st_size]
    assert kept
    for one in kept if batch == 1 else ():
        size = one.stat().st_size
        one.unlink()  # what is in use has another name
        one.write_bytes(b"x" * size)
    if batch == 2:
        shutil.rmtree(cache / "dochistory-objects")


def main(home: Path, url: str, options: dict[str, str], end: str) -> dict[str, Any]:
    """Claim, replay, and claim again what a plain process has changed meanwhile."""
    home.mkdir(exist_ok=True)
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
    recorder = Recorder(home.parent / "runs")
    frame = spark.createDataFrame(rows(IDS).to_pandas()).repartition(4)
    executors = frame.mapInArrow(who_is_there, "executor string").distinct().count()
    # Relative: below the directory that each executor works in.
    cache = home / "shared-cache" if end == "shared" else Path("own-cache")
    where: dict[str, Any] = {"storage_options": options, "cache": cache}
    with dh.open(url, create=True, **where) as history:
        history.load(rows([f"old-{number}" for number in range(20_000)]), orders())
    counts: list[dict[str, int]] = []
    for batch in (1, 1, 2):
        with dh.spark.claim(frame, url, orders(), transaction=("cluster", batch), **where) as claim:
            for row in claim.new.collect():
                recorder.run(row.uuid)
            if end == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            claim.complete()
            counts.append(claim.counts["rule"])
        with dh.open(url, **where) as opened:
            opened.begin(rows([f"x{batch}"]), orders())
            opened.maintain(orders(), all=True, grace=0)
        if end == "shared":
            harm(cache, batch)
    judged = dh.spark.classify(spark.createDataFrame(rows(["x1", "x2", "new"]).to_pandas()), url, orders(), **where)
    counts.append(dict(judged.groupBy("rule").count().collect()))
    spark.stop()
    return {"executors": executors, "counts": counts}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), sys.argv[4])))
