"""What `test_connect.py` runs in a process of its own: a client of a Spark Connect server that it starts and stops."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import dochistory as dh
from tests.spark.support import orders, rows


def judged(spark: Any, history: Path) -> dict[str, Any]:
    documents = spark.createDataFrame(rows(["done", "begun", "fresh"]))
    documents.createOrReplaceTempView("arrived")
    verdict = dh.spark.verdict(history, orders())
    dh.spark.register(spark, "verdict_of", history, orders(), columns=("uuid", "redelivery_count"))
    dh.spark.register_table(spark, "classified", history, orders(), documents.schema)
    entries = spark.read.format("dochistory").option("path", str(history)).load()
    return {
        "udf": _statuses(dh.spark.classify(documents, history, orders())),
        "map": _statuses(dh.spark.classify(documents, history, orders(), "map")),
        "column": _statuses(documents.select("uuid", verdict["status"].alias("status"))),
        "sql": _statuses(spark.sql("SELECT uuid, verdict_of(uuid, redelivery_count).status FROM arrived")),
        "table": _statuses(spark.sql("SELECT uuid, status FROM classified(TABLE(arrived))")),
        "entries": {row.key: row.status for row in entries.collect()},
    }


def _statuses(df: Any) -> dict[str, str]:
    return {row.uuid: row.status for row in df.select("uuid", "status").collect()}


def main(history: Path) -> None:
    with dh.open(history, create=True) as opened:
        opened.begin(rows(["done"]), orders()).complete()
        opened.begin(rows(["begun"]), orders())
    from dochistory.spark import java

    os.environ["JAVA_HOME"] = str(java.find().home)
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    spark = (
        builder.remote("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.connect.grpc.binding.address", "127.0.0.1")
        .config("spark.connect.grpc.binding.port", "0")
        .getOrCreate()
    )
    try:
        found = judged(spark, history)
    finally:
        spark.stop()
    print(json.dumps({"session": type(spark).__module__, **found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
