"""Workers that see another directory than the driver say so, whichever entrance they work for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import dochistory as dh

# A Spark of its own starts, on machines that may be busy.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]

ENTRANCES = ("claim", "classify", "load")

SEEN = {
    "missing": "no such directory",
    "empty": "the directory is empty",
    "strange": "there is a directory without a history, which holds notes.txt",
    "another": "there is another history, ",
    "older": "there is an older copy of the history, whose trigger orders is at state ",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    home = tmp_path_factory.mktemp("elsewhere")
    for name in ("driver", "worker"):
        (home / name).mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.elsewhere_script", str(home)],
        check=False,
        capture_output=True,
        cwd=home / "worker",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        timeout=1100,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: dict[str, dict[str, str]] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("situation", SEEN)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_worker_that_sees_another_directory_says_what_it_sees(
    told: dict[str, dict[str, str]], situation: str, entrance: str
) -> None:
    sentence = told[situation][entrance]
    assert "[DH-CLUSTER] this worker does not see the driver's directory /proc/self/cwd/orders.history: " in sentence
    assert SEEN[situation] in sentence
    assert os.uname().nodename in sentence


def test_a_task_of_a_sink_makes_no_history_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.types import StringType, StructField, StructType

    from dochistory.spark import sink

    for name in ("driver", "worker"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "driver")
    options = {"path": "/proc/self/cwd/orders.history", "trigger": "orders"}
    writer = sink.writer(options, StructType([StructField("uuid", StringType())]), overwrite=False)
    monkeypatch.chdir(tmp_path / "worker")
    with pytest.raises(dh.ClusterError, match=r"\[DH-CLUSTER\].*no such directory"):
        writer.write(iter([pa.record_batch({"uuid": ["a"]})]))
    assert list((tmp_path / "worker").iterdir()) == []


def test_workers_that_see_the_drivers_directory_do_their_work(told: dict[str, dict[str, str]]) -> None:
    assert told["same"] == {"claim": "claimed 2", "classify": "classified 2", "load": "loaded 2"}


def test_what_a_task_wrote_into_a_copy_is_missed_at_the_commit(told: dict[str, dict[str, str]]) -> None:
    sentence = told["copy"]["claim"]
    assert sentence.startswith("[DH-CLUSTER] a task says that it wrote /proc/self/cwd/orders.history/triggers/")
    assert "nothing was begun" in sentence
    assert told["after"]["rules"] == "R9 R9 R8"
