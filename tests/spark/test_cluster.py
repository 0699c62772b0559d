"""Executors as processes of their own, which share a directory with the driver and nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.cluster_script import IDS
from tests.spark.support import Recorder, states

# Several Sparks start, on machines that may be busy.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]


def test_executors_sharing_only_a_directory_claim_each_once(tmp_path: Path) -> None:
    script = [sys.executable, "-m", "tests.spark.cluster_script", str(tmp_path)]
    done = subprocess.run(script, check=False, capture_output=True, timeout=1700, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])

    assert said["executors"] == 2
    assert said["counts"] == [{"R8": 4000}, {"R9": 4000}, {"R9": 4000}, {"R11": 2, "R8": 1}]
    assert Recorder(tmp_path / "runs").runs() == sorted(IDS)
    assert states(tmp_path / "orders.history", "completed") == set(IDS)
