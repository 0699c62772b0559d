"""How the tests' Sparks run their Java: `python -m tests.servers.spark_java` makes them start quickly."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
"""Classes of Spark as Java has them in memory once they are loaded. A Java that cannot use it loads them itself."""
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A test runs each of its plans a few times: to compile them well would cost more than it saves."""
# Where the archive is another Java's, this one says so among the output of the program.
OPTIONS = f"{_QUICK} -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else _QUICK
FOR_DRIVERS = {"SPARK_SUBMIT_OPTS": OPTIONS}
"""The environment in which a driver starts."""
FOR_EXECUTORS = {"spark.executor.extraJavaOptions": OPTIONS}
"""The settings of executors that are processes of their own."""


def make_archive() -> bool:
    """Keep the classes that a Spark loads which does what tests do. Answers whether there is an archive now."""
    with tempfile.TemporaryDirectory(dir=sys.prefix) as place:
        made = Path(place) / ARCHIVE.name
        options = f"{_QUICK} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
        command = [sys.executable, "-c", "from tests.servers.spark_java import use_spark; use_spark()", place]
        # Java ends after Python, and with it what it writes.
        subprocess.run(command, env={**os.environ, "SPARK_SUBMIT_OPTS": options}, check=False, capture_output=True)
        if made.exists():
            made.replace(ARCHIVE)
    return ARCHIVE.exists()


def use_spark() -> None:
    """A stream, a shuffle, Arrow and files, in the directory that the command line names."""
    from dochistory.spark import session

    place = Path(sys.argv[1])
    where = {"spark.sql.warehouse.dir": str(place / "warehouse"), "spark.local.dir": str(place / "local")}
    spark = session(master="local[2]", config=where)
    rows = spark.createDataFrame([(f"d{number}", number % 3) for number in range(100)], "uuid string, kind int")
    rows.write.json(str(place / "rows"))
    rows.repartition(2).mapInArrow(lambda batches: batches, "uuid string, kind int").groupBy("kind").count().collect()
    stream = spark.readStream.schema("uuid string, kind int").json(str(place / "rows"))
    writer = stream.writeStream.foreachBatch(lambda batch, _number: print(batch.collect()))
    writer = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    print(f"{ARCHIVE} is there" if make_archive() else "Spark's classes are not kept, so tests of Spark start slowly")
