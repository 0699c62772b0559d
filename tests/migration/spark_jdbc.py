"""Import a document-history table that Spark reads over JDBC: `python -m tests.migration.spark_jdbc PORT HISTORY`."""

import json
import sys

import dochistory as dh
from dochistory import migration
from dochistory.spark import session

DRIVER = "org.postgresql:postgresql:42.7.4"
QUERY = "(select trigger_name as trigger, doc_uuid::text as uuid, status, started as time from document_history) as old"


def main(port: str, history: str) -> None:
    spark = session("jdbc", master="local[2]", config={"spark.jars.packages": DRIVER})
    reader = spark.read.format("jdbc").option("url", f"jdbc:postgresql://127.0.0.1:{port}/postgres")
    old = reader.option("user", "test").option("driver", "org.postgresql.Driver").option("dbtable", QUERY).load()
    triggers = {
        name: dh.Trigger(name, detect_duplicates=True, use_history=True, history_time_to_live="30 days")
        for name in ("orders", "invoices")
    }
    with dh.open(history, create=True) as opened:
        done = migration.import_history(
            opened, migration.rows_of(old), triggers, statuses={"P": "processing", "C": "completed"}
        )
    spark.stop()
    print(json.dumps({"rows": done.rows, "loaded": done.loaded, "differences": done.differences.num_rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
