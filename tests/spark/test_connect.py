"""Classifying and reading through Spark Connect: a server on this machine, started and stopped by its client."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.objects import KEY, SECRET, moto
from tests.servers.spark_java import FOR_DRIVERS

pytestmark = pytest.mark.spark
pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-W", "ignore", "-m", "tests.spark.connect_client"]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    # The format takes no secrets as options: what reads by it finds them here.
    kept |= {**FOR_DRIVERS, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    return {**kept, "PYTHONPATH": os.pathsep.join([str(ROOT), kept.get("PYTHONPATH", "")])}


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server on this machine, which ends with the test."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*PROGRAM, "serve", str(number)], env=environment(), cwd=ROOT, **pipes) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == "ready\n"
            yield int(number)
        finally:
            server.stdin.close()
            server.wait(timeout=120)


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_every_entrance_works_through_connect(port: int, history_path: Path) -> None:
    asked(port, history_path.parent, str(history_path), {})


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_entrance_takes_the_url_of_a_bucket(port: int, tmp_path: Path) -> None:
    with moto() as s3:
        given = {"storage_options": dict(s3.options), "cache": str(tmp_path / "cache")}
        asked(port, tmp_path, f"{s3.url}/orders.history", given)


def asked(port: int, home: Path, history: str, given: dict[str, Any]) -> None:
    """Use each entrance by a client of its own."""
    command = [*PROGRAM, "ask", str(port), str(home), history, json.dumps(given)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=550, env=environment(), cwd=ROOT)
    assert run.returncode == 0, run.stderr[-4000:]
    found = json.loads(run.stdout.splitlines()[-1])

    assert found.pop("session").startswith("pyspark.sql.connect.")
    # Replayed, its documents are DUPLICATE, but for what was released by itself: nobody has processed that.
    runs = ["fresh", "fresher", "undone", "undone"]
    assert found.pop("begun") == {"runs": runs, "loaded": 2, "duplicates": 4, "new": 1}
    streamed = found.pop("streamed")
    assert "exactly_once needs application=" in streamed.pop("without a name")
    assert "[DH-TRANSACTION]" in streamed.pop("another checkpoint")
    assert streamed == {
        "first": None,
        "again": None,
        "runs": ["0:a", "0:b", "1:c", "2:d"],
        "completed": ["a", "b", "c", "d"],
    }
    assert found.pop("entries") == {"done": "completed", "begun": "processing"}
    expected = {"done": "DUPLICATE", "begun": "IN_DOUBT", "fresh": "NEW"}
    assert found == dict.fromkeys(("udf", "map", "column", "sql", "table"), expected)
