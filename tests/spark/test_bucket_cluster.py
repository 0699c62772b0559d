"""Executors as processes of their own, which share a bucket with the driver and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dochistory as dh
from tests.servers.objects import Server, moto
from tests.spark.bucket_messages_script import STREAMS
from tests.spark.cluster_script import IDS
from tests.spark.support import Recorder, orders, rows

# Several Sparks start, on machines that may be busy.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
HISTORIES = {"bucket_cluster_script": "orders.history", "bucket_messages_script": "messages.history"}


def run(home: Path, s3: Server, end: str, name: str = "bucket_cluster_script") -> "subprocess.CompletedProcess[str]":
    place = home / end
    place.mkdir()
    script = [sys.executable, "-m", f"tests.spark.{name}"]
    script += [str(place), f"{s3.url}/{HISTORIES[name]}", json.dumps(dict(s3.options)), end]
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


def test_executors_sharing_only_a_bucket_apply_each_once(tmp_path: Path) -> None:
    with moto() as s3:
        # The driver dies before its commit: while messages are sent, while they are applied.
        for end in ("sending", "applying"):
            died = run(tmp_path, s3, end, "bucket_messages_script")
            assert died.returncode == -9, died.stderr[-3000:]
        done = run(tmp_path, s3, "whole", "bucket_messages_script")
        assert done.returncode == 0, done.stderr[-3000:]
        said = json.loads(done.stdout.splitlines()[-1])
        assert said["executors"] == 2
        assert set(said["checks"].values()) == {"ok"}
        # Of what a dead driver had begun to send nobody knows whether it went out.
        assert said["pending"] == [f"m0-{number}" for number in range(10)]
        sent, applied = (Recorder(tmp_path / name).runs() for name in ("sent", "applied"))
        assert sent == sorted([*["m0-0"] * 2, *(f"m0-{number}" for number in range(1, 10)), *said["second"]])
        assert applied == sorted(f"{stream}:{offset}" for stream in STREAMS for offset in (10, 20, 30))
        with dh.open(f"{s3.url}/messages.history", storage_options=dict(s3.options)) as history:
            assert history.delivery_status()["log_received"].to_pylist() == [30] * len(STREAMS)
