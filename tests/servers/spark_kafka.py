"""A Spark with its Kafka source, whose newest release may be older than the PySpark that is installed here.

PySpark of the source's version is put into a directory of its own, and goes before the installed
one on the path of the processes that a test starts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.servers.jars import CACHE, jars
from tests.servers.spark_java import FOR_DRIVERS

VERSION = "4.2.0"
"""The newest version of which Maven Central has spark-sql-kafka."""
_ARTIFACT = "spark-sql-kafka-0-10_2.13"


def environment() -> dict[str, str]:
    """The environment of a process that imports this PySpark."""
    path = [str(_pyspark()), *filter(None, [os.environ.get("PYTHONPATH")])]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {**kept, **FOR_DRIVERS, "PYTHONPATH": os.pathsep.join(path)}


def source_jars() -> list[str]:
    """What the source needs and Spark does not bring: for `spark.jars`."""
    brought = {_name(jar) for jar in (_pyspark() / "pyspark" / "jars").glob("*.jar")}
    found = map(Path, jars("org.apache.spark", _ARTIFACT, VERSION).split(":"))
    return [str(jar) for jar in found if _name(jar) not in brought]


def _name(jar: Path) -> str:
    """The artifact's name, without its version."""
    return jar.stem.rpartition("-")[0]


def _pyspark() -> Path:
    """Where this PySpark is; installed once."""
    where = CACHE / f"pyspark-{VERSION}"
    if not (where / "complete").exists():
        shutil.rmtree(where, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(where), f"pyspark=={VERSION}"]
        subprocess.run(command, check=True)
        (where / "complete").touch()
    return where
