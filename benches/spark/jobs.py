"""One job in a process of its own; prints what it found as JSON: `python -m benches.spark.jobs NAME`."""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

import dochistory as dh
from benches.spark import classify, commit, data, pinned, streams
from benches.workload import Workload

Job = Callable[..., dict[str, Any]]

BATCH: dict[str, Job] = {
    "udf": classify.udf,
    "map": classify.rows_in_arrow,
    "map_payload": partial(classify.rows_in_arrow, payload=True),
    "crossing": classify.crossing,
    "versus": classify.versus,
    "left_join": classify.left_join,
    "drop_duplicates": classify.drop_duplicates,
}
ALONE: dict[str, Job] = {"commit": commit.commit, "workers": pinned.workers}
"""Jobs that need no Spark, or start their own."""
STREAM: dict[str, Job] = {
    "stream": streams.own,
    "stream_in_tasks": streams.own_in_tasks,
    "stream_writing": streams.own_writing,
    "stream_nothing_writing": streams.nothing_writing,
    "stream_writing_payload": partial(streams.own_writing, payload=True),
    "stream_nothing_writing_payload": partial(streams.nothing_writing, payload=True),
    "stream_within_watermark_writing": partial(streams.within_watermark_writing, filled=True),
    "stream_nothing": streams.nothing,
    "stream_within_watermark": streams.within_watermark,
    "stream_within_watermark_filled": partial(streams.within_watermark, filled=True),
    "stream_drop_duplicates": streams.drop_duplicates,
    "stream_with_state": streams.with_state,
    "stream_delta_merge": streams.delta_merge,
}

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def main() -> None:
    """Run it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("job", choices=[*BATCH, *ALONE, *STREAM])
    arguments.add_argument("--n", type=int, default=10_000_000, help="ids in the history")
    arguments.add_argument("--p", type=int, default=30, help="days of the history")
    arguments.add_argument("--rows", type=int, default=1_000_000, help="documents, or ids in a batch of a stream")
    arguments.add_argument("--runs", type=int, default=5, help="runs, or batches of a stream")
    arguments.add_argument("--cores", type=int, default=2, help="Spark's task slots, and so workers")
    given = arguments.parse_args()
    data.HOME.mkdir(parents=True, exist_ok=True)
    workload = Workload(given.n, given.p)
    spark = None if given.job in ALONE else _session(given.job, given.cores)
    found = (BATCH | ALONE | STREAM)[given.job](spark, workload, given.rows, given.runs)
    if spark is not None:
        spark.stop()
    parts = found.pop("parts", {})
    json.dump(
        {"seconds": found, "parts": parts, "rows": given.rows, "n": given.n, "spark": pyspark.__version__}, sys.stdout
    )


def _session(job: str, cores: int) -> SparkSession:
    config = {
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.driver.memory": "3g",
    }
    if job == "stream_delta_merge":
        config |= {
            "spark.jars.packages": delta_package(),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    return dh.spark.session("benches", master=f"local[{cores}]", config=config)


def delta_package() -> str:
    """Delta for this Spark, as the file `out/bench-spark/delta` names it, else by its usual name.

    4.4.0 is the newest that could be had. It is made for Spark 4.0 to 4.2; on 4.3 it writes tables
    and cannot merge.
    """
    named = data.HOME / "delta"
    if named.exists():
        return named.read_text().strip()
    feature = ".".join(pyspark.__version__.split(".")[:2])
    return f"io.delta:delta-spark_{feature if feature in ('4.0', '4.1') else '4.2'}_2.13:4.4.0"


if __name__ == "__main__":
    Path("out").mkdir(exist_ok=True)
    main()
