"""Start a local Spark session with settings that suit tests, demos and single machines."""

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from dochistory.spark import compat, java

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

    Finds a Java, or brings the one of the extra `jre`, and makes Spark's Python workers run this
    very interpreter (Spark would take the first `python3` on `PATH`, which need not know this
    package).

    Args:
        app_name: name of the application.
        master: Spark's master URL; `local[2]` has two tasks at a time. One that begins with `sc://`
            is a server of Spark Connect, which needs no Java here, but the extra `connect`.
        config: settings that win over the defaults.

    Returns:
        SparkSession: the session.

    Raises:
        JavaNotFoundError: there is no Java of at least version 17.
        UnsupportedError: a server of Spark Connect is asked for, and grpcio is not installed.
    """
    if master.startswith("sc://"):
        compat.check_connect()
        return _configured(SparkSession.builder.remote(master).appName(app_name), config or {})
    if SparkSession.getActiveSession() is None:
        os.environ["JAVA_HOME"] = str(java.find().home)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return _configured(SparkSession.builder.master(master).appName(app_name), {**_DEFAULTS, **(config or {})})


def _configured(builder: SparkSession.Builder, config: Mapping[str, str]) -> SparkSession:
    for name, value in config.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def submitted(app_name: str, master: str | None = None) -> SparkSession:
    """The session of a program that may have been started by `spark-submit`, or be on its own.

    Args:
        app_name: name of the application.
        master: Spark's master URL; if absent, that of the session that runs, of `spark-submit` or
            of Spark Connect's `SPARK_REMOTE`; where there is none of them, this machine.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    if master is None and any(name in os.environ for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")):
        return SparkSession.builder.appName(app_name).getOrCreate()
    return session(app_name, master=master or "local[2]")
