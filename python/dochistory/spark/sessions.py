"""Start a local Spark session with settings that suit tests, demos and single machines."""

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from dochistory.spark import java

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    # One task a core: a local session gains nothing from Spark's 200.
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Everything talks through this machine's loopback address, whatever its host name resolves to.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(
    app_name: str = "dochistory", *, master: str = "local[2]", config: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark session on this machine: the one that runs already, or a new one.

    Finds a Java, or brings the one of the extra `jre`, and makes Spark's Python workers run this very interpreter
    (Spark would take the first `python3` on `PATH`, which need not know this package).

    Args:
        app_name: name of the application.
        master: Spark's master URL; `local[2]` has two tasks at a time.
        config: settings that win over the defaults.

    Raises:
        JavaNotFoundError: there is no Java of at least version 17.
    """
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = str(java.find().home)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in {**_DEFAULTS, **(config or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
