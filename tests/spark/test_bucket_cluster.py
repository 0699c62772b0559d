"""Executors as processes of their own, which share a bucket with the driver and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dochistory as dh
from tests.servers.objects import Server, moto
from tests.spark.cluster_script import IDS
from tests.spark.support import Recorder, orders, rows

# Several Sparks start, on machines that may be busy.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]


def run(home: Path, s3: Server, end: str) -> "subprocess.CompletedProcess[str]":
    place = home / end
    place.mkdir()
    script = [sys.executable, "-m", "tests.spark.bucket_cluster_script"]
    script += [str(place), f"{s3.url}/orders.history", json.dumps(dict(s3.options)), end]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(script, check=False, capture_output=True, timeout=1700, text=True, cwd=place, env=environment)


def test_executors_sharing_only_a_bucket_claim_each_once(tmp_path: Path) -> None:
    with moto() as s3:
        # The driver dies with its batch begun and processed, and comes again.
        assert run(tmp_path, s3, "killed").returncode == -9
        done = run(tmp_path, s3, "whole")
        assert done.returncode == 0, done.stderr[-3000:]
        said = json.loads(done.stdout.splitlines()[-1])
        assert said["executors"] == 2
        assert said["counts"] == [{"R11": 4000}, {"R11": 4000}, {"R11": 4000}, {"R11": 2, "R8": 1}]
        assert sorted(Recorder(tmp_path / "runs").runs()) == sorted(IDS)
        with dh.open(f"{s3.url}/orders.history", storage_options=dict(s3.options)) as history:
            assert set(history.classify(rows(IDS), orders())["rule"].to_pylist()) == {"R11"}


def test_executors_of_a_node_share_a_cache_that_is_lost(tmp_path: Path) -> None:
    with moto() as s3:
        done = run(tmp_path, s3, "shared")
        assert done.returncode == 0, done.stderr[-3000:]
        said = json.loads(done.stdout.splitlines()[-1])
        assert said["executors"] == 2
        assert said["counts"] == [{"R8": 4000}, {"R9": 4000}, {"R9": 4000}, {"R11": 2, "R8": 1}]
        assert sorted(Recorder(tmp_path / "runs").runs()) == sorted(IDS)
