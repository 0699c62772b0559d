"""Fixtures and markers of the whole suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dochistory as dh
import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "crash: kills writer processes on purpose")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where a history may be created."""
    return tmp_path / "orders.history"


@pytest.fixture
def history(directory: Path) -> Iterator[dh.History]:
    """A new, empty history."""
    with dh.open(directory, create=True) as opened:
        yield opened
