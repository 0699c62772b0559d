"""`dochistory.spark.ship`: workers that lack the package get it."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import dochistory as dh

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.slow]


def without_python_settings() -> dict[str, str]:
    left_out = ("SPARK_", "PYSPARK_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    """A Python with everything that this one has, but for the package."""
    venv.create(tmp_path / "worker", with_pip=False, symlinks=True)
    (site,) = (tmp_path / "worker" / "lib").glob("python*/site-packages")
    for one in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "dochistory" not in one.name and one.suffix != ".pth":
            (site / one.name).symlink_to(one)
    python = tmp_path / "worker" / "bin" / "python"
    asking = [str(python), "-c", "import pyarrow, pyspark, dochistory"]
    asked = subprocess.run(asking, capture_output=True, text=True, env=without_python_settings())
    assert "No module named 'dochistory'" in asked.stderr
    return python


def test_workers_that_lack_the_package_get_it(worker: Path, history_path: Path) -> None:
    environment = {**without_python_settings(), "PYSPARK_PYTHON": str(worker), "PYSPARK_DRIVER_PYTHON": sys.executable}
    package = str(Path(dh.__file__).parents[1])
    command = [sys.executable, str(Path(__file__).with_name("ship_driver.py")), package, str(history_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert run.returncode == 0, run.stderr[-4000:]
    found = json.loads(run.stdout.splitlines()[-1])

    said = f"[DH-SPARK] the Python of this executor ({worker} on "
    assert {name: said in text for name, text in found["before"].items()} == dict.fromkeys(found["before"], True)
    assert all("call dochistory.spark.ship(spark) before anything else" in text for text in found["before"].values())
    assert found["udf"] == found["map"] == {"done": "DUPLICATE", "fresh": "NEW"}
    assert not found["origin"].startswith(package)
