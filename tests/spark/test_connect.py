"""Classifying and reading through Spark Connect: a server on this machine, started and stopped by its client."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")

ROOT = Path(__file__).parents[2]


def test_every_entrance_works_through_connect(history_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", "-m", "tests.spark.connect_client", str(history_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, cwd=ROOT)
    assert run.returncode == 0, run.stderr[-4000:]
    found = json.loads(run.stdout.splitlines()[-1])

    assert found.pop("session").startswith("pyspark.sql.connect.")
    assert found.pop("entries") == {"done": "completed", "begun": "processing"}
    expected = {"done": "DUPLICATE", "begun": "IN_DOUBT", "fresh": "NEW"}
    assert found == dict.fromkeys(("udf", "map", "column", "sql", "table"), expected)
