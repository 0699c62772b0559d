"""The first command that a reader runs does what its text says."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.parametrize("policy", ["in_doubt", "rerun"])
def test_demo_survives_its_kill_with_every_figure_right(tmp_path: Path, policy: str) -> None:
    command = [sys.executable, str(ROOT / "examples" / "demo"), "--policy", policy]
    command += ["--work", str(tmp_path / "work"), "--picture", str(tmp_path / "demo.png")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "SIGKILL half-way through batch 5" in run.stdout
    assert "Every figure is what the rules demand." in run.stdout
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(600)  # seven receivers start and stop one after the other, beside other tests
@pytest.mark.parametrize("broker", ["rabbitmq", "sqs"])
def test_demo_of_a_broker_survives_its_kills(tmp_path: Path, broker: str) -> None:
    command = [sys.executable, "-m", "examples.broker", "--broker", broker, "--mails", "900"]
    command += ["--work", str(tmp_path / "work"), "--picture", str(tmp_path / "demo.png")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=580, cwd=ROOT)

    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("killed with SIGKILL") == 5
    assert "Every figure is what the rules demand." in run.stdout
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
