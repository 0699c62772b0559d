"""Send the installed package to executors that lack it."""

import os
import sys
import tempfile
import zipfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import dochistory as dh
from dochistory.spark import compat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = ("dochistory", "pyspark_dochistory")


def ship(spark: "SparkSession", *, directory: str | os.PathLike[str] | None = None) -> str:
    """Let every executor of this session have the package that is installed here.

    The executors need the same kind of machine and Python 3.11 or later with pyarrow, which Spark needs by itself, but
    not this package. Call it once, before anything else of this package runs in the session.

    Args:
        spark: the session.
        directory: where the archive is put for Spark to take it from; a temporary directory, if absent.

    Returns:
        The path of the archive, for `spark.archives` of other sessions.

    Raises:
        UnsupportedError: before Spark 4.0.
    """
    home = Path(directory or tempfile.mkdtemp(prefix="dochistory-"))
    home.mkdir(parents=True, exist_ok=True)
    archive = home / f"dochistory-{dh.__version__}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for package in _PACKAGES:
            root = _root(package)
            for one in sorted(root.rglob("*")):
                if one.is_file() and "__pycache__" not in one.parts:
                    file.write(one, Path(package) / one.relative_to(root))
    compat.add_archive(spark, archive, NAME)
    return str(archive)


NAME = "dochistory-shipped"
"""The directory into which executors unpack the archive, among the files of their application."""


def _root(package: str) -> Path:
    spec = import_module("importlib.util").find_spec(package)
    return Path(next(iter(spec.submodule_search_locations)))


def find_shipped() -> None:
    """Make the package that was shipped importable in this worker, unless it is anyway."""
    from pyspark import SparkFiles

    place = str(Path(SparkFiles.getRootDirectory()) / NAME)
    if place not in sys.path:
        sys.path.append(place)
