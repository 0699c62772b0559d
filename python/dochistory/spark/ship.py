"""Send the installed package to executors that lack it."""

import os
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import dochistory as dh
from dochistory.spark import checks, compat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = ("dochistory", "pyspark_dochistory")


def ship(spark: "SparkSession", *, directory: str | os.PathLike[str] | None = None) -> list[Path]:
    """Let every executor of this session have the package that is installed here.

    Executors unpack it among the files of their application, where their Python workers look for
    modules. They need the same kind of machine as this one, and Python 3.11 or later with what
    Spark needs for itself (pyarrow, pandas). Where the package is installed, the installed one is
    used. Call it once, before anything else.

    Args:
        spark: the session.
        directory: where the archives are put for Spark to take them from; a temporary directory, if
            absent.

    Returns:
        The archives.

    Raises:
        ConfigError: [DH-CONFIG] `spark` is no session, or the package is not in a directory.
    """
    checks.session(spark)
    home = Path(directory or tempfile.mkdtemp(prefix="dochistory-"))
    home.mkdir(parents=True, exist_ok=True)
    return [_sent(spark, home, package) for package in _PACKAGES]


def _sent(spark: "SparkSession", home: Path, package: str) -> Path:
    archive = home / f"{package}-{dh.__version__}.zip"
    root = _directory(package)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for one in sorted(root.rglob("*")):
            if one.is_file() and "__pycache__" not in one.parts:
                file.write(one, one.relative_to(root))
    # An archive is unpacked into a directory of this name, which thereby is the package.
    compat.add_archive(spark, f"{archive}#{package}")
    return archive


def _directory(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise dh.ConfigError(f"[DH-CONFIG] the package {package} is not in a directory, so it cannot be sent")
    return Path(next(iter(spec.submodule_search_locations)))
