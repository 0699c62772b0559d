"""A stream of Kafka's records through `exactly_once`: `python -m tests.spark.kafka_stream SETTINGS`.

SETTINGS is JSON. The service writes a line to the file of effects for each document, in one write:
what a killed driver had begun is there whole, or not at all.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

import dochistory as dh
from tests.support import trigger

ID = "cast(try_element_at(filter(headers, header -> header.key = 'id'), -1).value as string)"
"""The id, which the producer puts into a header."""


def main(settings: dict[str, Any]) -> None:
    """Handle what there is, or until somebody kills this process."""
    place = Path(settings["place"])
    spark = dh.spark.session(
        config={
            "spark.jars": ",".join(settings["jars"]),
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.local.dir": str(place / "local"),
        }
    )
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings["servers"])
        .option("subscribe", settings["topic"])
        .option("startingOffsets", "earliest")
        .option("includeHeaders", True)
        .option("maxOffsetsPerTrigger", settings["at_once"])
        .load()
    )
    effects = os.open(settings["effects"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def service(new: Any, _batch: Any) -> None:
        for row in new.collect():
            time.sleep(settings["takes"])
            os.write(effects, f"{row.uuid}\n".encode())

    of = trigger("orders", processing_mode="serial")
    handle = dh.spark.exactly_once(
        settings["history"],
        of,
        service,
        decide_on=settings["decide_on"],
        on_verdicts=dh.spark.keep_in_doubt(settings["history"], of),
    )
    stream = records.select(F.expr(ID).alias("uuid"), "value").writeStream.foreachBatch(handle)
    stream = stream.option("checkpointLocation", str(place / settings["checkpoint"]))
    if settings["until_drained"]:
        stream = stream.trigger(availableNow=True)
    stream.start().awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
