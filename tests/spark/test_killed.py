"""A stream whose driver is killed at any step of a batch: a service ran exactly once, or its document is in doubt."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.spark.support import Recorder, Stream, once_or_in_doubt, states

# Sparks start, on machines that may be busy.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

IDS = [f"d{number}" for number in range(20)]

# Of the first batch: documents in doubt when all is over, and runs of services by then. The others ran once.
LIVES = {
    ("executors", "reserved"): (0, 10),
    ("executors", "kept"): (0, 10),
    ("executors", "begun"): (10, 0),
    ("executors", "served"): (10, 5),
    ("executors", "ended"): (10, 10),
    ("executors", "completed"): (0, 10),
    ("driver", "collected"): (0, 10),
    ("driver", "begun"): (10, 0),
    ("driver", "served"): (10, 5),
    ("driver", "ended"): (10, 10),
    ("driver", "completed"): (0, 10),
}
ON_EVERY_SPARK = {("executors", "served"), ("driver", "ended")}


def crash(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "tests.spark.crashing_stream", *arguments]
    return subprocess.run(command, check=False, capture_output=True, timeout=850)


@pytest.fixture(scope="module")
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the lives that these tests ask for have ended, each in a directory of its own, and were taken up again."""
    found = tmp_path_factory.mktemp("killed")
    asked: Sequence[Any] = [one for one in request.session.items if one.path == Path(__file__)]
    lives = [(one.callspec.params["how"], one.callspec.params["step"]) for one in asked]
    nobody: Any = None  # it only adds input
    for how, step in lives:
        stream = Stream(nobody, found / f"{how}-{step}")
        stream.add(IDS[:10])
        stream.add(IDS[10:])
        died = crash(step, how, str(found / f"{how}-{step}"))
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()[-2000:]
    restarted = crash("never", *(word for how, step in lives for word in (how, str(found / f"{how}-{step}"))))
    assert restarted.returncode == 0, restarted.stderr.decode()[-2000:]
    return found


@pytest.mark.parametrize(
    ("how", "step"),
    [pytest.param(*life, marks=[pytest.mark.matrix] if life in ON_EVERY_SPARK else []) for life in LIVES],
)
def test_driver_killed_at_any_step_runs_nothing_twice(home: Path, how: str, step: str) -> None:
    place = home / f"{how}-{step}"
    history, recorder = place / "orders.history", Recorder(place / "runs")
    in_doubt, runs = LIVES[how, step]

    once_or_in_doubt(history, recorder, IDS)
    assert len(states(history, "processing")) == in_doubt
    assert len(recorder.runs()) == runs + 10
