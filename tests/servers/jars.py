"""Java programs from Maven's repositories, fetched with the Ivy that PySpark brings, as Spark fetches packages."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from tests.servers import program

CACHE = Path.home() / ".cache" / "dochistory-tests"
"""What tests fetch once."""


def java() -> str:
    """A Java."""
    return shutil.which("java") or program("java", "default-jre-headless")


def jars(group: str, name: str, version: str) -> str:
    """The class path of an artifact, with all it needs; fetched once."""
    where = CACHE / f"{name}-{version}"
    if not (where / "complete").exists():
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise FileNotFoundError("PySpark is not installed, and with it no Ivy: install dochistory[spark]")
        ivy = next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
        where.mkdir(parents=True, exist_ok=True)
        pattern = f"{where}/[artifact]-[revision](-[classifier]).[ext]"
        command = [java(), "-jar", str(ivy), "-cache", str(CACHE / "ivy"), "-dependency", group, name, version]
        subprocess.run([*command, "-confs", "default", "-retrieve", pattern], check=True, capture_output=True)
        (where / "complete").touch()
    return ":".join(map(str, sorted(where.glob("*.jar"))))
