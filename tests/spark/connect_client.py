"""What `test_connect.py` runs in processes of their own: a server of Spark Connect, and a client of it."""

import json
import sys
from pathlib import Path
from typing import Any

import dochistory as dh
from dochistory.objects.options import is_secret
from tests.spark.support import Recorder, Stream, orders, rows

Given = dict[str, Any]
"""What a bucket needs besides its URL."""


def judged(spark: Any, history: str, given: Given) -> dict[str, Any]:
    documents = spark.createDataFrame(rows(["done", "begun", "fresh"]))
    documents.createOrReplaceTempView("arrived")
    verdict = dh.spark.verdict(history, orders(), **given)
    dh.spark.register(spark, "verdict_of", history, orders(), columns=("uuid", "redelivery_count"), **given)
    dh.spark.register_table(spark, "classified", history, orders(), documents.schema, **given)
    if given:
        public = {name: value for name, value in given["storage_options"].items() if not is_secret(name)}
        entries = dh.spark.read(spark, history, "orders", storage_options=public, cache=given["cache"])
    else:
        entries = spark.read.format("dochistory").option("path", history).load()
    return {
        "udf": _statuses(dh.spark.classify(documents, history, orders(), **given)),
        "map": _statuses(dh.spark.classify(documents, history, orders(), "map", **given)),
        "column": _statuses(documents.select("uuid", verdict["status"].alias("status"))),
        "sql": _statuses(spark.sql("SELECT uuid, verdict_of(uuid, redelivery_count).status AS status FROM arrived")),
        "table": _statuses(spark.sql("SELECT uuid, status FROM classified(TABLE(arrived))")),
        "entries": {row.key: row.status for row in entries.collect()},
    }


def begun(spark: Any, history: str, given: Given) -> dict[str, Any]:
    """Claim, replay, load and count."""
    from pyspark.sql import Observation

    documents = spark.createDataFrame(rows(["done", "begun", "fresh", "fresher", "undone", "fresh"]))
    runs: list[str] = []
    for _ in range(2):
        with dh.spark.claim(documents, history, orders(), transaction=("connect", 1), parts=2, **given) as claim:
            runs += [row.uuid for row in claim.new.collect()]
            claim.release(claim.new.where("uuid = 'undone'"))
            claim.complete(claim.new.where("uuid = 'fresh'"))
            claim.complete()
    seen = Observation("seen")
    dh.spark.observed(dh.spark.classify(documents, history, orders(), **given), seen).collect()
    older = spark.createDataFrame(rows(["old", "older"]))
    loaded = dh.spark.load(older, history, orders(), application="seed", **given)
    return {"runs": sorted(runs), "loaded": loaded, "duplicates": seen.get["duplicate"], "new": seen.get["new"]}


TRIES = 5
TOO_LATE = "Python worker failed to connect back"
"""What Spark says of a process of `foreachBatch` that took ten seconds to start, as on a busy machine."""


def streamed(spark: Any, home: Path, history: str, given: Given) -> dict[str, Any]:
    """A stream whose batches are processed once, in a process of the server's; it is made to forget, and goes on."""
    stream, recorder = Stream(spark, home), Recorder(home / "runs")

    def service(new: Any, batch: Any) -> None:
        for row in new.collect():
            recorder.run(f"{batch.id}:{row.uuid}")

    def run(**options: Any) -> str | None:
        handle = dh.spark.exactly_once(history, orders(), service, **given, **options)
        error = ""
        for _ in range(TRIES):
            try:
                stream.run(handle)
            except Exception as raised:  # noqa: BLE001 - which of Connect's it is, is not what is asked
                error = str(raised)
            else:
                return None
            if TOO_LATE not in error:
                break
        return error

    found: dict[str, Any] = {}
    for ids in (["a", "b"], ["b", "c"]):
        stream.add(ids)
    found["without a name"] = run()
    found["first"] = run(application="connect")
    stream.forget_commit(1)
    stream.add(["d"])
    found["again"] = run(application="connect", decide_on="executors", parts=2)
    stream.checkpoint = home / "another"
    found["another checkpoint"] = run(application="connect")
    with dh.open(history, **given) as opened:
        ended = opened.entries(orders(), status="completed").read_all()["key"].to_pylist()
    return {**found, "runs": recorder.runs(), "completed": sorted(ended)}


def _statuses(df: Any) -> dict[str, str]:
    return {row.uuid: row.status for row in df.select("uuid", "status").collect()}


def serve(port: int) -> None:
    """Serve until standard input ends."""
    config = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    spark = dh.spark.session("connect", config=config)
    print("ready", flush=True)
    sys.stdin.read()
    spark.stop()


def ask(port: int, home: Path, history: str, given: Given) -> None:
    """Connect to that server, and print what each entrance finds."""
    with dh.open(history, create=True, **given) as opened:
        opened.begin(rows(["done"]), orders()).complete()
        opened.begin(rows(["begun"]), orders())
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    spark = builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    found = {
        **judged(spark, history, given),
        "begun": begun(spark, history, given),
        "streamed": streamed(spark, home, f"{history}-streamed", given),
    }
    module = type(spark).__module__
    spark.stop()
    print(json.dumps({"session": module, **found}))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        ask(int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], json.loads(sys.argv[5]))
