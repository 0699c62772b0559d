"""`dochistory doctor --cluster`: what the driver and Spark's workers see of a history."""

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dochistory as dh
from dochistory import probe
from dochistory.cli import main
from dochistory.spark import cluster
from tests.spark.support import orders, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


@pytest.fixture
def history(history_path: Path) -> Path:
    with dh.open(history_path, create=True) as opened:
        opened.begin(rows(["a"]), orders())
    return history_path


def found(checks: list[Any]) -> dict[str, tuple[str, str]]:
    return {one.name: (one.result, one.found) for one in checks}


def test_the_doctor_looks_through_spark(
    spark: "SparkSession", history: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark is not None
    monkeypatch.setenv("COLUMNS", "200")
    before = sorted(history.iterdir())
    assert main(["doctor", "--cluster", "--history", str(history), "--json"]) == 0
    said = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    host = os.uname().nodename
    assert said["workers"]["found"].endswith(f"on 1 hosts: {host}")
    for name in ("driver", "same directory", "same history", "written by workers", "sync", "link"):
        assert said[name]["result"] == "ok", said[name]
    # One host says nothing about two.
    assert said["locks"]["result"] == "note"
    assert "it was refused to all others; all are on" in said["locks"]["found"]
    assert said["file system"]["found"].startswith(probe.file_system(history))
    assert sorted(history.iterdir()) == before
    assert main(["doctor", "--cluster", "--history", str(history)]) == 0
    assert "same directory" in capsys.readouterr().out


def test_doctor_without_a_history_reports_the_cluster_wrong(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    assert main(["doctor", "--cluster", "--history", str(tmp_path / "none"), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert not said["healthy"]
    assert [one["result"] for one in said["checks"] if one["name"] == "cluster"] == ["wrong"]


def test_locks_that_workers_get_all_the_same_are_wrong(
    spark: "SparkSession", history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The driver's lock is let go at once: to others it is as if locks were of no use here.
    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda file, _how: flock(file, fcntl.LOCK_UN))
    checks = found(cluster.check_cluster(history, spark))
    assert checks["locks"][0] == "wrong"
    assert "it got the lock that another process holds" in checks["locks"][1]


def test_workers_that_see_another_directory_are_named() -> None:
    driver = probe.Found("one", 1, "ext4", "", "aa", "", 1.0, "", "")
    elsewhere = probe.Found("two", 2, "nfs4", "the directory is empty", "", "", 0.0, "", "")
    other = probe.Found("three", 3, "nfs4", "", "bb", "", 2.0, "", "")
    checks = found(list(cluster._checks(driver, [elsewhere, other], {("one", 1)})))  # noqa: SLF001 - no two hosts here
    assert checks["same directory"] == ("wrong", "on two the directory is empty")
    assert checks["same history"] == ("wrong", "on three history bb")
    assert checks["written by workers"] == ("wrong", "on three what it wrote did not arrive")
    assert checks["locks"] == ("ok", "while the driver held a lock, it was refused to all others, also on three")
    assert checks["sync"][0] == "ok"


def test_locks_that_exclude_on_one_host_alone_are_wrong() -> None:
    driver = probe.Found("one", 1, "nfs4", "", "aa", "", 1.0, "", "")
    granted = probe.Found("two", 2, "nfs4", "", "aa", "", 1.0, "", "it got the lock that another process holds")
    checks = found(list(cluster._checks(driver, [granted], {("one", 1), ("two", 2)})))  # noqa: SLF001
    assert checks["locks"] == ("wrong", "on two it got the lock that another process holds")
