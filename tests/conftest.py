"""Fixtures shared by all tests."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers.spark_java import FOR_DRIVERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_ENVIRONMENT = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def pytest_configure() -> None:
    """Also for Sparks that tests start in processes of their own."""
    os.environ.update(FOR_DRIVERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start a Spark come first: they take longest, and side by side nobody shall wait for one at the end."""
    with_spark = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: item.path not in with_spark)


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    """What a shell starts in the background ignores interrupts, and so would all that the tests start and interrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One local Spark for the whole run: two tasks at a time, each tried up to three times."""
    for name in [*os.environ]:
        if name.startswith("SPARK_") or name in SPARK_ENVIRONMENT:
            del os.environ[name]
    os.environ.update(FOR_DRIVERS)
    from dochistory.spark import session

    home = tmp_path_factory.mktemp("spark")
    running = session(
        "tests",
        master="local[2,3]",
        config={"spark.sql.warehouse.dir": str(home / "warehouse"), "spark.local.dir": str(home / "local")},
    )
    previous = sys.unraisablehook
    sys.unraisablehook = _without_sockets(previous)
    yield running
    running.stop()
    sys.unraisablehook = previous


def _without_sockets(previous: Any) -> Any:
    """PySpark leaves its sockets to the garbage collector, which under `-W error` would count as our fault."""

    def hook(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, ResourceWarning):
            previous(unraisable)

    return hook


@pytest.fixture
def history_path(tmp_path: Path) -> Path:
    """Where a test may put its history."""
    return tmp_path / "test.history"
