"""Java programs from Maven's repositories, fetched with the Ivy that PySpark brings, as Spark fetches packages."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import suppress
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
    where = CACHE / "jars" / f"{name}-{version}"
    if not where.exists():
        where.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=where.parent) as place:
            _fetch(Path(place), group, name, version)
            # Another process may have been quicker.
            with suppress(OSError):
                (Path(place) / "all").rename(where)
    return ":".join(map(str, sorted(where.glob("*.jar"))))


def _fetch(place: Path, group: str, name: str, version: str) -> None:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("PySpark is not installed, and with it no Ivy: install dochistory[spark]")
    ivy = next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    # A cache of its own: Ivy's is not for several at once. It mostly waits, so compiling it well does not pay.
    command = [java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(ivy), "-cache", str(place / "ivy")]
    pattern = f"{place}/all/[artifact]-[revision](-[classifier]).[ext]"
    what = ["-dependency", group, name, version, "-confs", "default", "-retrieve", pattern]
    subprocess.run([*command, *what], check=True, capture_output=True)
